/* SPDX-License-Identifier: MIT */
/*
 * A global descriptor table of the test's own: the kernel's, and behind it segments of other modes.
 * On this CPU only, from own_gdt_load() to own_gdt_unload(), preemption off; nothing in between may
 * end the test.
 */
#ifndef SPOOR_TESTS_LIB_OWN_GDT_H
#define SPOOR_TESTS_LIB_OWN_GDT_H

#include <stddef.h>

/* CPL 0, base 0; limits 4 GiB, or 64 KiB for 16 bits. */
enum {
	OWN_CODE_32 = 0x80,
	OWN_DATA_32 = 0x88,
	OWN_CODE_16 = 0x90,
	OWN_DATA_16 = 0x98,
	OWN_CODE_64 = 0xa0,
};

void own_gdt_load(void);
void own_gdt_unload(void);

/* The table as it was loaded last, cut or filled with 0. */
void own_gdt_copy(void *to, size_t bytes);

#endif
