/* SPDX-License-Identifier: MIT */
/* The processor that the monitor runs on. CPL 0; any context of the monitor. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/string.h"
#include "monitor/x86.h"

#define MSR_VM_CR	0xc0010114u
#define MSR_VM_HSAVE_PA 0xc0010117u

#define EFER_SVME (1ull << 12)

#define RFLAGS_TF (1ull << 8)
#define RFLAGS_IF (1ull << 9)
#define RFLAGS_NT (1ull << 14)

#define RFLAGS_RF (1ull << 16)

#define DR6_HITS	0xfull
#define DR6_BREAKPOINTS 0xfull /* B0 to B3 */
#define DR6_BS		(1ull << 14)
#define DR7_ENABLE	0xffull
#define DR7_RESET	0x400ull

struct cpuid {
	uint32_t eax, ebx, ecx, edx;
};

static inline struct cpuid cpuid(uint32_t leaf, uint32_t subleaf)
{
	struct cpuid r;

	__asm__ volatile("cpuid"
			 : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
			 : "a"(leaf), "c"(subleaf));
	return r;
}

/* QEMU's translator. */
static inline bool is_emulator(void)
{
	const uint32_t hypervisor = 1u << 31; /* leaf 1, ECX */
	struct cpuid leaf = cpuid(0x40000000, 0);

	return cpuid(1, 0).ecx & hypervisor && !memcmp(&leaf.ebx, "TCGTCGTCGTCG", 12);
}

static inline uint64_t read_msr(uint32_t index)
{
	uint32_t low, high;

	__asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(index));
	return (uint64_t)high << 32 | low;
}

static inline void write_msr(uint32_t index, uint64_t value)
{
	__asm__ volatile("wrmsr"
			 :
			 : "c"(index), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
			 : "memory");
}

/* As above; false where the processor raises #GP. */
bool read_msr_safe(uint32_t index, uint64_t *value);
bool write_msr_safe(uint32_t index, uint64_t value);

/* Gives CR4 these values of the bits in `mask`. */
static inline void change_cr4(uint64_t mask, uint64_t values)
{
	uint64_t cr4, wanted;

	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	wanted = (cr4 & ~mask) | (values & mask);
	if (wanted != cr4)
		__asm__ volatile("mov %0, %%cr4" : : "r"(wanted) : "memory");
}

/* CR4.OSXSAVE where there is XSAVE: for it, XRSTOR and XGETBV. */
static inline void enable_xsave(void)
{
	const uint32_t xsave = 1u << 26; /* leaf 1, ECX */

	if (cpuid(1, 0).ecx & xsave)
		change_cr4(CR4_OSXSAVE, CR4_OSXSAVE);
}

static inline uint64_t read_cr8(void)
{
	uint64_t value;

	__asm__ volatile("mov %%cr8, %0" : "=r"(value));
	return value;
}

static inline void write_cr8(uint64_t value)
{
	__asm__ volatile("mov %0, %%cr8" : : "r"(value) : "memory");
}

/* DR0 to DR3. */
static inline void read_breakpoints(uint64_t dr[4])
{
	__asm__ volatile("mov %%dr0, %0; mov %%dr1, %1; mov %%dr2, %2; mov %%dr3, %3"
			 : "=r"(dr[0]), "=r"(dr[1]), "=r"(dr[2]), "=r"(dr[3]));
}

static inline void flush_translations(void)
{
	uint64_t root;

	__asm__ volatile("mov %%cr3, %0; mov %0, %%cr3" : "=r"(root) : : "memory");
}
