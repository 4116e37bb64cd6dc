// SPDX-License-Identifier: MIT
#include "drivers/cpuid.h"
#include "kernel/trap/trap.h"
#include "tests/lib/msr_trial.h"
#include "tests/lib/rig.h"

static const uint64_t canonical_48[] = {0x0, 0x00007fffffffffc0, 0xffff800000000000,
					0xffffffffffffff00};
static const uint64_t not_canonical_48[] = {0x0000800000000000, 0x0001000000000000,
					    0x00ff800000000000, 0xffff7fffffffffc0,
					    0xfffe800000000000, 0xff00000000000000};
static const uint64_t not_canonical_57[] = {0x0100000000000000, 0x8000000000000000,
					    0x7fff800000000000, 0xfeffffffffffffc0,
					    0x0200800000000000, 0x8000000000000040};

static void expect_taken(uint64_t address, uint64_t before)
{
	struct msr_trial trial = msr_try(IA32_DS_AREA, address, before);

	EXPECT(!trial.refused);
	EXPECT_EQ(trial.read_back, address);
}

static void expect_refused(uint64_t address, uint64_t before)
{
	struct msr_trial trial = msr_try(IA32_DS_AREA, address, before);

	if (!trial.refused)
		test_note("IA32_DS_AREA took %lx", address);
	else
		EXPECT_EQ(trap_caught().error, 0);
	EXPECT(trial.refused);
	EXPECT_EQ(trap_caught().vector, VECTOR_GP);
	EXPECT_EQ(trial.read_back, before);
}

/* Whether bits 56:47 may differ is the processor's width, not CR4.LA57's: see M6. */
TEST(ds_area_canonical, .group = "M", .ids = "M5", .needs = NEED_BTS,
     .claim = "IA32_DS_AREA takes canonical addresses; others raise #GP(0) and change nothing",
     .source = "SDM Vol 2, WRMSR: #GP for a non-canonical address; SDM Vol 3, table 35-2: 600H")
{
	bool la57 = cpuid(0, 0).eax >= 7 && cpuid(7, 0).ecx & 1u << 16;
	struct rig rig;
	uint64_t before;

	rig_open(&rig, 16);
	before = (uint64_t)rig.area;
	for (unsigned i = 0; i < sizeof(canonical_48) / 8; i++)
		expect_taken(canonical_48[i], before);
	for (unsigned i = 0; i < sizeof(not_canonical_57) / 8; i++)
		expect_refused(not_canonical_57[i], before);
	for (unsigned i = 0; i < sizeof(not_canonical_48) / 8 && !la57; i++)
		expect_refused(not_canonical_48[i], before);
	EXPECT_EQ(rdmsr(IA32_DS_AREA), before);
	rig_close(&rig);
}
