/* SPDX-License-Identifier: MIT */
#include "drivers/cpuid.h"

struct cpuid_result cpuid(uint32_t leaf, uint32_t subleaf)
{
	struct cpuid_result result;

	__asm__ volatile("cpuid"
			 : "=a"(result.eax), "=b"(result.ebx), "=c"(result.ecx), "=d"(result.edx)
			 : "a"(leaf), "c"(subleaf));
	return result;
}
