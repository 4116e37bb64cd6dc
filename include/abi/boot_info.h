/* SPDX-License-Identifier: MIT */
/* Boot information from the loader, in one form for every way to boot. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum memory_type {
	MEMORY_USABLE = 1,
	MEMORY_RESERVED = 2,
	MEMORY_ACPI_RECLAIMABLE = 3,
	MEMORY_ACPI_NVS = 4,
	MEMORY_BAD = 5,
};

enum boot_protocol { BOOT_MULTIBOOT1 = 1, BOOT_MULTIBOOT2 = 2 };

#define BOOT_MAX_REGIONS 64
#define BOOT_MAX_MODULES 4
#define BOOT_TEXT_SIZE	 2560 /* a file's name, which QEMU adds, and the 2,047 bytes Linux takes */

struct boot_region {
	uint64_t base, length; /* bytes; base + length does not overflow; length > 0 */
	uint32_t type;	       /* enum memory_type; an unknown type reads as MEMORY_RESERVED */
};

struct boot_module {
	uint64_t start, end; /* physical, [start, end), end > start */
	char string[BOOT_TEXT_SIZE];
};

/* As the loader said it, unchecked: drivers/console/screen.h says which can be used. */
struct boot_framebuffer {
	uint64_t address;
	uint32_t pitch;		/* bytes from one line to the next */
	uint32_t width, height; /* pixels; width 0: the loader gave none */
	uint8_t bits;		/* of a pixel */
	uint8_t type;		/* 0 indexed, 1 RGB, 2 EGA text */
	struct {
		uint8_t position, size; /* bits */
	} red, green, blue;
};

struct boot_info {
	enum boot_protocol protocol;
	char command_line[BOOT_TEXT_SIZE];
	char loader_name[64];
	unsigned region_count; /* sorted by base */
	struct boot_region regions[BOOT_MAX_REGIONS];
	unsigned module_count;
	struct boot_module modules[BOOT_MAX_MODULES];
	unsigned char rsdp[36];	   /* ACPI RSDP, copied */
	unsigned rsdp_size;	   /* 0: the loader gave none */
	uint64_t efi_system_table; /* physical; 0: the loader gave none */
	struct boot_framebuffer framebuffer;
	uint64_t info_start, info_end; /* physical memory that the loader's information occupies */
};
