/* SPDX-License-Identifier: MIT */
/*
 * A piece of "physical memory" from which the boot information tests have a loader's structures
 * read. It is handed out in copies of exactly its size, so that ASan sees a read past its end.
 */
#ifndef SPOOR_TESTS_BOOT_ARENA_H
#define SPOOR_TESTS_BOOT_ARENA_H

#include <stdlib.h>
#include <string.h>

#include "lib/boot_info.h"
#include "tests/host/host.h"

enum { ARENA_BASE = 0x10000, ARENA_SIZE = 16384 };

static struct {
	uint8_t bytes[ARENA_SIZE];
	uint64_t used;
	uint8_t *copy;
} arena;

static const void *arena_memory(uint64_t physical, uint64_t bytes)
{
	if (physical < ARENA_BASE || bytes > arena.used ||
	    physical - ARENA_BASE > arena.used - bytes)
		return NULL;
	return arena.copy + (physical - ARENA_BASE);
}

static inline int arena_clear(void **state)
{
	memset(&arena, 0, sizeof(arena));
	return 0;
}

/* Appends, at a multiple of 8; returns the physical address. */
static inline uint32_t arena_put(const void *bytes, size_t length)
{
	uint64_t offset = (arena.used + 7) & ~7ull;

	assert_true(offset + length <= ARENA_SIZE);
	memcpy(arena.bytes + offset, bytes, length);
	arena.used = offset + length;
	return (uint32_t)(ARENA_BASE + offset);
}

static inline const char *arena_read(struct boot_info *info, uint32_t magic, uint64_t physical)
{
	const char *fault;

	arena.copy = malloc(arena.used ? arena.used : 1);
	memcpy(arena.copy, arena.bytes, arena.used);
	fault = boot_info_read(info, magic, physical, arena_memory);
	free(arena.copy);
	return fault;
}

#endif
