// SPDX-License-Identifier: MIT
/* sources: tests/host/acpi_memory.c */
/* sources: drivers/acpi/[a-z]*.c lib/acpi.c */
#include "tests/host/acpi_memory.h"

UNIT(finds_through_xsdt, .setup_func = memory_clear)
{
	table_add("AAAA", "one", 4);
	table_add("BBBB", "two", 4);
	assert_true(tables_publish());
	const struct acpi_header *table = acpi_find("BBBB");
	assert_non_null(table);
	assert_int_equal(table->length, HEADER + 4);
	assert_string_equal((const char *)(table + 1), "two");
	assert_null(acpi_find("CCCC"));
}

UNIT(finds_through_rsdt, .setup_func = memory_clear)
{
	const uint32_t table = table_store("AAAA", "x", 2);
	rsdp_store(table_store("RSDT", &table, 4), 0);
	assert_true(acpi_init(&memory.boot));
	assert_non_null(acpi_find("AAAA"));
}

UNIT(prefers_xsdt_falls_back_to_rsdt, .setup_func = memory_clear)
{
	const uint32_t old = table_store("OLD ", "", 0);
	const uint64_t new = table_store("NEW ", "", 0);
	const uint32_t rsdt = table_store("RSDT", &old, 4);
	const uint32_t xsdt = table_store("XSDT", &new, 8);

	rsdp_store(rsdt, xsdt);
	assert_true(acpi_init(&memory.boot));
	assert_non_null(acpi_find("NEW "));
	assert_null(acpi_find("OLD "));

	memory_at(xsdt)[HEADER]++;
	assert_true(acpi_init(&memory.boot));
	assert_non_null(acpi_find("OLD "));
}

UNIT(counts_tables_of_one_signature, .setup_func = memory_clear)
{
	table_add("SSDT", "a", 2);
	table_add("AAAA", "b", 2);
	table_add("SSDT", "c", 2);
	assert_true(tables_publish());
	assert_string_equal((const char *)(acpi_find_nth("SSDT", 0) + 1), "a");
	assert_string_equal((const char *)(acpi_find_nth("SSDT", 1) + 1), "c");
	assert_null(acpi_find_nth("SSDT", 2));
}

UNIT(bad_checksum_is_passed_over, .setup_func = memory_clear)
{
	const uint32_t first = table_add("AAAA", "bad", 4);
	table_add("AAAA", "good", 5);
	memory_at(first)[HEADER] ^= 1;
	assert_true(tables_publish());
	assert_string_equal((const char *)(acpi_find("AAAA") + 1), "good");
}

UNIT(lengths_are_checked, .setup_func = memory_clear)
{
	static const uint32_t lengths[] = {0, 1, 35, 0x4000, 4u << 20, 0x7fffffff, 0xffffffff};
	const uint32_t table = table_add("AAAA", "abcdefg", 8);

	assert_true(tables_publish());
	assert_non_null(acpi_find("AAAA"));
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memcpy(memory_at(table) + 4, &lengths[i], 4);
		assert_true(acpi_init(&memory.boot));
		assert_null(acpi_find("AAAA"));
	}
}

UNIT(wild_addresses_are_passed_over, .setup_func = memory_clear)
{
	const uint64_t entries[] = {0, 1, 0xfffffffffffffff0, MEMORY_BASE + MEMORY_SIZE - 3,
				    table_store("AAAA", "x", 2)};
	rsdp_store(0, table_store("XSDT", entries, sizeof(entries)));
	assert_true(acpi_init(&memory.boot));
	assert_non_null(acpi_find("AAAA"));
}

UNIT(partial_last_entry_is_not_read, .setup_func = memory_clear)
{
	const uint64_t entry = table_store("AAAA", "x", 2);
	uint8_t body[15];
	memcpy(body, &entry, 8);
	memcpy(body + 8, &entry, 7);
	rsdp_store(0, table_store("XSDT", body, sizeof(body)));
	assert_true(acpi_init(&memory.boot));
	assert_non_null(acpi_find("AAAA"));
	assert_null(acpi_find_nth("AAAA", 1));
}

UNIT(a_root_of_the_wrong_kind_is_refused, .setup_func = memory_clear)
{
	rsdp_store(0, table_store("AAAA", "", 0));
	assert_false(acpi_init(&memory.boot));
	rsdp_store(table_store("XSDT", "", 0), 0);
	assert_false(acpi_init(&memory.boot));
	assert_null(acpi_find("XSDT"));
}

UNIT(broken_rsdp_is_refused, .setup_func = memory_clear)
{
	const uint32_t table = table_store("AAAA", "x", 2);
	const uint32_t rsdt = table_store("RSDT", &table, 4);

	for (unsigned i = 0; i < 20; i++) {
		rsdp_store(rsdt, 0);
		memory.boot.rsdp[i] ^= 0x40;
		assert_false(acpi_init(&memory.boot));
	}
	for (unsigned size = 0; size < 20; size++) {
		rsdp_store(rsdt, 0);
		memory.boot.rsdp_size = size;
		assert_false(acpi_init(&memory.boot));
	}
	/* More than the copy can hold is no reason to read beyond it. */
	rsdp_store(rsdt, 0);
	memory.boot.rsdp_size = 0xffffffff;
	assert_true(acpi_init(&memory.boot));
}

UNIT(broken_extension_leaves_the_rsdt, .setup_func = memory_clear)
{
	const uint32_t old = table_store("OLD ", "", 0);
	const uint64_t new = table_store("NEW ", "", 0);
	const uint32_t rsdt = table_store("RSDT", &old, 4);
	const uint32_t xsdt = table_store("XSDT", &new, 8);

	for (unsigned i = 20; i < 36; i++) {
		rsdp_store(rsdt, xsdt);
		memory.boot.rsdp[i] ^= 1;
		assert_true(acpi_init(&memory.boot));
		assert_non_null(acpi_find("OLD "));
		assert_null(acpi_find("NEW "));
	}
}

UNIT(no_rsdp_at_all, .setup_func = memory_clear)
{
	assert_false(acpi_init(&memory.boot));
	assert_null(acpi_find("APIC"));
	assert_null(acpi_power());
}

/* A MADT's body: local APIC address, flags, entries. */
#define MADT(flags, ...)                                                                           \
	{                                                                                          \
		0, 0, 0xe0, 0xfe, (flags), 0, 0, 0, __VA_ARGS__                                    \
	}

static void publish(const uint8_t *body, uint32_t size)
{
	table_add("APIC", body, size);
	assert_true(tables_publish());
}

UNIT(lists_cpus, .setup_func = memory_clear)
{
	static const uint8_t body[] =
		MADT(1, 0, 8, 0, 4, 1, 0, 0, 0,			       /* APIC 4, enabled */
		     1, 12, 9, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0,	       /* an I/O APIC between */
		     0, 8, 1, 5, 0, 0, 0, 0,			       /* APIC 5, not enabled */
		     0, 8, 2, 0xff, 1, 0, 0, 0,			       /* broadcast: not a CPU */
		     9, 16, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0,  /* APIC 4 once more */
		     9, 16, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0); /* x2APIC 100H */
	struct acpi_cpu cpu;
	unsigned cursor = 0;

	publish(body, sizeof(body));
	assert_true(acpi_next_cpu(&cursor, &cpu));
	assert_int_equal(cpu.apic_id, 4);
	assert_true(cpu.enabled);
	assert_true(acpi_next_cpu(&cursor, &cpu));
	assert_int_equal(cpu.apic_id, 5);
	assert_false(cpu.enabled);
	assert_true(acpi_next_cpu(&cursor, &cpu));
	assert_int_equal(cpu.apic_id, 0x100);
	assert_false(acpi_next_cpu(&cursor, &cpu));
	assert_false(acpi_next_cpu(&cursor, &cpu));
	assert_true(acpi_has_8259());
	assert_int_equal(acpi_cpu_count(), 2);
	assert_int_equal(acpi_highest_apic_id(), 0x100);
}

/* 600 CPUs as firmware lists them: x2APIC entries from id 255 on; those of 512 and above are off.
 */
UNIT(lists_x2apic_cpus, .setup_func = memory_clear)
{
	static uint8_t body[8 + 600 * 16] = {0, 0, 0xe0, 0xfe, 1};
	struct acpi_cpu cpu;
	unsigned cursor = 0;
	uint32_t used = 8;

	for (uint32_t id = 0; id < 600; id++) {
		const bool x2apic = id >= 255;
		const uint8_t entry[16] = {x2apic ? 9 : 0,
					   x2apic ? 16 : 8,
					   0,
					   x2apic ? 0 : (uint8_t)id,
					   x2apic ? id & 255 : 1,
					   (uint8_t)(id >> 8),
					   0,
					   0,
					   id < 512};

		memcpy(body + used, entry, entry[1]);
		used += entry[1];
	}
	publish(body, used);
	for (uint32_t id = 0; id < 600; id++) {
		assert_true(acpi_next_cpu(&cursor, &cpu));
		assert_int_equal(cpu.apic_id, id);
		assert_int_equal(cpu.enabled, id < 512);
	}
	assert_false(acpi_next_cpu(&cursor, &cpu));
	assert_int_equal(acpi_cpu_count(), 512);
	assert_int_equal(acpi_highest_apic_id(), 511);
}

UNIT(lists_io_apics, .setup_func = memory_clear)
{
	static const uint8_t body[] = MADT(0, 1, 12, 9, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0, 1, 12, 10,
					   0, 0, 0x10, 0xc0, 0xfe, 24, 0, 0, 0);
	struct acpi_ioapic ioapic;
	unsigned cursor = 0;

	publish(body, sizeof(body));
	assert_true(acpi_next_ioapic(&cursor, &ioapic));
	assert_int_equal(ioapic.address, 0xfec00000);
	assert_true(acpi_next_ioapic(&cursor, &ioapic));
	assert_int_equal(ioapic.address, 0xfec01000);
	assert_int_equal(ioapic.first_gsi, 24);
	assert_false(acpi_next_ioapic(&cursor, &ioapic));
	assert_false(acpi_has_8259());
}

static unsigned count_cpus(void)
{
	struct acpi_cpu cpu;
	unsigned cursor = 0, count = 0;

	while (acpi_next_cpu(&cursor, &cpu))
		count++;
	return count;
}

/* A zero length would never end, one beyond the table would leave it. */
UNIT(bad_entry_lengths_end_the_list, .setup_func = memory_clear)
{
	static const uint8_t lengths[] = {0, 1, 9, 200, 255};
	const uint8_t body[] = MADT(1, 0, 8, 0, 1, 1, 0, 0, 0, 0, 8, 1, 2, 1, 0, 0, 0);
	const uint32_t table = table_add("APIC", body, sizeof(body));
	uint8_t *second = memory_at(table) + HEADER + 16;

	assert_true(tables_publish());
	assert_int_equal(count_cpus(), 2);
	for (unsigned i = 0; i < sizeof(lengths); i++) {
		second[1] = lengths[i];
		seal(memory_at(table), HEADER + sizeof(body), 9);
		assert_true(acpi_init(&memory.boot));
		assert_int_equal(count_cpus(), 1);
	}
}

/* Too short for its type, but with a length to step over. */
UNIT(short_entries_are_stepped_over, .setup_func = memory_clear)
{
	static const uint8_t body[] =
		MADT(1, 0, 4, 0, 1, 9, 8, 0, 0, 1, 0, 0, 0, 1, 4, 0, 0, 2, 4, 0, 0, 4, 4, 0xff, 0,
		     10, 4, 0, 0, 0, 8, 1, 2, 1, 0, 0, 0);
	struct acpi_ioapic ioapic;
	unsigned cursor = 0;

	publish(body, sizeof(body));
	assert_int_equal(count_cpus(), 1);
	assert_false(acpi_next_ioapic(&cursor, &ioapic));
}

UNIT(short_tables_have_no_entries, .setup_func = memory_clear)
{
	static const uint8_t body[] = {0, 0, 0xe0, 0xfe, 0};

	publish(body, sizeof(body));
	assert_int_equal(count_cpus(), 0);
	assert_true(acpi_has_8259());
}

UNIT(no_madt, .setup_func = memory_clear)
{
	assert_true(tables_publish());
	assert_int_equal(count_cpus(), 0);
	assert_true(acpi_has_8259());
}
