// SPDX-License-Identifier: MIT
/* sources: tests/framework/random.c tests/host/acpi_memory.c */
/* sources: drivers/acpi/[a-z]*.c lib/acpi.c */
#include "tests/framework/random.h"
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
	assert_int_equal(acpi_power()->pm1a_control_port, 0);
	assert_int_equal(acpi_power()->pm_timer_port, 0);
	assert_false(acpi_power()->has_reset);
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

/* Table bodies are written by their offsets from the start of the table. */
static uint8_t table[300];

static void put(unsigned offset, uint64_t value, unsigned size)
{
	memcpy(table + offset, &value, size);
}

static void put_address(unsigned offset, uint8_t space, uint8_t width, uint64_t address)
{
	table[offset] = space;
	table[offset + 1] = width;
	put(offset + 4, address, 8);
}

static int clear(void **state)
{
	memset(table, 0, sizeof(table));
	return memory_clear(state);
}

static void publish_table(const char *signature, uint32_t length)
{
	table_add(signature, table + HEADER, length - HEADER);
	assert_true(tables_publish());
}

/* QEMU's own form: Name (_S5, Package (4) {Zero, ...}), and values that say which one it was. */
static uint32_t store_s5(uint8_t a, uint8_t b)
{
	const uint8_t aml[] = {'_', 'S', '5', '_', 0x08, '_', 'S', '5', '_', 0x12,
			       8,   4,	 0xa, a,   0xa,	 b,   0,   0,	0x10};
	return table_store("DSDT", aml, sizeof(aml));
}

UNIT(reads_fadt, .setup_func = clear)
{
	struct acpi_power power;

	put(40, store_s5(5, 7), 4);
	put(48, 0xb2, 4);
	put(52, 0xf1, 1);
	put(64, 0x604, 4);
	put(76, 0x608, 4);
	put(112, 1u << 8 | 1u << 10, 4);
	put_address(116, ACPI_IO_PORT, 8, 0xcf9);
	put(128, 0xf, 1);
	publish_table("FACP", 244);
	power = *acpi_power();
	assert_int_equal(power.smi_command_port, 0xb2);
	assert_int_equal(power.acpi_enable, 0xf1);
	assert_int_equal(power.pm1a_control_port, 0x604);
	assert_int_equal(power.pm1b_control_port, 0);
	assert_int_equal(power.pm_timer_port, 0x608);
	assert_true(power.pm_timer_32_bit);
	assert_true(power.has_reset);
	assert_int_equal(power.reset_register.space, ACPI_IO_PORT);
	assert_int_equal(power.reset_register.address, 0xcf9);
	assert_int_equal(power.reset_value, 0xf);
	assert_true(power.has_s5);
	assert_int_equal(power.s5_type_a, 5);
	assert_int_equal(power.s5_type_b, 7);
}

UNIT(extended_fields_go_first, .setup_func = clear)
{
	struct acpi_power power;

	put(40, store_s5(1, 1), 4);
	put(64, 0x604, 4);
	put(76, 0x608, 4);
	put(140, store_s5(2, 3), 8);
	put_address(172, ACPI_IO_PORT, 16, 0xb004);
	put_address(208, ACPI_MEMORY, 32, 0xfed80000);
	publish_table("FACP", 244);
	power = *acpi_power();
	assert_int_equal(power.pm1a_control_port, 0xb004);
	assert_int_equal(power.pm_timer_port, 0x608);
	assert_int_equal(power.s5_type_a, 2);
}

UNIT(short_fadt_has_less, .setup_func = clear)
{
	struct acpi_power power;

	put(76, 0x608, 4);
	put(112, 0xffffffff, 4);
	put_address(116, ACPI_IO_PORT, 8, 0xcf9);
	publish_table("FACP", 116);
	power = *acpi_power();
	assert_int_equal(power.pm_timer_port, 0x608);
	assert_false(power.has_reset);
	assert_false(power.has_s5);
}

UNIT(ports_have_16_bits, .setup_func = clear)
{
	struct acpi_power power;

	put(48, 0x10000, 4);
	put(64, 0xffffffff, 4);
	put_address(208, ACPI_IO_PORT, 32, 0x100000608);
	publish_table("FACP", 244);
	power = *acpi_power();
	assert_int_equal(power.smi_command_port, 0);
	assert_int_equal(power.pm1a_control_port, 0);
	assert_int_equal(power.pm_timer_port, 0);
}

static bool s5_of(const char *signature, const uint8_t *aml, uint32_t size,
		  struct acpi_power *power)
{
	clear(NULL);
	if (memcmp(signature, "SSDT", 4) == 0)
		table_add("SSDT", aml, size);
	else
		put(40, table_store("DSDT", aml, size), 4);
	publish_table("FACP", 116);
	*power = *acpi_power();
	return power->has_s5;
}

#define S5(signature, ...)                                                                         \
	s5_of(signature, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}),   \
	      &power)
#define NAME 0x08, '_', 'S', '5', '_'

UNIT(s5_in_every_form, .setup_func = clear)
{
	struct acpi_power power;

	assert_true(S5("DSDT", NAME, 0x12, 6, 4, 0, 1, 0, 0));
	assert_int_equal(power.s5_type_a, 0);
	assert_int_equal(power.s5_type_b, 1);
	assert_true(S5("DSDT", 0x08, '\\', '_', 'S', '5', '_', 0x12, 6, 2, 0xa, 7, 0xa, 6));
	assert_int_equal(power.s5_type_a, 7);
	assert_int_equal(power.s5_type_b, 6);
	assert_true(S5("DSDT", NAME, 0x12, 0x4a, 0, 2, 0xb, 5, 0, 0xc, 4, 0, 0, 0));
	assert_int_equal(power.s5_type_a, 5);
	assert_int_equal(power.s5_type_b, 4);
	assert_true(S5("DSDT", NAME, 0x12, 4, 1, 0xa, 5));
	assert_int_equal(power.s5_type_b, 5);
	assert_true(S5("SSDT", NAME, 0x12, 6, 4, 0xa, 3, 0xa, 3));
	assert_int_equal(power.s5_type_a, 3);
}

UNIT(s5_that_is_none, .setup_func = clear)
{
	struct acpi_power power;

	assert_false(S5("DSDT", 0));
	assert_false(S5("DSDT", NAME));
	assert_false(S5("DSDT", NAME, 0x12));
	assert_false(S5("DSDT", NAME, 0x12, 0xc0));
	assert_false(S5("DSDT", NAME, 0x12, 6));
	assert_false(S5("DSDT", NAME, 0x12, 6, 4));
	assert_false(S5("DSDT", NAME, 0x12, 6, 4, 0xa));
	assert_false(S5("DSDT", NAME, 0x12, 6, 4, 0xc, 1, 0, 0));
	assert_false(S5("DSDT", NAME, 0x12, 6, 0, 1, 1));
	assert_false(S5("DSDT", NAME, 0x12, 6, 4, 0xa, 8, 0xa, 0));
	assert_false(S5("DSDT", NAME, 0x11, 6, 4, 0, 0));
	assert_false(S5("DSDT", '_', 'S', '5', '_', 0x12, 6, 4, 0, 0));
	assert_false(S5("DSDT", 0x08, '_', 'S', '5'));
}

UNIT(reads_hpet, .setup_func = clear)
{
	uint64_t address = 0;

	put_address(40, ACPI_MEMORY, 64, 0xfed00000);
	publish_table("HPET", 56);
	assert_true(acpi_hpet_address(&address));
	assert_int_equal(address, 0xfed00000);
}

UNIT(refuses_hpet, .setup_func = clear)
{
	uint64_t address;

	put_address(40, ACPI_IO_PORT, 64, 0xfed00000);
	publish_table("HPET", 56);
	assert_false(acpi_hpet_address(&address));
	clear(NULL);
	put_address(40, ACPI_MEMORY, 64, 0xfed00000);
	publish_table("HPET", 55);
	assert_false(acpi_hpet_address(&address));
	clear(NULL);
	publish_table("HPET", 56);
	assert_false(acpi_hpet_address(&address));
}

static const char *fault;

/* Whether the published SPCR or DBG2 has a port that can be driven, else why not. */
static bool find_console(struct acpi_console *console)
{
	const struct acpi_header *found = acpi_find("SPCR");

	found = found ? found : acpi_find("DBG2");
	fault = NULL;
	return found && acpi_console(found, 0, console, &fault) && console->address;
}

UNIT(reads_spcr, .setup_func = clear)
{
	struct acpi_console console;

	put_address(40, ACPI_IO_PORT, 8, 0x3f8);
	put(58, 7, 1);
	publish_table("SPCR", 80);
	assert_true(find_console(&console));
	assert_int_equal(console.space, ACPI_IO_PORT);
	assert_int_equal(console.address, 0x3f8);
	assert_int_equal(console.register_size, 1);
	assert_int_equal(console.baud, 115200);

	clear(NULL);
	put(36, 0x12, 1);
	put_address(40, ACPI_MEMORY, 32, 0xfe032000);
	put(80, 1500000, 4);
	publish_table("SPCR", 88);
	assert_true(find_console(&console));
	assert_int_equal(console.space, ACPI_MEMORY);
	assert_int_equal(console.register_size, 4);
	assert_int_equal(console.baud, 1500000);
}

UNIT(refuses_spcr, .setup_func = clear)
{
	struct acpi_console console;

	put(36, 3, 1); /* an Arm PL011 */
	put_address(40, ACPI_MEMORY, 32, 0xfe032000);
	publish_table("SPCR", 80);
	assert_false(find_console(&console));
	clear(NULL);
	publish_table("SPCR", 80); /* redirection off */
	assert_false(find_console(&console));
	clear(NULL);
	put_address(40, ACPI_IO_PORT, 8, 0xfff9);
	publish_table("SPCR", 80);
	assert_false(find_console(&console));
	clear(NULL);
	put_address(40, ACPI_IO_PORT, 8, 0x3f8);
	put(58, 0xff, 1);
	publish_table("SPCR", 76);
	assert_true(find_console(&console));
	assert_int_equal(console.baud, 0);
	clear(NULL);
	put_address(40, ACPI_IO_PORT, 8, 0x3f8);
	publish_table("SPCR", 75);
	assert_false(find_console(&console));
}

/* A DBG2 of `count` ports of 0x40 bytes each from 44 on. */
static void put_dbg2(unsigned count)
{
	put(36, 44, 4);
	put(40, count, 4);
	for (unsigned i = 0; i < count; i++) {
		unsigned at = 44 + 0x40 * i;

		put(at + 1, 0x40, 2);
		put(at + 3, 1, 1);
		put(at + 12, 0x8000, 2);
		put(at + 18, 22, 2);
		put_address(at + 22, ACPI_IO_PORT, 8, 0x3f8 + 0x1000 * i);
	}
}

UNIT(reads_dbg2, .setup_func = clear)
{
	struct acpi_console console;
	const struct acpi_header *dbg2;

	put_dbg2(3);
	put(44 + 0x40 + 12, 0x8002, 2); /* USB */
	put_address(44 + 0x80 + 22, ACPI_MEMORY, 32, 0xfe032000);
	publish_table("DBG2", 44 + 3 * 0x40);
	dbg2 = acpi_find("DBG2");
	assert_true(acpi_console(dbg2, 0, &console, &fault));
	assert_int_equal(console.address, 0x3f8);
	assert_int_equal(console.space, ACPI_IO_PORT);
	assert_true(acpi_console(dbg2, 1, &console, &fault));
	assert_int_equal(console.address, 0);
	assert_null(fault);
	assert_true(acpi_console(dbg2, 2, &console, &fault));
	assert_int_equal(console.address, 0xfe032000);
	assert_int_equal(console.register_size, 4);
	assert_false(acpi_console(dbg2, 3, &console, &fault));
}

UNIT(refuses_dbg2, .setup_func = clear)
{
	struct acpi_console console;

	put_dbg2(1);
	put(44 + 14, 3, 2); /* an Arm PL011 */
	publish_table("DBG2", 44 + 0x40);
	assert_false(find_console(&console));
	assert_string_equal(fault, "names a port that is no 16550");
	clear(NULL);
	put_dbg2(1);
	put(44 + 18, 0xfff0, 2); /* an address after the end */
	publish_table("DBG2", 44 + 0x40);
	assert_false(find_console(&console));
	assert_string_equal(fault, "is too short");
	clear(NULL);
	put_dbg2(1);
	put(36, 0xfffffff0, 4);
	publish_table("DBG2", 44 + 0x40);
	assert_false(find_console(&console));
	assert_string_equal(fault, "is too short");
	clear(NULL);
	put_dbg2(2);
	put(44 + 1, 0, 2); /* a device that the next does not follow */
	publish_table("DBG2", 44 + 2 * 0x40);
	assert_false(find_console(&console));
	assert_string_equal(fault, "is too short");
	assert_false(acpi_console(acpi_find("DBG2"), 1, &console, &fault));
}

/* Any bytes under a right checksum: no read out of bounds, no endless list. */
UNIT(survives_noise, .setup_func = clear)
{
	static const char *const names[] = {"APIC", "FACP", "HPET", "SPCR", "SSDT", "DBG2"};
	uint64_t random = 1;

	for (unsigned round = 0; round < 3000; round++) {
		clear(NULL);
		for (unsigned i = 0; i < 6; i++) {
			uint8_t body[120];
			const uint32_t size = (uint32_t)random_below(&random, sizeof(body));
			for (uint32_t j = 0; j < size; j++)
				body[j] = (uint8_t)random_below(
					&random, random_below(&random, 2) ? 12 : 256);
			table_add(names[i], body, size);
		}
		assert_true(tables_publish());
		unsigned cursor = 0;
		struct acpi_cpu cpu;
		struct acpi_ioapic ioapic;
		struct acpi_console console;
		uint64_t hpet;
		while (acpi_next_cpu(&cursor, &cpu))
			assert_true(cursor <= HEADER + 120);
		for (cursor = 0; acpi_next_ioapic(&cursor, &ioapic);)
			assert_true(cursor <= HEADER + 120);
		assert_non_null(acpi_power());
		assert_true(acpi_power()->s5_type_a <= 7);
		if (acpi_hpet_address(&hpet))
			assert_true(hpet != 0);
		for (unsigned i = 0; i < 9 && acpi_find("DBG2"); i++)
			acpi_console(acpi_find("DBG2"), i, &console, &fault);
		if (find_console(&console))
			assert_true(console.space <= ACPI_IO_PORT);
	}
}
