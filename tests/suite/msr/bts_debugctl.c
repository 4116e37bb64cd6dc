// SPDX-License-Identifier: MIT
#include "kernel/trap/trap.h"
#include "tests/lib/msr_trial.h"
#include "tests/lib/rig.h"

TEST(bts_control_bits_hold, .group = "M", .ids = "M2", .needs = NEED_BTS,
     .claim = "TR, BTS and BTINT can be set alone and together, and read back as written",
     .source = "SDM Vol 3, 17.4.1 and table 35-2: 1D9H bits 6, 7, 8")
{
	const struct ds_configuration *c = ds_configuration;
	struct rig rig;

	rig_open(&rig, 16);
	for (unsigned choice = 0; choice < 8; choice++) {
		uint64_t value = (choice & 1 ? c->tr : 0) | (choice & 2 ? c->bts : 0) |
				 (choice & 4 ? c->btint : 0);
		struct msr_trial trial = msr_try(IA32_DEBUGCTL, value, 0);

		EXPECT(!trial.refused);
		EXPECT_EQ(trial.read_back, value);
		EXPECT_EQ(rdmsr(IA32_DEBUGCTL), 0);
	}
	EXPECT_EQ(rig_count(&rig), 0);
	rig_close(&rig);
}

#define NEWEST_OFF_OS  (1ull << 9)
#define NEWEST_OFF_USR (1ull << 10)

static void try(const char *key, uint64_t bits)
{
	struct msr_trial trial = msr_try(IA32_DEBUGCTL, bits, 0);

	if (ds_caps()->dscpl) {
		EXPECT(!trial.refused);
		EXPECT_EQ(trial.read_back, bits);
	} else {
		EXPECT_EQ(trial.read_back & ~bits, 0);
		EXPECT(!trial.refused || !trial.read_back);
		test_observe(key, "%s", msr_trial_word(&trial, bits));
	}
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), 0);
}

TEST(bts_cpl_bits_as_enumerated, .group = "M", .ids = "M3", .needs = NEED_BTS,
     .claim = "BTS_OFF_OS and BTS_OFF_USR can be set and read back where DS-CPL is enumerated",
     .source = "SDM Vol 3, 17.4.6 and table 35-2: 1D9H bits 9 and 10, CPUID.1:ECX[4]")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t off_os = c->off_os ? c->off_os : NEWEST_OFF_OS;
	uint64_t off_usr = c->off_usr ? c->off_usr : NEWEST_OFF_USR;
	struct rig rig;

	rig_open(&rig, 16);
	try("off_os", off_os);
	try("off_usr", off_usr);
	try("both", off_os | off_usr);
	rig_close(&rig);
}

#define NEWEST_TR (1ull << 6)

/*
 * Which bits are reserved differs between processors, and new ones get a meaning: that is only
 * observed. What must hold is that a refused write changes nothing and that no write sets another
 * bit than the one it is about. BTINT, harmless alone, stands for what was there before.
 */
TEST(bts_debugctl_reserved_bits, .group = "M", .ids = "M4", .needs = NEED_BTS,
     .claim = "a write of IA32_DEBUGCTL that raises #GP changes nothing",
     .source = "SDM Vol 2, WRMSR; SDM Vol 3, table 35-2: 1D9H")
{
	uint64_t before = ds_configuration->btint, refused = 0, ignored = 0, kept = 0;
	struct rig rig;

	if (ds_configuration->tr != NEWEST_TR)
		test_skip("MSR_DEBUGCTLA of NetBurst has other reserved bits");
	rig_open(&rig, 16);
	for (unsigned bit = 2; bit < 64; bit++) {
		uint64_t mask = 1ull << bit;
		struct msr_trial trial;

		if (bit >= 6 && bit < 16)
			continue;
		wrmsr(IA32_DEBUGCTL, before);
		trial = msr_try(IA32_DEBUGCTL, mask, 0);
		if (trial.refused) {
			EXPECT_EQ(trial.read_back, before);
			EXPECT_EQ(trap_caught().vector, VECTOR_GP);
			EXPECT_EQ(trap_caught().error, 0);
			refused |= mask;
		} else {
			EXPECT_EQ(trial.read_back & ~mask, 0);
			*(trial.read_back & mask ? &kept : &ignored) |= mask;
		}
	}
	test_observe("reserved_gp", "%lx", refused);
	test_observe("reserved_ignored", "%lx", ignored);
	test_observe("reserved_kept", "%lx", kept);
	rig_close(&rig);
}

#define LBR 1ull

extern const char lbr_from[], lbr_to[];

static void expect_jump(struct rig *rig, uint64_t debugctl)
{
	rig_reset(rig);
	EXACTLY (rig)
		TRACED(debugctl, "lbr_from: jmp lbr_to\n\tud2\nlbr_to:\n\t");
	EXPECT_EQ(rig_count(rig), 1);
	rig_expect(rig, 0, lbr_from, lbr_to, "jmp");
}

/*
 * Core processors cannot have TR and LBR at once: what the LBR stack then holds is not asked, nor
 * which of the bits such a processor keeps. It keeps no other, and TR and BTS alone record after
 * it.
 */
TEST(bts_tr_with_lbr, .group = "M", .ids = "M8", .needs = NEED_BTS,
     .claim = "LBR, where it can be set besides TR and BTS, does not disturb the records",
     .source =
	     "SDM Vol 3, 17.4.4: not both on P6 to Core, both on NetBurst, Atom, Nehalem and later")
{
	struct msr_trial trial;
	struct rig rig;

	rig_open(&rig, 16);
	trial = msr_try(IA32_DEBUGCTL, rig_all() | LBR, 0);
	test_observe("tr_with_lbr", "%s", msr_trial_word(&trial, LBR));
	EXPECT_EQ(trial.read_back & (trial.refused ? UINT64_MAX : ~(rig_all() | LBR)), 0);
	if ((trial.read_back & rig_all()) == rig_all())
		expect_jump(&rig, rig_all() | LBR);
	expect_jump(&rig, rig_all());
	rig_close(&rig);
}
