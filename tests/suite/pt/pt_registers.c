// SPDX-License-Identifier: MIT
// CPUID leaf 14H, and the MSRs of Intel PT with what they refuse.
#include "drivers/processor.h"
#include "tests/lib/msr_trial.h"
#include "tests/lib/pt_rig.h"

#define SUPPORTED_ADDRESSES 0x80000008u
#define NOT_CANONICAL	    (1ull << 63)
#define MSR_PLATFORM_INFO   0xceu
#define POWER_LEAF	    0x80000007u
#define CRYSTAL_LEAF	    0x15u

static const uint32_t fixed_msrs[] = {IA32_RTIT_OUTPUT_BASE, IA32_RTIT_OUTPUT_MASK_PTRS,
				      IA32_RTIT_STATUS};

TEST(pt_absent_refuses, .group = "PT", .ids = "PT1", .needs = NEED_BTS,
     .claim = "without Intel PT its MSRs raise #GP", .source = "SDM Vol 3, 36.2.7")
{
	uint64_t value;

	if (pt_caps()->present)
		test_skip("Intel Processor Trace is there");
	test_pin();
	for (uint32_t msr = IA32_RTIT_CTL; msr <= IA32_RTIT_CR3_MATCH; msr++) {
		EXPECT(!rdmsr_safe(msr, &value));
		EXPECT(msr_try(msr, 0, 0).refused);
	}
	EXPECT(!rdmsr_safe(IA32_RTIT_OUTPUT_BASE, &value));
	EXPECT(!rdmsr_safe(IA32_RTIT_OUTPUT_MASK_PTRS, &value));
	for (uint32_t msr = IA32_RTIT_ADDR0_A; msr < IA32_RTIT_ADDR0_A + 2 * PT_RANGES_MOST; msr++)
		EXPECT(!rdmsr_safe(msr, &value));
}

TEST(pt_after_reset, .group = "PT", .ids = "PT2 PT3", .needs = NEED_PT,
     .claim = "after RESET the MSRs read 0, but IA32_RTIT_OUTPUT_MASK_PTRS 7FH",
     .source = "SDM Vol 3, 36.2.7")
{
	const struct pt_found *found = pt_found();

	EXPECT_EQ(found->output_base, 0);
	EXPECT_EQ(found->output_mask_ptrs, 0x7f);
	EXPECT_EQ(found->control, 0);
	EXPECT_EQ(found->status, 0);
	EXPECT_EQ(found->cr3_match, 0);
	for (unsigned n = 0; n < 2 * PT_RANGES_MOST; n++)
		EXPECT_EQ(found->address[n], 0);
}

TEST(pt_leaf_consistent, .group = "PT", .ids = "PT10", .needs = NEED_PT,
     .claim = "what CPUID leaf 14H says fits together", .source = "SDM Vol 3, 36.3.1")
{
	struct cpuid_result leaf = cpuid(0x14, 0);

	test_observe("leaf_14", "%x,%x,%x", leaf.eax, leaf.ebx, leaf.ecx);
	EXPECT(pt_caps()->topa || !pt_caps()->topa_many);
	EXPECT(pt_caps()->ip_filter == (pt_caps()->ranges > 0));
	EXPECT(pt_caps()->ranges <= PT_RANGES_MOST);
	EXPECT(!pt_caps()->psb_cyc || pt_caps()->psb_frequencies & 1);
	EXPECT(!pt_caps()->psb_cyc || pt_caps()->cycle_thresholds & 1);
	EXPECT_EQ(leaf.edx, 0);
}

TEST(pt_clocks, .group = "PT", .ids = "PT10", .needs = NEED_PT,
     .claim =
	     "the TSC is invariant; MSR_PLATFORM_INFO has its ratio to the bus clock, and CPUID leaf "
	     "15H, where it is there, to the crystal",
     .source = "SDM Vol 2, CPUID; SDM Vol 3, chapter 35")
{
	struct cpuid_result crystal = cpuid(CRYSTAL_LEAF, 0);
	uint64_t platform_info = 0;

	test_pin();
	EXPECT(cpuid(POWER_LEAF, 0).edx & 1u << 8);
	EXPECT(rdmsr_safe(MSR_PLATFORM_INFO, &platform_info));
	EXPECT(platform_info >> 8 & 0xff);
	if (cpuid(0, 0).eax >= CRYSTAL_LEAF)
		EXPECT(crystal.eax && crystal.ebx > crystal.eax);
}

TEST(pt_pointers_register, .group = "PT", .ids = "PT3 PT4", .needs = NEED_PT,
     .claim = "IA32_RTIT_OUTPUT_MASK_PTRS keeps index and offset, its low seven bits read as 1",
     .source = "SDM Vol 3, 36.2.7")
{
	struct pt_rig rig;

	pt_open(&rig, 1, true);
	EXPECT_EQ(msr_try(IA32_RTIT_OUTPUT_MASK_PTRS, 0, 0).read_back, 0x7f);
	for (unsigned bit = 0; bit < 64; bit++) {
		struct msr_trial trial = msr_try(IA32_RTIT_OUTPUT_MASK_PTRS, 1ull << bit, 0);

		EXPECT(!trial.refused);
		EXPECT_EQ(trial.read_back, 1ull << bit | 0x7f);
	}
	EXPECT_EQ(msr_try(IA32_RTIT_OUTPUT_MASK_PTRS, RTIT_POINTERS(3, 0xabc), 0).read_back,
		  RTIT_POINTERS(3, 0xabc));
	pt_close(&rig);
}

TEST(pt_base_register, .group = "PT", .ids = "PT5", .needs = NEED_PT,
     .claim = "IA32_RTIT_OUTPUT_BASE takes multiples of 128 below MAXPHYADDR and nothing else",
     .source = "SDM Vol 3, 36.2.7")
{
	unsigned most = cpuid(SUPPORTED_ADDRESSES, 0).eax & 0xff;
	struct pt_rig rig;

	pt_open(&rig, 1, true);
	for (unsigned bit = 0; bit < 64; bit++) {
		struct msr_trial trial = msr_try(IA32_RTIT_OUTPUT_BASE, 1ull << bit, 0);

		EXPECT_EQ(trial.refused, bit < 7 || bit >= most);
		if (!trial.refused)
			EXPECT_EQ(trial.read_back, 1ull << bit);
	}
	EXPECT_EQ(rdmsr(IA32_RTIT_OUTPUT_BASE), 0);
	pt_close(&rig);
}

TEST(pt_status_register, .group = "PT", .ids = "PT6 PT7", .needs = NEED_PT,
     .claim = "IA32_RTIT_STATUS keeps Error, Stopped and, where there is one, PacketByteCnt; three "
	      "bits are read-only, the others raise #GP",
     .source = "SDM Vol 3, 36.2.7")
{
	const uint64_t read_only =
		RTIT_STATUS_FILTER_EN | RTIT_STATUS_CONTEXT_EN | RTIT_STATUS_TRIGGER_EN;
	uint64_t kept = RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED;
	uint64_t before, preserved = cpuid(0x14, 0).ebx & 1u << 6 ? 0xc0 : 0;
	struct pt_rig rig;

	if (pt_caps()->psb_cyc)
		kept |= RTIT_STATUS_PACKET_BYTE_COUNT;
	pt_open(&rig, 1, true);
	before = rdmsr(IA32_RTIT_STATUS) & read_only;
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t value = 1ull << bit;
		struct msr_trial trial = msr_try(IA32_RTIT_STATUS, value, 0);

		if (value & preserved)
			continue;
		EXPECT_EQ(trial.refused, !(value & (kept | read_only)));
		EXPECT_EQ(trial.read_back, before | (value & kept));
	}
	pt_close(&rig);
}

TEST(pt_cr3_register, .group = "PT", .ids = "PT8", .needs = NEED_PT,
     .claim = "IA32_RTIT_CR3_MATCH takes what bits 4:0 of are 0, and is there with the filter only",
     .source = "SDM Vol 3, 36.2.7")
{
	struct pt_rig rig;
	uint64_t value;

	pt_open(&rig, 1, true);
	EXPECT_EQ(rdmsr_safe(IA32_RTIT_CR3_MATCH, &value), pt_caps()->cr3_filter);
	for (unsigned bit = 0; bit < 64; bit++) {
		struct msr_trial trial = msr_try(IA32_RTIT_CR3_MATCH, 1ull << bit, 0);

		EXPECT_EQ(trial.refused, bit < 5 || !pt_caps()->cr3_filter);
		EXPECT_EQ(trial.read_back, trial.refused ? 0 : 1ull << bit);
	}
	pt_close(&rig);
}

TEST(pt_range_registers, .group = "PT", .ids = "PT9", .needs = NEED_PT,
     .claim = "IA32_RTIT_ADDRn_A and _B take canonical addresses, as many as CPUID says",
     .source = "SDM Vol 3, 36.2.7")
{
	struct pt_rig rig;

	pt_open(&rig, 1, true);
	for (uint32_t n = 0; n < 2 * PT_RANGES_MOST; n++) {
		uint32_t msr = IA32_RTIT_ADDR0_A + n;
		bool there = n / 2 < pt_caps()->ranges;
		struct msr_trial trial = msr_try(msr, 0xffff800000001234, 0);

		EXPECT_EQ(trial.refused, !there);
		EXPECT_EQ(trial.read_back, there ? 0xffff800000001234 : 0);
		trial = msr_try(msr, NOT_CANONICAL, 0);
		EXPECT(trial.refused);
		EXPECT_EQ(trial.read_back, 0);
	}
	pt_close(&rig);
}

/* The field's bits, if its value is in the bitmap. */
static uint64_t offered(uint64_t field, uint64_t value, bool there, uint16_t bitmap)
{
	return there && bitmap >> value & 1 ? value * (field & -field) : 0;
}

/* Table 36-6, of the bits that this knows. */
static bool is_valid(uint64_t control)
{
	const struct pt_caps *caps = pt_caps();
	uint64_t good = RTIT_CTL_OS | RTIT_CTL_USER | RTIT_CTL_TSC_EN | RTIT_CTL_DIS_RETC |
			RTIT_CTL_BRANCH_EN | RTIT_CTL_TOPA;

	good |= caps->cr3_filter ? RTIT_CTL_CR3_FILTER : 0;
	good |= caps->psb_cyc ? RTIT_CTL_CYC_EN : 0;
	good |= caps->mtc ? RTIT_CTL_MTC_EN : 0;
	good |= caps->ptwrite ? RTIT_CTL_PTW_EN | RTIT_CTL_FUP_ON_PTW : 0;
	good |= caps->power_events ? RTIT_CTL_PWR_EVT_EN : 0;
	good |= caps->fabric ? RTIT_CTL_FABRIC_EN : 0;
	good |= offered(RTIT_CTL_MTC_FREQ, control >> 14 & 0xf, caps->mtc, caps->mtc_periods);
	good |= offered(RTIT_CTL_CYC_THRESH, control >> 19 & 0xf, caps->psb_cyc,
			caps->cycle_thresholds);
	good |= offered(RTIT_CTL_PSB_FREQ, control >> 24 & 0xf, caps->psb_cyc,
			caps->psb_frequencies);
	for (unsigned n = 0; n < caps->ranges; n++)
		good |= (control >> (32 + 4 * n) & 0xf) <= 2 ? 0xfull << (32 + 4 * n) : 0;
	return !(control & ~good);
}

static void try_control(uint64_t control)
{
	struct msr_trial trial = msr_try(IA32_RTIT_CTL, control, 0);

	if (trial.refused != !is_valid(control))
		test_note("IA32_RTIT_CTL = %lx", control);
	EXPECT_EQ(trial.refused, !is_valid(control));
	EXPECT_EQ(trial.read_back, trial.refused ? 0 : control);
}

TEST(pt_control_register, .group = "PT", .ids = "PT7 PT10", .needs = NEED_PT,
     .claim = "IA32_RTIT_CTL takes what CPUID offers; reserved bits and values raise #GP",
     .source = "SDM Vol 3, 36.2.7")
{
	const uint64_t later = 1ull << 31 | 1ull << 55 | 1ull << 56; /* leaf 14H: EBX[8:6] */
	struct pt_rig rig;

	pt_open(&rig, 1, true);
	for (unsigned bit = 1; bit < 64; bit++)
		if (!(1ull << bit & later))
			try_control(1ull << bit);
	for (uint64_t value = 0; value < 16; value++) {
		try_control(value << 14);
		try_control(value << 19);
		try_control(value << 24);
		for (unsigned n = 0; n < PT_RANGES_MOST; n++)
			try_control(RTIT_CTL_ADDR_CFG(n, value));
	}
	pt_close(&rig);
}

TEST(pt_enabled_is_locked, .group = "PT", .ids = "PT11", .needs = NEED_PT,
     .claim = "while TraceEn is set a write to any other MSR of Intel PT raises #GP",
     .source = "SDM Vol 3, 36.2.7")
{
	uint64_t before[3], now;
	struct pt_rig rig;

	pt_open(&rig, 1, true);
	for (unsigned n = 0; n < 2; n++)
		before[n] = rdmsr(fixed_msrs[n]);
	wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
	for (unsigned n = 0; n < 3; n++)
		EXPECT(!wrmsr_safe(fixed_msrs[n], 0));
	EXPECT(!wrmsr_safe(IA32_RTIT_CR3_MATCH, 0));
	for (uint32_t n = 0; n < 2 * pt_caps()->ranges; n++)
		EXPECT(!wrmsr_safe(IA32_RTIT_ADDR0_A + n, 0));
	EXPECT(rdmsr_safe(IA32_RTIT_CTL, &now));
	EXPECT_EQ(now, pt_on(PT_PLAIN));
	pt_stop(&rig.trace);
	EXPECT_EQ(rdmsr(IA32_RTIT_OUTPUT_BASE), before[0]);
	pt_close(&rig);
}

TEST(pt_enabled_control, .group = "PT", .ids = "PT12", .needs = NEED_PT,
     .claim = "while TraceEn is set IA32_RTIT_CTL takes its own value, and any that clears TraceEn",
     .source = "SDM Vol 3, 36.2.7")
{
	const uint64_t on = pt_on(PT_PLAIN);
	struct pt_rig rig;

	pt_open(&rig, 1, true);
	for (unsigned bit = 1; bit < 64; bit++) {
		wrmsr(IA32_RTIT_CTL, on);
		EXPECT(!wrmsr_safe(IA32_RTIT_CTL, on ^ 1ull << bit));
		EXPECT_EQ(rdmsr(IA32_RTIT_CTL), on);
		EXPECT(wrmsr_safe(IA32_RTIT_CTL, on));
		EXPECT(wrmsr_safe(IA32_RTIT_CTL, RTIT_CTL_USER));
		EXPECT_EQ(rdmsr(IA32_RTIT_CTL), RTIT_CTL_USER);
	}
	pt_close(&rig);
}

TEST(pt_single_range_needed, .group = "PT", .ids = "PT13", .needs = NEED_PT,
     .claim = "TraceEn without ToPA raises #GP where there is no single-range output",
     .source = "SDM Vol 3, 36.2.7")
{
	struct pt_rig rig;

	pt_open(&rig, 1, true);
	wrmsr(IA32_RTIT_OUTPUT_BASE, rig.chunks[0]);
	wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, PT_RIG_BYTES - 1);
	EXPECT_EQ(msr_try(IA32_RTIT_CTL, PT_PLAIN | RTIT_CTL_TRACE_EN, 0).refused,
		  !pt_caps()->single_range);
	pt_close(&rig);
}

TEST(pt_trigger_status, .group = "PT", .ids = "PT14", .needs = NEED_PT,
     .claim = "TriggerEn is set with TraceEn, ContextEn at the privilege levels that are traced",
     .source = "SDM Vol 3, 36.2.5")
{
	struct pt_rig rig;
	uint64_t status;

	pt_open(&rig, 1, true);
	wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
	status = rdmsr(IA32_RTIT_STATUS);
	pt_stop(&rig.trace);
	EXPECT(status & RTIT_STATUS_TRIGGER_EN);
	EXPECT(status & RTIT_STATUS_CONTEXT_EN);
	EXPECT(!(status & (RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED)));
	EXPECT(!(rig.trace.status & RTIT_STATUS_TRIGGER_EN));
	wrmsr(IA32_RTIT_CTL, pt_on(RTIT_CTL_USER | RTIT_CTL_BRANCH_EN));
	status = rdmsr(IA32_RTIT_STATUS);
	pt_stop(&rig.trace);
	EXPECT(status & RTIT_STATUS_TRIGGER_EN);
	EXPECT(!(status & RTIT_STATUS_CONTEXT_EN));
	pt_close(&rig);
}
