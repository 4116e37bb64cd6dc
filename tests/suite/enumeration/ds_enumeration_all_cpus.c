// SPDX-License-Identifier: MIT
#include "drivers/cpuid.h"
#include "drivers/msr.h"
#include "kernel/cpu.h"
#include "kernel/smp/smp.h"
#include "tests/framework/test.h"

#define IA32_MISC_ENABLE 0x1a0u

struct enumeration {
	uint32_t signature, ds, dtes64_and_dscpl;
	uint64_t unavailable; /* IA32_MISC_ENABLE[12:11], where it can be read */
};

static void look(void *argument)
{
	struct enumeration *enumeration = argument;
	struct cpuid_result one = cpuid(1, 0);
	uint64_t enable = 0;

	rdmsr_safe(IA32_MISC_ENABLE, &enable);
	*enumeration = (struct enumeration){.signature = one.eax,
					    .ds = one.edx & 1u << 21,
					    .dtes64_and_dscpl = one.ecx & (1u << 2 | 1u << 4),
					    .unavailable = enable & (3u << 11)};
}

TEST(ds_enumeration_all_cpus, .group = "E", .ids = "E7", .needs = NEED_SMP,
     .claim = "all processors enumerate the same Debug Store",
     .source = "SDM Vol 3, 17.4.9; Linux 2.6.32, ds.c: \"Others are identical\"")
{
	struct enumeration first, other;

	smp_call(0, look, &first);
	for (unsigned i = 1; i < cpu_count(); i++) {
		smp_call(i, look, &other);
		EXPECT_EQ(other.signature, first.signature);
		EXPECT_EQ(other.ds, first.ds);
		EXPECT_EQ(other.dtes64_and_dscpl, first.dtes64_and_dscpl);
		EXPECT_EQ(other.unavailable, first.unavailable);
	}
}
