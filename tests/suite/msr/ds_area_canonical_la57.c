// SPDX-License-Identifier: MIT
#include "tests/lib/msr_trial.h"
#include "tests/lib/rig.h"

static const uint64_t canonical_57_only[] = {0x0000800000000000, 0x00ffffffffffffc0,
					     0xff00000000000000, 0xffff7fffffffffc0};

TEST(ds_area_canonical_la57, .group = "M", .ids = "M6", .needs = NEED_BTS | NEED_LA57,
     .claim = "with LA57 IA32_DS_AREA takes 57-bit addresses though paging has four levels",
     .source = "SDM Vol 2, WRMSR: canonical as the processor's linear-address width says")
{
	struct rig rig;
	uint64_t cr4;

	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	if (cr4 & 1u << 12)
		test_error("CR4.LA57 is set");
	rig_open(&rig, 16);
	for (unsigned i = 0; i < sizeof(canonical_57_only) / 8; i++) {
		struct msr_trial trial =
			msr_try(IA32_DS_AREA, canonical_57_only[i], (uint64_t)rig.area);

		EXPECT(!trial.refused);
		EXPECT_EQ(trial.read_back, canonical_57_only[i]);
	}
	EXPECT_EQ(rdmsr(IA32_DS_AREA), rig.area);
	rig_close(&rig);
}
