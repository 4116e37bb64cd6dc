/* SPDX-License-Identifier: MIT */
/*
 * CPUID and model-specific registers, as ordinary functions that host tests can replace. Any
 * context; MSRs: CPL 0 only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cpuid_result {
	uint32_t eax, ebx, ecx, edx;
};

/* A leaf above the highest one returns what the processor returns for it: ask leaf 0 first. */
struct cpuid_result cpuid(uint32_t leaf, uint32_t subleaf);

/* The vendor is "GenuineIntel". */
static inline bool cpuid_is_intel(void)
{
	struct cpuid_result vendor = cpuid(0, 0);

	return vendor.ebx == 0x756e6547 && vendor.edx == 0x49656e69 && vendor.ecx == 0x6c65746e;
}

struct cpuid_signature {
	unsigned family, model, stepping;
};

/* From CPUID.1:EAX, the extended fields added where they count (SDM Vol 2, CPUID, figure 3-6). */
static inline struct cpuid_signature cpuid_signature(uint32_t eax)
{
	struct cpuid_signature signature = {eax >> 8 & 0xf, eax >> 4 & 0xf, eax & 0xf};

	if (signature.family == 6 || signature.family == 15)
		signature.model |= eax >> 12 & 0xf0;
	if (signature.family == 15)
		signature.family += eax >> 20 & 0xff;
	return signature;
}

/* What LGDT and LIDT load. */
struct table_pointer {
	uint16_t limit;
	uint64_t base;
} __attribute__((packed));

/* An MSR that does not exist raises #GP, which has no handler. */
uint64_t rdmsr(uint32_t index);
void wrmsr(uint32_t index, uint64_t value);

/*
 * False if the instruction raised #GP: then `*value` is unchanged, or nothing was written. Supplied
 * by the kernel, from when its exception table works.
 */
bool rdmsr_safe(uint32_t index, uint64_t *value);
bool wrmsr_safe(uint32_t index, uint64_t value);
