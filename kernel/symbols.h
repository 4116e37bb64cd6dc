/* SPDX-License-Identifier: MIT */
/* The kernel's own functions by address; the table is generated at link time. */
#ifndef SPOOR_KERNEL_SYMBOLS_H
#define SPOOR_KERNEL_SYMBOLS_H

#include <stdint.h>

struct symbol {
	uint64_t address;
	const char *name;
};

/* Sorted by address; the last entry has no name. */
extern const struct symbol symbols[];

/* The function that holds `address` and the offset into it; NULL outside the kernel's text. */
const char *symbol_name(uint64_t address, uint64_t *offset);

#endif
