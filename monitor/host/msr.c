/* SPDX-License-Identifier: MIT */
#include "monitor/host/cpu.h"

/* After a fault at 1 execution goes on at 2, with `ok` still 0. */
#define FIXUP ".pushsection .fixups, \"a\"; .quad 1b, 2b; .popsection"

bool read_msr_safe(uint32_t index, uint64_t *value)
{
	uint32_t low = 0, high = 0, ok = 0;

	__asm__ volatile("1: rdmsr; mov $1, %2; 2: " FIXUP
			 : "+a"(low), "+d"(high), "+r"(ok)
			 : "c"(index));
	*value = (uint64_t)high << 32 | low;
	return ok;
}

bool write_msr_safe(uint32_t index, uint64_t value)
{
	uint32_t ok = 0;

	__asm__ volatile("1: wrmsr; mov $1, %0; 2: " FIXUP
			 : "+r"(ok)
			 : "c"(index), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
			 : "memory");
	return ok;
}
