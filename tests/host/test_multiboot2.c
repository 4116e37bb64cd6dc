// SPDX-License-Identifier: MIT
/* sources: lib/boot_info.c */
#include "abi/multiboot.h"
#include "tests/host/boot_arena.h"

static struct boot_info info;

/* A tag with `length` bytes of payload after its header. */
static void tag(uint32_t type, const void *payload, size_t length)
{
	struct {
		struct multiboot2_tag tag;
		uint8_t payload[BOOT_TEXT_SIZE + 1];
	} full = {{type, (uint32_t)(sizeof(struct multiboot2_tag) + length)}, {0}};

	memcpy(full.payload, payload, length);
	arena_put(&full, full.tag.size);
}

static void text_tag(uint32_t type, const char *text)
{
	tag(type, text, strlen(text) + 1);
}

static int start(void **state)
{
	struct multiboot2_info header = {0, 0};

	arena_clear(state);
	arena_put(&header, sizeof(header));
	return 0;
}

static void map_tag(void)
{
	const struct {
		uint32_t entry_size, entry_version;
		struct multiboot2_mmap_entry entries[2];
	} map = {24, 0, {{0x100000, 0x1000000, 1, 0}, {0, 0x9f000, 1, 0}}};

	tag(MULTIBOOT2_MEMORY_MAP, &map, sizeof(map));
}

static const char *read_back(void)
{
	uint32_t size = (uint32_t)arena.used;

	memcpy(arena.bytes, &size, sizeof(size));
	return arena_read(&info, MULTIBOOT2_LOADER_MAGIC, ARENA_BASE);
}

static const char *finish(void)
{
	tag(MULTIBOOT2_END, "", 0);
	return read_back();
}

static void module_tag(uint32_t from, uint32_t to, const char *string, size_t length)
{
	struct {
		uint32_t start, end;
		char string[64];
	} module = {from, to, {0}};

	memcpy(module.string, string, length);
	tag(MULTIBOOT2_MODULE, &module, 8 + length);
}

static void reads_what_grub_leaves(void **state)
{
	uint8_t rsdp[36];

	memset(rsdp, 0xab, sizeof(rsdp));
	text_tag(MULTIBOOT2_COMMAND_LINE, "vbts=auto");
	text_tag(MULTIBOOT2_LOADER_NAME, "GRUB 2.06-13");
	tag(21, "unknown", 7);
	module_tag(0x200000, 0x240000, "list", 5);
	tag(MULTIBOOT2_RSDP_V2, rsdp, sizeof(rsdp));
	tag(MULTIBOOT2_EFI64_SYSTEM_TABLE, "\x18\xc0\x5e\x3f\0\0\0\0", 8);
	tag(MULTIBOOT2_RSDP_V1, rsdp, 20); /* the better one stays */
	map_tag();
	assert_null(finish());
	assert_int_equal(info.protocol, BOOT_MULTIBOOT2);
	assert_string_equal(info.command_line, "vbts=auto");
	assert_string_equal(info.loader_name, "GRUB 2.06-13");
	assert_int_equal(info.module_count, 1);
	assert_string_equal(info.modules[0].string, "list");
	assert_int_equal(info.rsdp_size, 36);
	assert_memory_equal(info.rsdp, rsdp, 36);
	assert_int_equal(info.efi_system_table, 0x3f5ec018);
	assert_int_equal(info.region_count, 2);
	assert_int_equal(info.regions[0].base, 0);
	assert_int_equal(info.info_start, ARENA_BASE);
	assert_int_equal(info.info_end, ARENA_BASE + arena.used);
}

/* Cut off anywhere, whatever total_size says: a fault, and no read past the end. */
static void every_truncation_is_refused(void **state)
{
	uint64_t whole;

	text_tag(MULTIBOOT2_COMMAND_LINE, "vbts=auto");
	module_tag(0x200000, 0x240000, "list", 5);
	map_tag();
	assert_null(finish());
	whole = arena.used;
	for (arena.used = 0; arena.used < whole; arena.used++) {
		assert_non_null(arena_read(&info, MULTIBOOT2_LOADER_MAGIC, ARENA_BASE));
		if (arena.used >= sizeof(uint32_t))
			assert_non_null(read_back());
	}
}

static void refuses_misalignment(void **state)
{
	map_tag();
	tag(MULTIBOOT2_END, "", 0);
	assert_string_equal(arena_read(&info, MULTIBOOT2_LOADER_MAGIC, ARENA_BASE + 4),
			    "the boot information is misaligned");
}

static void refuses_tags_of_impossible_sizes(void **state)
{
	const uint32_t sizes[] = {0, 7, 0x1000, UINT32_MAX - 3, UINT32_MAX};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct multiboot2_tag odd = {99, sizes[i]};

		start(state);
		map_tag();
		arena_put(&odd, sizeof(odd));
		assert_string_equal(finish(),
				    "the boot information has a tag of an impossible size");
		assert_int_equal(info.region_count, 2);
	}
}

static void refuses_a_missing_end(void **state)
{
	map_tag();
	assert_string_equal(read_back(), "the boot information has no end tag");
}

static void refuses_short_tags(void **state)
{
	const uint8_t rsdp[36] = "RSD PTR ";

	map_tag();
	tag(MULTIBOOT2_MODULE, "1234567", 7);
	assert_string_equal(finish(), "a module tag is too short");
	start(state);
	map_tag();
	tag(MULTIBOOT2_RSDP_V1, rsdp, 19);
	assert_string_equal(finish(), "an RSDP tag is too short");
	start(state);
	map_tag();
	tag(MULTIBOOT2_RSDP_V2, rsdp, 35);
	assert_string_equal(finish(), "an RSDP tag is too short");
	start(state);
	tag(MULTIBOOT2_MEMORY_MAP, "1234567", 7);
	assert_string_equal(finish(), "the memory map tag is too short");
}

static void refuses_texts_without_end(void **state)
{
	map_tag();
	tag(MULTIBOOT2_COMMAND_LINE, "list", 4);
	assert_string_equal(finish(), "a text in the boot information has no end");
	assert_string_equal(info.command_line, "list");
	start(state);
	map_tag();
	tag(MULTIBOOT2_COMMAND_LINE, "", 0);
	assert_string_equal(finish(), "a text in the boot information has no end");
	start(state);
	map_tag();
	module_tag(0x1000, 0x2000, "list", 4);
	assert_string_equal(finish(), "a text in the boot information has no end");
}

static void refuses_broken_maps(void **state)
{
	struct {
		uint32_t entry_size, entry_version;
		uint8_t entries[64];
	} map = {16, 0, {0}};
	const uint32_t sizes[] = {0, 16, 25, UINT32_MAX};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		start(state);
		map.entry_size = sizes[i];
		tag(MULTIBOOT2_MEMORY_MAP, &map, sizeof(map));
		assert_string_equal(finish(), "the memory map has entries of an impossible size");
	}
	start(state);
	map.entry_size = 24;
	tag(MULTIBOOT2_MEMORY_MAP, &map, 8 + 24 + 1);
	assert_string_equal(finish(), "the memory map ends within an entry");
}

static void reads_longer_entries(void **state)
{
	const struct {
		uint32_t entry_size, entry_version;
		struct {
			struct multiboot2_mmap_entry entry;
			uint64_t more;
		} entries[2];
	} map = {32, 1, {{{0x1000, 0x1000, 1, 0}, 7}, {{0x9000, 0x1000, 4, 0}, 7}}};

	tag(MULTIBOOT2_MEMORY_MAP, &map, sizeof(map));
	assert_null(finish());
	assert_int_equal(info.region_count, 2);
	assert_int_equal(info.regions[1].base, 0x9000);
	assert_int_equal(info.regions[1].type, MEMORY_ACPI_NVS);
}

static void cuts_a_long_command_line(void **state)
{
	char text[BOOT_TEXT_SIZE + 1];

	memset(text, 'x', sizeof(text));
	text[BOOT_TEXT_SIZE] = '\0';
	map_tag();
	text_tag(MULTIBOOT2_COMMAND_LINE, text);
	assert_string_equal(finish(), "the command line is too long");
	assert_int_equal(strlen(info.command_line), BOOT_TEXT_SIZE - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(reads_what_grub_leaves, start),
		cmocka_unit_test_setup(every_truncation_is_refused, start),
		cmocka_unit_test_setup(refuses_misalignment, start),
		cmocka_unit_test_setup(refuses_tags_of_impossible_sizes, start),
		cmocka_unit_test_setup(refuses_a_missing_end, start),
		cmocka_unit_test_setup(refuses_short_tags, start),
		cmocka_unit_test_setup(refuses_texts_without_end, start),
		cmocka_unit_test_setup(refuses_broken_maps, start),
		cmocka_unit_test_setup(reads_longer_entries, start),
		cmocka_unit_test_setup(cuts_a_long_command_line, start),
	};

	return cmocka_run_group_tests_name("multiboot2", tests, NULL, NULL);
}
