// SPDX-License-Identifier: MIT
/* sources: lib/boot_info.c */
#include "abi/multiboot.h"
#include <stdlib.h>
#include <string.h>

#include "lib/boot_info.h"
#include "tests/host/host.h"

/*
 * A piece of "physical memory" from which a loader's structures are read. It is handed out in
 * copies of exactly its size, so that ASan sees a read past its end.
 */
enum { ARENA_BASE = 0x10000, ARENA_SIZE = 16384 };

static struct {
	uint8_t bytes[ARENA_SIZE];
	uint64_t used;
	uint8_t *copy;
} arena;

static const void *arena_memory(uint64_t physical, uint64_t bytes)
{
	if (physical < ARENA_BASE || bytes > arena.used ||
	    physical - ARENA_BASE > arena.used - bytes)
		return NULL;
	return arena.copy + (physical - ARENA_BASE);
}

static int arena_clear(void **state)
{
	memset(&arena, 0, sizeof(arena));
	return 0;
}

/* Appends, at a multiple of 8; returns the physical address. */
static uint32_t arena_put(const void *bytes, size_t length)
{
	uint64_t offset = (arena.used + 7) & ~7ull;

	assert_true(offset + length <= ARENA_SIZE);
	memcpy(arena.bytes + offset, bytes, length);
	arena.used = offset + length;
	return (uint32_t)(ARENA_BASE + offset);
}

static const char *arena_read(struct boot_info *info, uint32_t magic, uint64_t physical)
{
	const char *fault;

	arena.copy = malloc(arena.used ? arena.used : 1);
	memcpy(arena.copy, arena.bytes, arena.used);
	fault = boot_info_read(info, magic, physical, arena_memory);
	free(arena.copy);
	return fault;
}

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

UNIT(reads_what_qemu_leaves, .setup_func = arena_clear)
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

UNIT(cleans_the_map, .setup_func = arena_clear)
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

UNIT(passes_over_longer_entries, .setup_func = arena_clear)
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

UNIT(refuses_broken_maps, .setup_func = arena_clear)
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

UNIT(falls_back_to_the_memory_sizes, .setup_func = arena_clear)
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

UNIT(bounds_the_texts, .setup_func = arena_clear)
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

UNIT(a_text_that_runs_out_of_memory, .setup_func = arena_clear)
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

UNIT(bounds_the_modules, .setup_func = arena_clear)
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

UNIT(more_regions_than_room, .setup_func = arena_clear)
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

UNIT(refuses_other_loaders, .setup_func = arena_clear)
{
	assert_string_equal(arena_read(&info, 0, ARENA_BASE), "not started by a Multiboot loader");
	assert_string_equal(arena_read(&info, MULTIBOOT1_LOADER_MAGIC, 0),
			    "the boot information points outside memory");
	assert_string_equal(arena_read(&info, MULTIBOOT1_LOADER_MAGIC, UINT64_MAX),
			    "the boot information points outside memory");
}

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

static const char *read_tags(void)
{
	uint32_t size = (uint32_t)arena.used;

	memcpy(arena.bytes, &size, sizeof(size));
	return arena_read(&info, MULTIBOOT2_LOADER_MAGIC, ARENA_BASE);
}

static const char *finish(void)
{
	tag(MULTIBOOT2_END, "", 0);
	return read_tags();
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

UNIT(reads_what_grub_leaves, .setup_func = start)
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
UNIT(every_truncation_is_refused, .setup_func = start)
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
			assert_non_null(read_tags());
	}
}

UNIT(refuses_misalignment, .setup_func = start)
{
	map_tag();
	tag(MULTIBOOT2_END, "", 0);
	assert_string_equal(arena_read(&info, MULTIBOOT2_LOADER_MAGIC, ARENA_BASE + 4),
			    "the boot information is misaligned");
}

UNIT(refuses_tags_of_impossible_sizes, .setup_func = start)
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

UNIT(refuses_a_missing_end, .setup_func = start)
{
	map_tag();
	assert_string_equal(read_tags(), "the boot information has no end tag");
}

UNIT(refuses_short_tags, .setup_func = start)
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

UNIT(refuses_texts_without_end, .setup_func = start)
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

UNIT(refuses_broken_maps_of_tags, .setup_func = start)
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

UNIT(reads_longer_entries, .setup_func = start)
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

UNIT(cuts_a_long_command_line, .setup_func = start)
{
	char text[BOOT_TEXT_SIZE + 1];

	memset(text, 'x', sizeof(text));
	text[BOOT_TEXT_SIZE] = '\0';
	map_tag();
	text_tag(MULTIBOOT2_COMMAND_LINE, text);
	assert_string_equal(finish(), "the command line is too long");
	assert_int_equal(strlen(info.command_line), BOOT_TEXT_SIZE - 1);
}
