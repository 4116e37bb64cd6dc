/* SPDX-License-Identifier: MIT */
/*
 * A processor for drivers under test: CPUID leaves, and a bank of MSRs that logs every write.
 */
#pragma once

#include "drivers/processor.h"
#include "tests/host/host.h"

struct fake_msr {
	uint32_t index; /* 0: none; raises #GP */
	uint64_t value;
	uint64_t writable; /* bits that a write changes; the rest is dropped without a word */
	uint64_t reserved; /* bits that raise #GP if set */
};

struct fake_write {
	uint32_t index;
	uint64_t value;
};

extern struct fake_cpu {
	struct cpuid_result leaf[32], subleaf_1[32];
	struct cpuid_result extended[16]; /* from leaf 80000000H on */
	struct fake_msr msrs[128];
	struct fake_write log[512];
	unsigned writes, reads;
	void (*before)(void); /* called before each RDMSR and WRMSR that is not safe */
} fake_cpu;

/* GenuineIntel, DS, DTES64, DS-CPL, no PT, with the given CPUID.1:EAX and the MSRs it needs. */
void fake_cpu_reset(uint32_t signature);

/* The MSR, created if it is not there. */
struct fake_msr *fake_msr(uint32_t index);

void fake_log_clear(void);

/* Asserts that the log holds exactly these writes, in this order. */
void fake_log_is(const struct fake_write *expected, unsigned count);
#define assert_writes(...)                                                                         \
	do {                                                                                       \
		const struct fake_write expected_[] = {__VA_ARGS__};                               \
		fake_log_is(expected_, sizeof(expected_) / sizeof(expected_[0]));                  \
	} while (0)
#define assert_no_writes() fake_log_is(NULL, 0)

enum {
	NEHALEM = 0x106a5,
	CORE_2 = 0x6f6,
	NETBURST = 0xf41,
	PENTIUM_M = 0x6d8,
	SKYLAKE = 0x506e3,
	ICE_LAKE = 0x706e5,
};
