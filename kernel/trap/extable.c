// SPDX-License-Identifier: MIT
#include "kernel/trap/extable.h"

#include "drivers/msr.h"

struct entry {
	uint64_t at, go_on;
};

extern const struct entry exception_table_start[], exception_table_end[];

uint64_t extable_find(uint64_t rip)
{
	for (const struct entry *entry = exception_table_start; entry < exception_table_end;
	     entry++)
		if (entry->at == rip)
			return entry->go_on;
	return 0;
}

// MSR accesses that may fault; drivers/msr.h has the contract.

bool rdmsr_safe(uint32_t index, uint64_t *value)
{
	uint32_t low, high;
	bool done = false;

	__asm__ volatile("1:\trdmsr\n\t"
			 "movb $1, %0\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+q"(done), "=a"(low), "=d"(high)
			 : "c"(index), "1"(0), "2"(0));
	if (done)
		*value = (uint64_t)high << 32 | low;
	return done;
}

bool wrmsr_safe(uint32_t index, uint64_t value)
{
	bool done = false;

	__asm__ volatile("1:\twrmsr\n\t"
			 "movb $1, %0\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+q"(done)
			 : "c"(index), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
			 : "memory");
	return done;
}
