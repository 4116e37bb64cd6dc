/* SPDX-License-Identifier: MIT */
/* How the monitor sees memory: its image at fixed virtual addresses, all memory in one piece. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PAGE_SIZE	4096ull
#define LARGE_PAGE_SIZE (2ull << 20)
#define GIB		(1ull << 30)

#define IMAGE_BASE  0xffffffffc0000000ull
#define DIRECT_BASE 0xffff800000000000ull

static inline uint64_t page_down(uint64_t address)
{
	return address & ~(PAGE_SIZE - 1);
}

static inline uint64_t page_up(uint64_t address)
{
	return page_down(address + PAGE_SIZE - 1);
}

struct range {
	uint64_t start, end; /* [start, end) */
};

static inline bool ranges_overlap(struct range a, struct range b)
{
	return a.start < b.end && b.start < a.end;
}

/* boot/relocate.c: the end of the direct map. */
uint64_t direct_end(void);

/* Physical memory below direct_end() through the direct map. */
static inline void *direct(uint64_t physical)
{
	return (void *)(DIRECT_BASE + physical);
}

/* The physical address of a pointer that direct() gave. */
static inline uint64_t direct_physical(const void *object)
{
	return (uint64_t)object - DIRECT_BASE;
}

/* Where an object of the image is in physical memory now. */
uint64_t image_physical(const void *object);
