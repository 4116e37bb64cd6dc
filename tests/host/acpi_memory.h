/* SPDX-License-Identifier: MIT */
/*
 * "Physical memory" that holds the tables the ACPI tests build. physical_map() hands out a copy of
 * exactly what was asked for, so that ASan sees any read beyond it.
 */
#pragma once

#include <string.h>

#include "drivers/acpi/acpi.h"
#include "drivers/mmio.h"
#include "tests/host/host.h"

enum {
	MEMORY_BASE = 0x100000,
	MEMORY_SIZE = 0x4000,
	MEMORY_MAX_COPIES = 1 << 14,
	HEADER = sizeof(struct acpi_header),
};

extern struct acpi_memory {
	uint8_t bytes[MEMORY_SIZE];
	uint32_t used;
	uint32_t tables[16]; /* physical; what the root table will list */
	unsigned table_count;
	void *copies[MEMORY_MAX_COPIES];
	unsigned copy_count;
	struct boot_info boot;
} memory;

/* As setup of a test; what is at a physical address. */
int memory_clear(void **state);
uint8_t *memory_at(uint32_t physical);

/* Makes the sum of `size` bytes zero by changing the byte at `where`. */
void seal(uint8_t *bytes, uint32_t size, uint32_t where);

/* Stores a table of `size` bytes after its header; returns its physical address. */
uint32_t table_store(const char *signature, const void *body, uint32_t size);

/* The same, and the root table will list it. */
uint32_t table_add(const char *signature, const void *body, uint32_t size);

/* Writes an RSDP as the loader's copy; a root of 0 is left out. */
void rsdp_store(uint32_t rsdt, uint64_t xsdt);

/* An XSDT over all tables added so far, and acpi_init() over it. */
bool tables_publish(void);
