// SPDX-License-Identifier: MIT
// MSR accesses that may fault; drivers/msr.h has the contract.
#include "drivers/msr.h"

#include "kernel/trap/extable.h"

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
