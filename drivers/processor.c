// SPDX-License-Identifier: MIT
#include "drivers/processor.h"

struct cpuid_result cpuid(uint32_t leaf, uint32_t subleaf)
{
	struct cpuid_result result;

	__asm__ volatile("cpuid"
			 : "=a"(result.eax), "=b"(result.ebx), "=c"(result.ecx), "=d"(result.edx)
			 : "a"(leaf), "c"(subleaf));
	return result;
}

uint64_t rdmsr(uint32_t index)
{
	uint32_t low, high;

	__asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(index) : "memory");
	return (uint64_t)high << 32 | low;
}

void wrmsr(uint32_t index, uint64_t value)
{
	__asm__ volatile("wrmsr"
			 :
			 : "c"(index), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
			 : "memory");
}
