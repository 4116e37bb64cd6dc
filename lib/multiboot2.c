/* SPDX-License-Identifier: MIT */
/* Multiboot2 specification 2.0, 3.6 "Boot information". */
#include "abi/multiboot.h"
#include "lib/boot_reader.h"

enum { TAG_ALIGNMENT = 8, RSDP_V1_SIZE = 20 };

static void read_text(struct boot_reader *reader, char *to, size_t size, uint64_t physical,
		      const struct multiboot2_tag *tag, const char *too_long)
{
	boot_copy_text(reader, to, size, physical + sizeof(*tag), tag->size - sizeof(*tag),
		       too_long);
}

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

static void read_memory_map(struct boot_reader *reader, uint64_t physical,
			    const struct multiboot2_tag *tag)
{
	struct multiboot2_memory_map map;
	uint64_t offset = sizeof(map);

	if (tag->size < sizeof(map)) {
		boot_fault(reader, "the memory map tag is too short");
		return;
	}
	if (!boot_copy(reader, &map, physical, sizeof(map)))
		return;
	if (map.entry_size < sizeof(struct multiboot2_mmap_entry) ||
	    map.entry_size % TAG_ALIGNMENT) {
		boot_fault(reader, "the memory map has entries of an impossible size");
		return;
	}
	for (; tag->size - offset >= map.entry_size; offset += map.entry_size) {
		struct multiboot2_mmap_entry entry;

		if (!boot_copy(reader, &entry, physical + offset, sizeof(entry)))
			return;
		boot_add_region(reader, entry.base, entry.length, entry.type);
	}
	if (offset != tag->size)
		boot_fault(reader, "the memory map ends within an entry");
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

static void read_efi_system_table(struct boot_reader *reader, uint64_t physical,
				  const struct multiboot2_tag *tag)
{
	uint64_t *to = &reader->info->efi_system_table;

	if (tag->size - sizeof(*tag) < sizeof(*to))
		boot_fault(reader, "an EFI system table tag is too short");
	else
		boot_copy(reader, to, physical + sizeof(*tag), sizeof(*to));
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

	switch (tag->type) {
	case MULTIBOOT2_COMMAND_LINE:
		read_text(reader, info->command_line, sizeof(info->command_line), physical, tag,
			  "the command line is too long");
		break;
	case MULTIBOOT2_LOADER_NAME:
		read_text(reader, info->loader_name, sizeof(info->loader_name), physical, tag,
			  NULL);
		break;
	case MULTIBOOT2_MODULE:
		read_module(reader, physical, tag);
		break;
	case MULTIBOOT2_MEMORY_MAP:
		read_memory_map(reader, physical, tag);
		break;
	case MULTIBOOT2_EFI64_SYSTEM_TABLE:
		read_efi_system_table(reader, physical, tag);
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

static void walk_tags(struct boot_reader *reader, uint64_t physical, uint64_t size)
{
	uint64_t offset = sizeof(struct multiboot2_info);

	while (offset < size) {
		struct multiboot2_tag tag;

		if (size - offset < sizeof(tag)) {
			boot_fault(reader, "the boot information ends within a tag");
			return;
		}
		if (!boot_copy(reader, &tag, physical + offset, sizeof(tag)))
			return;
		if (tag.size < sizeof(tag) || tag.size > size - offset) {
			boot_fault(reader, "the boot information has a tag of an impossible size");
			return;
		}
		if (tag.type == MULTIBOOT2_END)
			return;
		read_tag(reader, physical + offset, &tag);
		offset += ((uint64_t)tag.size + TAG_ALIGNMENT - 1) & ~(uint64_t)(TAG_ALIGNMENT - 1);
	}
	boot_fault(reader, "the boot information has no end tag");
}

void multiboot2_read(struct boot_reader *reader, uint64_t physical)
{
	struct boot_info *info = reader->info;
	struct multiboot2_info header;

	info->protocol = BOOT_MULTIBOOT2;
	if (physical % TAG_ALIGNMENT) {
		boot_fault(reader, "the boot information is misaligned");
		return;
	}
	if (!boot_copy(reader, &header, physical, sizeof(header)))
		return;
	if (header.total_size < sizeof(header)) {
		boot_fault(reader, "the boot information is too short");
		return;
	}
	info->info_start = physical;
	info->info_end = physical + header.total_size;
	walk_tags(reader, physical, header.total_size);
}
