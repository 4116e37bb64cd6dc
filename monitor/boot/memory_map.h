/* SPDX-License-Identifier: MIT */
/* Questions to the memory map, and the one change made to it. Pure: any context, host tests too. */
#ifndef SPOOR_MONITOR_BOOT_MEMORY_MAP_H
#define SPOOR_MONITOR_BOOT_MEMORY_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/boot_info.h"
#include "monitor/memory.h"

/* Whether all of `range` is usable memory and nothing else claims a part of it. */
bool memory_usable(const struct boot_info *info, struct range range);

/* End of the highest usable region; 0 without one. */
uint64_t memory_top(const struct boot_info *info);

#define MEMORY_MOST_AVOIDED 16

/* Where a block of memory may stand. */
struct memory_request {
	uint64_t size;
	struct range within;
	bool from_top; /* the highest place rather than the lowest */
	unsigned avoided;
	struct range avoid[MEMORY_MOST_AVOIDED];
};

/* Adds a range that the block must not overlap. */
void memory_avoid(struct memory_request *request, struct range range);

/* Finds a page-aligned place in usable memory. False: there is none. */
bool memory_find(const struct boot_info *info, const struct memory_request *request,
		 uint64_t *start);

/* Makes `range` reserved. False, and nothing changed: the map has no room for more regions. */
bool memory_reserve(struct boot_info *info, struct range range);

#endif
