// SPDX-License-Identifier: MIT
/* sources: lib/boot_info.c */
#include "abi/multiboot.h"
#include "tests/host/boot_arena.h"

static struct boot_info info;

static const char *read_back(const struct multiboot1_info *from)
{
	uint32_t where = arena_put(from, sizeof(*from));

	return arena_read(&info, MULTIBOOT1_LOADER_MAGIC, where);
}

static struct multiboot1_info with_map(const struct multiboot1_mmap_entry *map, size_t bytes)
{
	return (struct multiboot1_info){.flags = MULTIBOOT1_HAS_MEMORY_MAP,
					.mmap_addr = arena_put(map, bytes),
					.mmap_length = (uint32_t)bytes};
}

static const struct multiboot1_mmap_entry usable[] = {{20, 0x100000, 0x1000000, 1}};

static void reads_what_qemu_leaves(void **state)
{
	const struct multiboot1_mmap_entry map[] = {
		{20, 0x100000, 0x7ee0000, 1}, {20, 0xfffc0000, 0x40000, 2}, {20, 0, 0x9fc00, 1}};
	struct multiboot1_info from = with_map(map, sizeof(map));
	struct multiboot1_module module = {0x200000, 0x240000, 0, 0};

	module.string = arena_put("build/spoor.elf list", 21);
	from.flags |=
		MULTIBOOT1_HAS_COMMAND_LINE | MULTIBOOT1_HAS_MODULES | MULTIBOOT1_HAS_LOADER_NAME;
	from.cmdline = arena_put("build/monitor.elf32 vbts=on", 28);
	from.boot_loader_name = arena_put("qemu", 5);
	from.mods_addr = arena_put(&module, sizeof(module));
	from.mods_count = 1;

	assert_null(read_back(&from));
	assert_int_equal(info.protocol, BOOT_MULTIBOOT1);
	assert_string_equal(info.command_line, "build/monitor.elf32 vbts=on");
	assert_string_equal(info.loader_name, "qemu");
	assert_int_equal(info.region_count, 3);
	assert_int_equal(info.regions[0].base, 0);
	assert_int_equal(info.regions[1].base, 0x100000);
	assert_int_equal(info.regions[2].base, 0xfffc0000);
	assert_int_equal(info.regions[2].type, MEMORY_RESERVED);
	assert_int_equal(info.module_count, 1);
	assert_int_equal(info.modules[0].start, 0x200000);
	assert_int_equal(info.modules[0].end, 0x240000);
	assert_string_equal(info.modules[0].string, "build/spoor.elf list");
	assert_int_equal(info.rsdp_size, 0);
	assert_int_equal(info.info_end - info.info_start, sizeof(from));
}

static void cleans_the_map(void **state)
{
	const struct multiboot1_mmap_entry map[] = {
		{20, 0x2000, 0, 1},	      /* empty */
		{20, UINT64_MAX - 9, 100, 2}, /* past the end of the address space */
		{20, 0x1000, 0x1000, 77},     /* of no known type */
		{20, 0x1000, 0x2000, 1},      /* same base: stays after the one above */
	};
	struct multiboot1_info from = with_map(map, sizeof(map));

	assert_null(read_back(&from));
	assert_int_equal(info.region_count, 3);
	assert_int_equal(info.regions[0].type, MEMORY_RESERVED);
	assert_int_equal(info.regions[0].length, 0x1000);
	assert_int_equal(info.regions[1].length, 0x2000);
	assert_true(info.regions[2].base + info.regions[2].length == UINT64_MAX);
}

static void passes_over_longer_entries(void **state)
{
	const struct {
		struct multiboot1_mmap_entry entry;
		uint32_t attributes;
	} __attribute__((packed)) map[] = {{{24, 0, 0x1000, 1}, 7}, {{24, 0x2000, 0x1000, 3}, 7}};
	struct multiboot1_info from = with_map(&map[0].entry, sizeof(map));

	assert_null(read_back(&from));
	assert_int_equal(info.region_count, 2);
	assert_int_equal(info.regions[1].type, MEMORY_ACPI_RECLAIMABLE);
}

static void refuses_broken_maps(void **state)
{
	struct multiboot1_mmap_entry map[] = {{20, 0x100000, 0x1000, 1}, {8, 0, 0x1000, 1}};
	struct multiboot1_info from = with_map(map, sizeof(map));

	assert_string_equal(read_back(&from), "the memory map has an entry of an impossible size");
	assert_int_equal(info.region_count, 1);

	map[1].size = UINT32_MAX;
	from = with_map(map, sizeof(map));
	assert_string_equal(read_back(&from), "the memory map has an entry of an impossible size");

	from = with_map(map, sizeof(map) - 1);
	assert_string_equal(read_back(&from), "the memory map ends within an entry");

	from.mmap_addr = 0xfffffff0;
	assert_string_equal(read_back(&from), "the boot information points outside memory");
}

static void falls_back_to_the_memory_sizes(void **state)
{
	struct multiboot1_info from = {
		.flags = MULTIBOOT1_HAS_MEMORY, .mem_lower = 639, .mem_upper = 0xffffffff};

	assert_null(read_back(&from));
	assert_int_equal(info.region_count, 2);
	assert_int_equal(info.regions[0].length, 639 << 10);
	assert_int_equal(info.regions[1].base, 1 << 20);
	assert_true(info.regions[1].length == 0xffffffffull << 10);

	from.flags = 0;
	assert_string_equal(read_back(&from), "the boot loader gave no memory map");
}

static void bounds_the_texts(void **state)
{
	struct multiboot1_info from = with_map(usable, sizeof(usable));
	char text[BOOT_TEXT_SIZE + 1];

	memset(text, 'x', sizeof(text));
	text[BOOT_TEXT_SIZE - 1] = '\0';
	from.flags |= MULTIBOOT1_HAS_COMMAND_LINE | MULTIBOOT1_HAS_LOADER_NAME;
	from.cmdline = from.boot_loader_name = arena_put(text, BOOT_TEXT_SIZE);
	assert_null(read_back(&from)); /* just fits; the loader name is cut off */
	assert_int_equal(strlen(info.command_line), BOOT_TEXT_SIZE - 1);
	assert_int_equal(strlen(info.loader_name), sizeof(info.loader_name) - 1);

	text[BOOT_TEXT_SIZE - 1] = 'x';
	text[BOOT_TEXT_SIZE] = '\0';
	from.cmdline = arena_put(text, sizeof(text));
	assert_string_equal(read_back(&from), "the command line is too long");
	assert_int_equal(strlen(info.command_line), BOOT_TEXT_SIZE - 1);
}

static void a_text_that_runs_out_of_memory(void **state)
{
	struct multiboot1_info from = with_map(usable, sizeof(usable));
	uint32_t where;

	from.flags |= MULTIBOOT1_HAS_COMMAND_LINE;
	where = arena_put(&from, sizeof(from));
	from.cmdline = arena_put("abc", 3); /* the last bytes there are */
	memcpy(arena.bytes + (where - ARENA_BASE), &from, sizeof(from));
	assert_string_equal(arena_read(&info, MULTIBOOT1_LOADER_MAGIC, where),
			    "the boot information points outside memory");
	assert_string_equal(info.command_line, "abc");
}

static void bounds_the_modules(void **state)
{
	struct multiboot1_module modules[BOOT_MAX_MODULES + 1];
	struct multiboot1_info from = with_map(usable, sizeof(usable));

	for (unsigned i = 0; i <= BOOT_MAX_MODULES; i++)
		modules[i] = (struct multiboot1_module){0x1000 * i, 0x1000 * i + 1, 0, 0};
	from.flags |= MULTIBOOT1_HAS_MODULES;
	from.mods_addr = arena_put(modules, sizeof(modules));
	from.mods_count = BOOT_MAX_MODULES;
	assert_null(read_back(&from));
	assert_string_equal(info.modules[0].string, "");

	from.mods_count = UINT32_MAX;
	assert_string_equal(read_back(&from), "there are more boot modules than there is room for");
	assert_int_equal(info.module_count, BOOT_MAX_MODULES);

	modules[0].end = modules[0].start;
	from.mods_addr = arena_put(modules, sizeof(modules));
	from.mods_count = 2;
	assert_string_equal(read_back(&from), "a boot module is empty");
	assert_int_equal(info.module_count, 1);
}

static void more_regions_than_room(void **state)
{
	struct multiboot1_mmap_entry map[BOOT_MAX_REGIONS + 1];
	struct multiboot1_info from;

	for (unsigned i = 0; i <= BOOT_MAX_REGIONS; i++)
		map[i] = (struct multiboot1_mmap_entry){20, 0x1000u * (100 - i), 0x1000, 1};
	from = with_map(map, sizeof(map));
	assert_string_equal(read_back(&from),
			    "the memory map has more regions than there is room for");
	assert_int_equal(info.region_count, BOOT_MAX_REGIONS);
	for (unsigned i = 1; i < info.region_count; i++)
		assert_true(info.regions[i - 1].base < info.regions[i].base);
}

static void refuses_other_loaders(void **state)
{
	assert_string_equal(arena_read(&info, 0, ARENA_BASE), "not started by a Multiboot loader");
	assert_string_equal(arena_read(&info, MULTIBOOT1_LOADER_MAGIC, 0),
			    "the boot information points outside memory");
	assert_string_equal(arena_read(&info, MULTIBOOT1_LOADER_MAGIC, UINT64_MAX),
			    "the boot information points outside memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(reads_what_qemu_leaves, arena_clear),
		cmocka_unit_test_setup(cleans_the_map, arena_clear),
		cmocka_unit_test_setup(passes_over_longer_entries, arena_clear),
		cmocka_unit_test_setup(refuses_broken_maps, arena_clear),
		cmocka_unit_test_setup(falls_back_to_the_memory_sizes, arena_clear),
		cmocka_unit_test_setup(bounds_the_texts, arena_clear),
		cmocka_unit_test_setup(a_text_that_runs_out_of_memory, arena_clear),
		cmocka_unit_test_setup(bounds_the_modules, arena_clear),
		cmocka_unit_test_setup(more_regions_than_room, arena_clear),
		cmocka_unit_test_setup(refuses_other_loaders, arena_clear),
	};

	return cmocka_run_group_tests_name("multiboot1", tests, NULL, NULL);
}
