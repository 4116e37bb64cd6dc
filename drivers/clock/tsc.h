/* SPDX-License-Identifier: MIT */
/* Time-stamp counter of this CPU. Any context. */
#pragma once

#include <stdint.h>

/* Not before the instructions ahead of it are done (SDM Vol 2, RDTSC). */
static inline uint64_t tsc_read(void)
{
	uint32_t low, high;
	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}
