/* SPDX-License-Identifier: MIT */
/* Multiboot specification 0.6.96, 3.3 "Boot information format". */
#include "abi/multiboot.h"
#include "lib/boot_reader.h"

/* `size` must at least cover base, length and type; what a longer entry adds is passed over. */
enum { SMALLEST_ENTRY = sizeof(struct multiboot1_mmap_entry) - sizeof(uint32_t) };

static void read_memory_map(struct boot_reader *reader, uint64_t physical, uint64_t length)
{
	while (length) {
		struct multiboot1_mmap_entry entry;
		uint64_t bytes;

		if (length < sizeof(entry)) {
			boot_fault(reader, "the memory map ends within an entry");
			return;
		}
		if (!boot_copy(reader, &entry, physical, sizeof(entry)))
			return;
		bytes = (uint64_t)entry.size + sizeof(entry.size);
		if (entry.size < SMALLEST_ENTRY || bytes > length) {
			boot_fault(reader, "the memory map has an entry of an impossible size");
			return;
		}
		boot_add_region(reader, entry.base, entry.length, entry.type);
		physical += bytes;
		length -= bytes;
	}
}

/* In KiB; the lower one starts at 0, the upper one at 1 MiB. */
static void read_memory_sizes(struct boot_reader *reader, uint32_t lower, uint32_t upper)
{
	boot_add_region(reader, 0, (uint64_t)lower << 10, MEMORY_USABLE);
	boot_add_region(reader, 1 << 20, (uint64_t)upper << 10, MEMORY_USABLE);
}

static void read_modules(struct boot_reader *reader, uint64_t physical, uint32_t count)
{
	for (uint32_t i = 0; i < count && i <= BOOT_MAX_MODULES; i++) {
		struct multiboot1_module module;

		if (!boot_copy(reader, &module, physical + i * sizeof(module), sizeof(module)))
			return;
		boot_add_module(reader, module.start, module.end, module.string,
				module.string ? UINT64_MAX : 0);
	}
}

void multiboot1_read(struct boot_reader *reader, uint64_t physical)
{
	struct boot_info *info = reader->info;
	struct multiboot1_info from;

	info->protocol = BOOT_MULTIBOOT1;
	if (!boot_copy(reader, &from, physical, sizeof(from)))
		return;
	info->info_start = physical;
	info->info_end = physical + sizeof(from);

	if (from.flags & MULTIBOOT1_HAS_COMMAND_LINE)
		boot_copy_text(reader, info->command_line, sizeof(info->command_line), from.cmdline,
			       UINT64_MAX, "the command line is too long");
	if (from.flags & MULTIBOOT1_HAS_LOADER_NAME)
		boot_copy_text(reader, info->loader_name, sizeof(info->loader_name),
			       from.boot_loader_name, UINT64_MAX, NULL);
	if (from.flags & MULTIBOOT1_HAS_MEMORY_MAP)
		read_memory_map(reader, from.mmap_addr, from.mmap_length);
	else if (from.flags & MULTIBOOT1_HAS_MEMORY)
		read_memory_sizes(reader, from.mem_lower, from.mem_upper);
	if (from.flags & MULTIBOOT1_HAS_MODULES)
		read_modules(reader, from.mods_addr, from.mods_count);
}
