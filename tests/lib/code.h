/* SPDX-License-Identifier: MIT */
/*
 * Code that a test writes itself. A page is never writable and executable at one address: it is
 * written at one and runs at another, or one after the other. Task context.
 */
#ifndef SPOOR_TESTS_LIB_CODE_H
#define SPOOR_TESTS_LIB_CODE_H

#include "kernel/mm/page.h"
#include "lib/string.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Lets the page of test_area() at `page` be executed at `linear` as well, in ring 3 if `flags` has
 * VM_USER. It stays until code_unmap(), which must come before the test is over.
 */
void code_map(uint64_t linear, const void *page, unsigned flags);
void code_unmap(uint64_t linear);

/* Makes an area of test_area() executable, and writable again. */
void code_seal(void *area, size_t pages);
void code_unseal(void *area, size_t pages);

/* Instructions in the kernel's own code, for addresses that a record has. Any context. */

/* False also where `address` is not in the kernel's code at all. */
static inline bool text_is(uint64_t address, const uint8_t *bytes, size_t size)
{
	return address >= (uint64_t)text_start && address < (uint64_t)text_end &&
	       !memcmp((const void *)address, bytes, size);
}

static inline bool text_is_iretq(uint64_t address)
{
	return text_is(address, (const uint8_t[]){0x48, 0xcf}, 2);
}

static inline bool text_is_sysretq(uint64_t address)
{
	return text_is(address, (const uint8_t[]){0x48, 0x0f, 0x07}, 3);
}

#endif
