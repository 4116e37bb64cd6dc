// SPDX-License-Identifier: MIT
#include "drivers/cpuid.h"
#include "drivers/ds/ds.h"
#include "kernel/silicon.h"
#include "lib/string.h"
#include "tests/framework/test.h"

#define CPUID_1_EDX_DS	       (1u << 21)
#define CPUID_1_ECX_DTES64     (1u << 2)
#define CPUID_1_ECX_DS_CPL     (1u << 4)
#define CPUID_1_ECX_HYPERVISOR (1u << 31)

static bool is_intel(const struct cpuid_result *zero)
{
	return !memcmp(&zero->ebx, "Genu", 4) && !memcmp(&zero->edx, "ineI", 4) &&
	       !memcmp(&zero->ecx, "ntel", 4);
}

/* What silicon= in the banner has to be. */
static const char *expected_silicon(uint32_t ecx)
{
	if (!ds_present())
		return "none";
	if (!(ecx & CPUID_1_ECX_HYPERVISOR))
		return "native";
	return silicon_is_foreign_guest() ? "guest" : "virtual";
}

TEST(ds_enumeration_consistent, .group = "E", .ids = "E1",
     .claim = "DS, DTES64 and DS-CPL read the same each time, and the banner says what they are",
     .source = "SDM Vol 2, CPUID: leaf 01H; SDM Vol 3, 17.4.9")
{
	const struct ds_caps *caps = ds_caps();
	struct cpuid_result zero = cpuid(0, 0), one = cpuid(1, 0);
	bool ds = is_intel(&zero) && one.edx & CPUID_1_EDX_DS;

	for (unsigned i = 0; i < 100; i++) {
		struct cpuid_result again = cpuid(1, 0);

		REQUIRE_EQ(again.eax, one.eax);
		REQUIRE_EQ(again.edx & CPUID_1_EDX_DS, one.edx & CPUID_1_EDX_DS);
		REQUIRE_EQ(again.ecx & (CPUID_1_ECX_DTES64 | CPUID_1_ECX_DS_CPL),
			   one.ecx & (CPUID_1_ECX_DTES64 | CPUID_1_ECX_DS_CPL));
	}
	EXPECT_EQ(caps->ds, ds);
	EXPECT_EQ(caps->dtes64, ds && one.ecx & CPUID_1_ECX_DTES64);
	EXPECT_EQ(caps->dscpl, ds && one.ecx & CPUID_1_ECX_DS_CPL);
	EXPECT(caps->status != DS_NOT_PROBED);
	EXPECT_EQ(caps->status == DS_NOT_INTEL, !is_intel(&zero));
	EXPECT_EQ(caps->status == DS_NOT_ENUMERATED,
		  is_intel(&zero) && !(one.edx & CPUID_1_EDX_DS));
	EXPECT(!strcmp(silicon_name(), expected_silicon(one.ecx)));
	test_observe("cpuid_1", "eax=%08x ecx=%08x edx=%08x", one.eax, one.ecx, one.edx);
}
