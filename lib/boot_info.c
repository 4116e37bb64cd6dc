// SPDX-License-Identifier: MIT
#include "lib/boot_info.h"

#include "abi/multiboot.h"
#include "lib/string.h"

#include <stdbool.h>

struct boot_reader {
	struct boot_info *info;
	boot_memory memory;
	const char *fault; /* the first one met */
};

/* Keeps the first fault, NULL being none; reading goes on. */
static void boot_fault(struct boot_reader *reader, const char *sentence)
{
	if (!reader->fault)
		reader->fault = sentence;
}

/* Copies `bytes` of physical memory. False, and a fault, where they cannot be read. */
static bool boot_copy(struct boot_reader *reader, void *to, uint64_t physical, uint64_t bytes)
{
	const void *from = NULL;

	if (physical + bytes >= physical)
		from = reader->memory(physical, bytes);
	if (!from) {
		boot_fault(reader, "the boot information points outside memory");
		return false;
	}
	memcpy(to, from, bytes);
	return true;
}

/*
 * Copies a text of at most `available` bytes, and cuts it off to `size` with its NUL. `too_long`
 * is the fault if that lost a part of it, NULL if the loss is none; a text without a NUL within
 * `available` bytes is a fault. A byte at a time: the length of a Multiboot 1 text is known only
 * once its NUL is found.
 */
static void boot_copy_text(struct boot_reader *reader, char *to, size_t size, uint64_t physical,
			   uint64_t available, const char *too_long)
{
	for (size_t length = 0; length < size; length++) {
		to[length] = '\0';
		if (length == available) {
			boot_fault(reader, "a text in the boot information has no end");
			return;
		}
		if (!boot_copy(reader, &to[length], physical + length, 1) || !to[length])
			return;
	}
	to[size - 1] = '\0';
	if (too_long)
		boot_fault(reader, too_long);
}

static void boot_add_region(struct boot_reader *reader, uint64_t base, uint64_t length,
			    uint32_t type)
{
	struct boot_info *info = reader->info;
	unsigned place = info->region_count;

	if (length > UINT64_MAX - base)
		length = UINT64_MAX - base;
	if (type < MEMORY_USABLE || type > MEMORY_BAD)
		type = MEMORY_RESERVED;
	if (!length)
		return;
	if (info->region_count == BOOT_MAX_REGIONS) {
		boot_fault(reader, "the memory map has more regions than there is room for");
		return;
	}
	for (; place && info->regions[place - 1].base > base; place--)
		info->regions[place] = info->regions[place - 1];
	info->regions[place] = (struct boot_region){base, length, type};
	info->region_count++;
}

/* The module's string: at `string`, at most `available` bytes; 0 bytes: it has none. */
static void boot_add_module(struct boot_reader *reader, uint64_t start, uint64_t end,
			    uint64_t string, uint64_t available)
{
	struct boot_info *info = reader->info;
	struct boot_module *module = &info->modules[info->module_count];

	if (end <= start) {
		boot_fault(reader, "a boot module is empty");
		return;
	}
	if (info->module_count == BOOT_MAX_MODULES) {
		boot_fault(reader, "there are more boot modules than there is room for");
		return;
	}
	module->start = start;
	module->end = end;
	if (available)
		boot_copy_text(reader, module->string, sizeof(module->string), string, available,
			       "a boot module's words (in QEMU with its file's name) are too long");
	info->module_count++;
}

/* `size` must at least cover base, length and type; what a longer entry adds is passed over. */
enum { SMALLEST_ENTRY = sizeof(struct multiboot1_mmap_entry) - sizeof(uint32_t) };

static const char *multiboot1_memory_map(struct boot_reader *reader, uint64_t physical,
					 uint64_t length)
{
	while (length) {
		struct multiboot1_mmap_entry entry;
		uint64_t bytes;

		if (length < sizeof(entry))
			return "the memory map ends within an entry";
		if (!boot_copy(reader, &entry, physical, sizeof(entry)))
			return NULL;
		bytes = (uint64_t)entry.size + sizeof(entry.size);
		if (entry.size < SMALLEST_ENTRY || bytes > length)
			return "the memory map has an entry of an impossible size";
		boot_add_region(reader, entry.base, entry.length, entry.type);
		physical += bytes;
		length -= bytes;
	}
	return NULL;
}

static void multiboot1_modules(struct boot_reader *reader, uint64_t physical, uint32_t count)
{
	for (uint32_t i = 0; i < count && i <= BOOT_MAX_MODULES; i++) {
		struct multiboot1_module module;

		if (!boot_copy(reader, &module, physical + i * sizeof(module), sizeof(module)))
			return;
		boot_add_module(reader, module.start, module.end, module.string,
				module.string ? UINT64_MAX : 0);
	}
}

/* Multiboot specification 0.6.96, 3.3 "Boot information format". */
static void multiboot1_read(struct boot_reader *reader, uint64_t physical)
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
	if (from.flags & MULTIBOOT1_HAS_MEMORY_MAP) {
		boot_fault(reader, multiboot1_memory_map(reader, from.mmap_addr, from.mmap_length));
	} else if (from.flags & MULTIBOOT1_HAS_MEMORY) { /* in KiB, from 0 and from 1 MiB on */
		boot_add_region(reader, 0, (uint64_t)from.mem_lower << 10, MEMORY_USABLE);
		boot_add_region(reader, 1 << 20, (uint64_t)from.mem_upper << 10, MEMORY_USABLE);
	}
	if (from.flags & MULTIBOOT1_HAS_MODULES)
		multiboot1_modules(reader, from.mods_addr, from.mods_count);
}

enum { TAG_ALIGNMENT = 8, RSDP_V1_SIZE = 20 };

static void read_module(struct boot_reader *reader, uint64_t physical,
			const struct multiboot2_tag *tag)
{
	struct multiboot2_module module;

	if (tag->size < sizeof(module))
		boot_fault(reader, "a module tag is too short");
	else if (boot_copy(reader, &module, physical, sizeof(module)))
		boot_add_module(reader, module.start, module.end, physical + sizeof(module),
				tag->size - sizeof(module));
}

static const char *read_memory_map(struct boot_reader *reader, uint64_t physical,
				   const struct multiboot2_tag *tag)
{
	struct multiboot2_memory_map map;
	uint64_t offset = sizeof(map);

	if (tag->size < sizeof(map))
		return "the memory map tag is too short";
	if (!boot_copy(reader, &map, physical, sizeof(map)))
		return NULL;
	if (map.entry_size < sizeof(struct multiboot2_mmap_entry) || map.entry_size % TAG_ALIGNMENT)
		return "the memory map has entries of an impossible size";
	for (; tag->size - offset >= map.entry_size; offset += map.entry_size) {
		struct multiboot2_mmap_entry entry;

		if (!boot_copy(reader, &entry, physical + offset, sizeof(entry)))
			return NULL;
		boot_add_region(reader, entry.base, entry.length, entry.type);
	}
	return offset == tag->size ? NULL : "the memory map ends within an entry";
}

/* A version 2 table is the better one, whichever order the tags have. */
static void read_rsdp(struct boot_reader *reader, uint64_t physical,
		      const struct multiboot2_tag *tag)
{
	struct boot_info *info = reader->info;
	unsigned size = tag->type == MULTIBOOT2_RSDP_V1 ? RSDP_V1_SIZE : sizeof(info->rsdp);

	if (tag->size - sizeof(*tag) < size)
		boot_fault(reader, "an RSDP tag is too short");
	else if (size > info->rsdp_size &&
		 boot_copy(reader, info->rsdp, physical + sizeof(*tag), size))
		info->rsdp_size = size;
}

/* A screen is not worth the run: a tag that is too short for an RGB framebuffer is passed over. */
static void read_framebuffer(struct boot_reader *reader, uint64_t physical,
			     const struct multiboot2_tag *tag)
{
	struct multiboot2_framebuffer fb;

	if (tag->size < sizeof(fb) || !boot_copy(reader, &fb, physical, sizeof(fb)))
		return;
	reader->info->framebuffer = (struct boot_framebuffer){
		.address = fb.address,
		.pitch = fb.pitch,
		.width = fb.width,
		.height = fb.height,
		.bits = fb.bits,
		.type = fb.type,
		.red = {fb.red_position, fb.red_size},
		.green = {fb.green_position, fb.green_size},
		.blue = {fb.blue_position, fb.blue_size},
	};
}

static void read_tag(struct boot_reader *reader, uint64_t physical,
		     const struct multiboot2_tag *tag)
{
	struct boot_info *info = reader->info;
	uint64_t content = physical + sizeof(*tag), bytes = tag->size - sizeof(*tag);

	switch (tag->type) {
	case MULTIBOOT2_COMMAND_LINE:
		boot_copy_text(reader, info->command_line, sizeof(info->command_line), content,
			       bytes, "the command line is too long");
		break;
	case MULTIBOOT2_LOADER_NAME:
		boot_copy_text(reader, info->loader_name, sizeof(info->loader_name), content, bytes,
			       NULL);
		break;
	case MULTIBOOT2_MODULE:
		read_module(reader, physical, tag);
		break;
	case MULTIBOOT2_MEMORY_MAP:
		boot_fault(reader, read_memory_map(reader, physical, tag));
		break;
	case MULTIBOOT2_EFI64_SYSTEM_TABLE:
		if (bytes < sizeof(info->efi_system_table))
			boot_fault(reader, "an EFI system table tag is too short");
		else
			boot_copy(reader, &info->efi_system_table, content,
				  sizeof(info->efi_system_table));
		break;
	case MULTIBOOT2_FRAMEBUFFER:
		read_framebuffer(reader, physical, tag);
		break;
	case MULTIBOOT2_RSDP_V1:
	case MULTIBOOT2_RSDP_V2:
		read_rsdp(reader, physical, tag);
		break;
	}
}

static const char *walk_tags(struct boot_reader *reader, uint64_t physical, uint64_t size)
{
	uint64_t offset = sizeof(struct multiboot2_info);

	while (offset < size) {
		struct multiboot2_tag tag;

		if (size - offset < sizeof(tag))
			return "the boot information ends within a tag";
		if (!boot_copy(reader, &tag, physical + offset, sizeof(tag)))
			return NULL;
		if (tag.size < sizeof(tag) || tag.size > size - offset)
			return "the boot information has a tag of an impossible size";
		if (tag.type == MULTIBOOT2_END)
			return NULL;
		read_tag(reader, physical + offset, &tag);
		offset += ((uint64_t)tag.size + TAG_ALIGNMENT - 1) & ~(uint64_t)(TAG_ALIGNMENT - 1);
	}
	return "the boot information has no end tag";
}

/* Multiboot specification 2.0, 3.6 "Boot information". */
static const char *multiboot2_read(struct boot_reader *reader, uint64_t physical)
{
	struct boot_info *info = reader->info;
	struct multiboot2_info header;

	info->protocol = BOOT_MULTIBOOT2;
	if (physical % TAG_ALIGNMENT)
		return "the boot information is misaligned";
	if (!boot_copy(reader, &header, physical, sizeof(header)))
		return NULL;
	if (header.total_size < sizeof(header))
		return "the boot information is too short";
	info->info_start = physical;
	info->info_end = physical + header.total_size;
	return walk_tags(reader, physical, header.total_size);
}

const char *boot_info_read(struct boot_info *info, uint32_t magic, uint64_t physical,
			   boot_memory memory)
{
	struct boot_reader reader = {.info = info, .memory = memory};

	memset(info, 0, sizeof(*info));
	if (magic == MULTIBOOT1_LOADER_MAGIC)
		multiboot1_read(&reader, physical);
	else if (magic == MULTIBOOT2_LOADER_MAGIC)
		boot_fault(&reader, multiboot2_read(&reader, physical));
	else
		return "not started by a Multiboot loader";

	if (!info->region_count)
		boot_fault(&reader, "the boot loader gave no memory map");
	return reader.fault;
}
