/* SPDX-License-Identifier: MIT */
/* Multiboot2 specification 2.0, 3.6 "Boot information". */
#include "monitor/boot/information.h"

#include <stdbool.h>
#include <stdint.h>

#include "abi/multiboot.h"
#include "lib/string.h"

enum { RSDP_V1_BYTES = 20 };

struct writer {
	uint8_t *buffer;
	size_t size, used;
	bool full;
};

static void append(struct writer *writer, const void *data, size_t bytes)
{
	if (bytes > writer->size - writer->used) {
		writer->full = true;
		return;
	}
	if (bytes)
		memcpy(writer->buffer + writer->used, data, bytes);
	writer->used += bytes;
}

/* A tag is a fixed part, that starts with the header, and a tail; padded to 8 bytes. */
static void append_tag(struct writer *writer, uint32_t type, const void *head, size_t head_bytes,
		       const void *tail, size_t tail_bytes)
{
	static const uint8_t padding[8];
	size_t size = sizeof(struct multiboot2_tag) + head_bytes + tail_bytes;
	struct multiboot2_tag tag = {type, (uint32_t)size};

	append(writer, &tag, sizeof(tag));
	append(writer, head, head_bytes);
	append(writer, tail, tail_bytes);
	append(writer, padding, -size & 7);
}

static void append_text(struct writer *writer, uint32_t type, const char *text)
{
	append_tag(writer, type, NULL, 0, text, strlen(text) + 1);
}

static void append_modules(struct writer *writer, const struct boot_info *info)
{
	for (unsigned i = 0; i < info->module_count; i++) {
		const struct boot_module *module = &info->modules[i];
		uint32_t range[2] = {(uint32_t)module->start, (uint32_t)module->end};

		append_tag(writer, MULTIBOOT2_MODULE, range, sizeof(range), module->string,
			   strlen(module->string) + 1);
	}
}

static void append_memory_map(struct writer *writer, const struct boot_info *info)
{
	uint32_t format[2] = {sizeof(struct multiboot2_mmap_entry), 0};
	struct multiboot2_mmap_entry entries[BOOT_MAX_REGIONS];

	for (unsigned i = 0; i < info->region_count; i++)
		entries[i] = (struct multiboot2_mmap_entry){
			info->regions[i].base, info->regions[i].length, info->regions[i].type, 0};
	append_tag(writer, MULTIBOOT2_MEMORY_MAP, format, sizeof(format), entries,
		   info->region_count * sizeof(entries[0]));
}

static void append_framebuffer(struct writer *writer, const struct boot_framebuffer *fb)
{
	struct multiboot2_framebuffer tag = {
		.address = fb->address,
		.pitch = fb->pitch,
		.width = fb->width,
		.height = fb->height,
		.bits = fb->bits,
		.type = fb->type,
		.red_position = fb->red.position,
		.red_size = fb->red.size,
		.green_position = fb->green.position,
		.green_size = fb->green.size,
		.blue_position = fb->blue.position,
		.blue_size = fb->blue.size,
	};

	append_tag(writer, MULTIBOOT2_FRAMEBUFFER, (const char *)&tag + sizeof(tag.tag),
		   sizeof(tag) - sizeof(tag.tag), NULL, 0);
}

size_t information_build(void *buffer, size_t size, const struct boot_info *info)
{
	struct writer writer = {.buffer = buffer, .size = size};
	struct multiboot2_info header = {0, 0};

	append(&writer, &header, sizeof(header));
	append_text(&writer, MULTIBOOT2_COMMAND_LINE, info->command_line);
	append_text(&writer, MULTIBOOT2_LOADER_NAME, info->loader_name);
	append_modules(&writer, info);
	append_memory_map(&writer, info);
	if (info->framebuffer.width)
		append_framebuffer(&writer, &info->framebuffer);
	if (info->rsdp_size)
		append_tag(&writer,
			   info->rsdp_size > RSDP_V1_BYTES ? MULTIBOOT2_RSDP_V2
							   : MULTIBOOT2_RSDP_V1,
			   NULL, 0, info->rsdp, info->rsdp_size);
	if (info->efi_system_table)
		append_tag(&writer, MULTIBOOT2_EFI64_SYSTEM_TABLE, NULL, 0, &info->efi_system_table,
			   sizeof(info->efi_system_table));
	append_tag(&writer, MULTIBOOT2_END, NULL, 0, NULL, 0);
	if (writer.full)
		return 0;
	header.total_size = (uint32_t)writer.used;
	memcpy(buffer, &header, sizeof(header));
	return writer.used;
}
