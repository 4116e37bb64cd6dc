/* SPDX-License-Identifier: MIT */
/* The structures that loaders of Multiboot 1 (0.6.96) and 2 (2.0) leave in memory. Layout only. */
#pragma once

#include <stdint.h>

#define MULTIBOOT1_LOADER_MAGIC 0x2badb002u
#define MULTIBOOT2_LOADER_MAGIC 0x36d76289u

/* The first word of a kernel's header, and within how many bytes of the file it is. */
#define MULTIBOOT1_HEADER_MAGIC 0x1badb002u
#define MULTIBOOT2_HEADER_MAGIC 0xe85250d6u
enum { MULTIBOOT1_HEADER_WITHIN = 8192, MULTIBOOT2_HEADER_WITHIN = 32768 };

enum {
	MULTIBOOT1_HAS_MEMORY = 1u << 0,
	MULTIBOOT1_HAS_COMMAND_LINE = 1u << 2,
	MULTIBOOT1_HAS_MODULES = 1u << 3,
	MULTIBOOT1_HAS_MEMORY_MAP = 1u << 6,
	MULTIBOOT1_HAS_LOADER_NAME = 1u << 9,
};

struct multiboot1_info {
	uint32_t flags;
	uint32_t mem_lower, mem_upper;
	uint32_t boot_device;
	uint32_t cmdline;
	uint32_t mods_count, mods_addr;
	uint32_t syms[4];
	uint32_t mmap_length, mmap_addr;
	uint32_t drives_length, drives_addr;
	uint32_t config_table;
	uint32_t boot_loader_name;
};
_Static_assert(sizeof(struct multiboot1_info) == 68, "fields up to boot_loader_name");

struct multiboot1_module {
	uint32_t start, end; /* [start, end) */
	uint32_t string;
	uint32_t reserved;
};
_Static_assert(sizeof(struct multiboot1_module) == 16, "Multiboot 1 module entry");

/* `size` does not count itself: the next entry starts at +size+4. */
struct multiboot1_mmap_entry {
	uint32_t size;
	uint64_t base, length;
	uint32_t type;
} __attribute__((packed));
_Static_assert(sizeof(struct multiboot1_mmap_entry) == 24, "Multiboot 1 memory map entry");

enum multiboot2_tag_type {
	MULTIBOOT2_END = 0,
	MULTIBOOT2_COMMAND_LINE = 1,
	MULTIBOOT2_LOADER_NAME = 2,
	MULTIBOOT2_MODULE = 3,
	MULTIBOOT2_MEMORY_SIZES = 4,
	MULTIBOOT2_MEMORY_MAP = 6,
	MULTIBOOT2_FRAMEBUFFER = 8,
	MULTIBOOT2_EFI64_SYSTEM_TABLE = 12,
	MULTIBOOT2_RSDP_V1 = 14,
	MULTIBOOT2_RSDP_V2 = 15,
};

struct multiboot2_info {
	uint32_t total_size;
	uint32_t reserved;
};

/* `size` counts this header; the next tag starts at the next multiple of 8. */
struct multiboot2_tag {
	uint32_t type;
	uint32_t size;
};

struct multiboot2_module {
	struct multiboot2_tag tag;
	uint32_t start, end;
	char string[];
};

struct multiboot2_memory_map {
	struct multiboot2_tag tag;
	uint32_t entry_size, entry_version;
};

struct multiboot2_mmap_entry {
	uint64_t base, length;
	uint32_t type;
	uint32_t reserved;
};
_Static_assert(sizeof(struct multiboot2_mmap_entry) == 24, "Multiboot 2 memory map entry");

struct multiboot2_framebuffer {
	struct multiboot2_tag tag;
	uint64_t address;
	uint32_t pitch, width, height;
	uint8_t bits, type;
	uint16_t reserved;
	uint8_t red_position, red_size, green_position, green_size, blue_position, blue_size;
} __attribute__((packed));
_Static_assert(sizeof(struct multiboot2_framebuffer) == 38, "Multiboot 2 framebuffer tag, RGB");
