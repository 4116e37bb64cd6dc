/* SPDX-License-Identifier: MIT */
/* What stands in the kernel's own code, for addresses that a record claims. Any context. */
#ifndef SPOOR_TESTS_LIB_TEXT_H
#define SPOOR_TESTS_LIB_TEXT_H

#include "kernel/image.h"
#include "lib/string.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
