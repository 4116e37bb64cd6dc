/* SPDX-License-Identifier: MIT */
/* sources: drivers/acpi/[a-z]*.c lib/acpi.c */
#include "tests/host/acpi_memory.h"

static void finds_through_xsdt(void **state)
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

static void finds_through_rsdt(void **state)
{
	const uint32_t table = table_store("AAAA", "x", 2);
	rsdp_store(table_store("RSDT", &table, 4), 0);
	assert_true(acpi_init(&memory.boot));
	assert_non_null(acpi_find("AAAA"));
}

static void prefers_xsdt_falls_back_to_rsdt(void **state)
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

static void counts_tables_of_one_signature(void **state)
{
	table_add("SSDT", "a", 2);
	table_add("AAAA", "b", 2);
	table_add("SSDT", "c", 2);
	assert_true(tables_publish());
	assert_string_equal((const char *)(acpi_find_nth("SSDT", 0) + 1), "a");
	assert_string_equal((const char *)(acpi_find_nth("SSDT", 1) + 1), "c");
	assert_null(acpi_find_nth("SSDT", 2));
}

static void bad_checksum_is_passed_over(void **state)
{
	const uint32_t first = table_add("AAAA", "bad", 4);
	table_add("AAAA", "good", 5);
	memory_at(first)[HEADER] ^= 1;
	assert_true(tables_publish());
	assert_string_equal((const char *)(acpi_find("AAAA") + 1), "good");
}

static void lengths_are_checked(void **state)
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

static void wild_addresses_are_passed_over(void **state)
{
	const uint64_t entries[] = {0, 1, 0xfffffffffffffff0, MEMORY_BASE + MEMORY_SIZE - 3,
				    table_store("AAAA", "x", 2)};
	rsdp_store(0, table_store("XSDT", entries, sizeof(entries)));
	assert_true(acpi_init(&memory.boot));
	assert_non_null(acpi_find("AAAA"));
}

static void partial_last_entry_is_not_read(void **state)
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

static void a_root_of_the_wrong_kind_is_refused(void **state)
{
	rsdp_store(0, table_store("AAAA", "", 0));
	assert_false(acpi_init(&memory.boot));
	rsdp_store(table_store("XSDT", "", 0), 0);
	assert_false(acpi_init(&memory.boot));
	assert_null(acpi_find("XSDT"));
}

static void broken_rsdp_is_refused(void **state)
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

static void broken_extension_leaves_the_rsdt(void **state)
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

static void no_rsdp_at_all(void **state)
{
	assert_false(acpi_init(&memory.boot));
	assert_null(acpi_find("APIC"));
	assert_null(acpi_power());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(finds_through_xsdt, memory_clear),
		cmocka_unit_test_setup(finds_through_rsdt, memory_clear),
		cmocka_unit_test_setup(prefers_xsdt_falls_back_to_rsdt, memory_clear),
		cmocka_unit_test_setup(counts_tables_of_one_signature, memory_clear),
		cmocka_unit_test_setup(bad_checksum_is_passed_over, memory_clear),
		cmocka_unit_test_setup(lengths_are_checked, memory_clear),
		cmocka_unit_test_setup(wild_addresses_are_passed_over, memory_clear),
		cmocka_unit_test_setup(partial_last_entry_is_not_read, memory_clear),
		cmocka_unit_test_setup(a_root_of_the_wrong_kind_is_refused, memory_clear),
		cmocka_unit_test_setup(broken_rsdp_is_refused, memory_clear),
		cmocka_unit_test_setup(broken_extension_leaves_the_rsdt, memory_clear),
		cmocka_unit_test_setup(no_rsdp_at_all, memory_clear),
	};
	return cmocka_run_group_tests_name("acpi", tests, NULL, memory_clear);
}
