// SPDX-License-Identifier: MIT
// CPUID leaf 14H, and the MSRs of Intel PT with what they refuse.
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/task.h"
#include "kernel/silicon.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/rig.h"

#define SUPPORTED_ADDRESSES 0x80000008u
#define LEAF_7_LA57	    (1u << 16) /* CPUID.7:ECX */
#define MSR_PLATFORM_INFO   0xceu
#define POWER_LEAF	    0x80000007u
#define CRYSTAL_LEAF	    0x15u

/* Of a processor that has two ranges; the third, which may be there, is tried bit by bit alone. */
static const uint32_t marked[] = {
	IA32_RTIT_OUTPUT_MASK_PTRS, IA32_RTIT_STATUS,  IA32_RTIT_OUTPUT_BASE, IA32_RTIT_CTL,
	IA32_RTIT_CR3_MATCH,	    IA32_RTIT_ADDR0_A, IA32_RTIT_ADDR0_A + 1, IA32_RTIT_ADDR0_A + 2,
	IA32_RTIT_ADDR0_A + 3};
enum { MARKED = sizeof(marked) / sizeof(marked[0]), FIRST_FILTER = 4 };

static bool is_there(unsigned n)
{
	if (marked[n] >= IA32_RTIT_ADDR0_A)
		return (marked[n] - IA32_RTIT_ADDR0_A) / 2 < pt_caps()->ranges;
	return marked[n] != IA32_RTIT_CR3_MATCH || pt_caps()->cr3_filter;
}

/* Two values of each that differ from all others, and from those after RESET. */
static uint64_t mark(unsigned n, unsigned which)
{
	if (marked[n] == IA32_RTIT_STATUS)
		return (which ? RTIT_STATUS_ERROR : RTIT_STATUS_STOPPED) |
		       (pt_caps()->psb_cyc ? (0x100ull + which) << 32 : 0);
	if (marked[n] == IA32_RTIT_CTL)
		return which ? PT_PLAIN : RTIT_CTL_USER | RTIT_CTL_DIS_RETC;
	/* OUTPUT_BASE has no more bits than an address. */
	return (0x10000u + 0x1000 * n + 0x8000000 * which) | (n ? 0 : RTIT_MASK_PTRS_FIXED) |
	       (marked[n] == IA32_RTIT_OUTPUT_BASE ? 0 : (n + 1 + 16ull * which) << 40);
}

static void expect_absent(uint32_t msr, uint32_t last)
{
	uint64_t value;

	for (; msr <= last; msr++) {
		EXPECT(!rdmsr_safe(msr, &value));
		EXPECT(msr_try(msr, 0, 0).refused);
	}
}

TEST(pt_absent_refuses, .group = "PT", .ids = "PT1", .needs = NEED_BTS,
     .claim = "without Intel PT its MSRs raise #GP", .source = "SDM Vol 3, 36.2.7")
{
	if (pt_caps()->present)
		test_skip("Intel Processor Trace is there");
	test_pin();
	expect_absent(IA32_RTIT_OUTPUT_BASE, IA32_RTIT_OUTPUT_MASK_PTRS);
	expect_absent(IA32_RTIT_CTL, IA32_RTIT_CR3_MATCH);
	expect_absent(IA32_RTIT_ADDR0_A, IA32_RTIT_ADDR0_A + 2 * PT_RANGES_MOST - 1);
}

TEST(pt_enumerated_is_present, .group = "PT", .ids = "PT10", .needs = 0,
     .claim = "where CPUID.7:EBX[25] says that Intel PT is there IA32_RTIT_CTL can be read, and "
	      "leaf 14H has an output scheme",
     .source = "SDM Vol 3, 36.3.1 and 36.2.7")
{
	const uint32_t schemes = 1 | 1 << 2 | 1 << 3; /* ToPA, single range, trace transport */
	uint64_t value;

	if (!cpuid_is_intel() || cpuid(0, 0).eax < 0x14 || !(cpuid(7, 0).ebx & 1u << 25))
		test_skip("no Intel Processor Trace: CPUID.7:EBX[25]");
	EXPECT(rdmsr_safe(IA32_RTIT_CTL, &value));
	EXPECT(cpuid(0x14, 0).ecx & schemes);
}

/* Firmware that has traced leaves what is not that of RESET. It is no processor's fault. */
static bool was_used_since_reset(const struct pt_found *found)
{
	return !silicon_is_virtual() && (found->output_base || found->status || found->control);
}

TEST(pt_after_reset, .group = "PT", .ids = "PT2 PT3", .needs = NEED_PT,
     .claim =
	     "after RESET the MSRs read 0, but IA32_RTIT_OUTPUT_MASK_PTRS 7FH, unless firmware has "
	     "used them",
     .source = "SDM Vol 3, 36.2.7")
{
	const struct pt_found *found = pt_found();

	EXPECT_EQ(found->output_mask_ptrs & RTIT_MASK_PTRS_FIXED, RTIT_MASK_PTRS_FIXED);
	if (was_used_since_reset(found)) {
		test_observe("used_since_reset", "base %lx, control %lx, status %lx",
			     found->output_base, found->control, found->status);
		return;
	}
	EXPECT_EQ(found->output_base, 0);
	EXPECT_EQ(found->output_mask_ptrs, 0x7f);
	EXPECT_EQ(found->control, 0);
	EXPECT_EQ(found->status, 0);
	EXPECT_EQ(found->cr3_match, 0);
	for (unsigned n = 0; n < 2 * PT_RANGES_MOST; n++)
		EXPECT_EQ(found->address[n], 0);
}

TEST(pt_leaf_consistent, .group = "PT", .ids = "PT10", .needs = NEED_PT,
     .claim =
	     "in CPUID leaf 14H many ToPA entries need ToPA, IP filtering has ranges, EDX is 0, and "
	     "so is any subleaf that there is not",
     .source = "SDM Vol 2, CPUID; SDM Vol 3, 36.3.1")
{
	struct cpuid_result leaf = cpuid(0x14, 0), beyond;
	unsigned ranges = leaf.eax ? cpuid(0x14, 1).eax & 7 : 0;

	test_observe("leaf_14", "%x,%x,%x", leaf.eax, leaf.ebx, leaf.ecx);
	EXPECT(pt_caps()->topa || !pt_caps()->topa_many);
	EXPECT(pt_caps()->ip_filter == (ranges > 0));
	EXPECT(ranges <= PT_RANGES_MOST);
	EXPECT(!pt_caps()->psb_cyc || pt_caps()->psb_frequencies & 1);
	EXPECT(!pt_caps()->psb_cyc || pt_caps()->cycle_thresholds & 1);
	EXPECT_EQ(leaf.edx, 0);
	for (uint32_t more = 1; leaf.eax + more > leaf.eax; more *= 2) {
		beyond = cpuid(0x14, leaf.eax + more);
		EXPECT_EQ(beyond.eax | beyond.ebx | beyond.ecx | beyond.edx, 0);
	}
}

TEST(pt_clocks, .group = "PT", .ids = "PT10", .needs = NEED_PT,
     .claim = "the TSC is invariant; MSR_PLATFORM_INFO has its ratio to the bus clock, and CPUID "
	      "leaf 15H, where it is there, to the crystal",
     .source = "SDM Vol 2, CPUID; SDM Vol 3, chapter 35")
{
	struct cpuid_result crystal = cpuid(CRYSTAL_LEAF, 0);
	uint64_t platform_info = 0;

	if (silicon_is_foreign_guest())
		test_skip("a hypervisor may hide what its TSC is a multiple of");
	test_pin();
	EXPECT(cpuid(POWER_LEAF, 0).edx & 1u << 8);
	EXPECT(rdmsr_safe(MSR_PLATFORM_INFO, &platform_info));
	EXPECT(platform_info >> 8 & 0xff);
	if (cpuid(0, 0).eax >= CRYSTAL_LEAF)
		EXPECT(!crystal.eax || !crystal.ebx || crystal.ebx > crystal.eax);
}

/* How each bit of a register has to behave while TraceEn is clear. */
struct bits {
	uint32_t msr;
	uint64_t kept, ignored, good, skipped;
};

/* Beside `good` each bit alone: it is kept, or has no effect; or it raises #GP, and nothing that is
   written with it counts. */
static void try_bits(const struct bits *bits)
{
	uint64_t fixed = msr_try(bits->msr, bits->good, bits->good).read_back;

	EXPECT_EQ(fixed & ~bits->ignored, bits->good & ~bits->ignored);
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t value = 1ull << bit;
		bool refused = !((bits->kept | bits->ignored) & value);
		struct msr_trial trial;

		if (bits->skipped & value)
			continue;
		trial = msr_try(bits->msr, bits->good ^ value ^ (refused ? bits->kept : 0),
				bits->good);
		if (trial.refused != refused)
			test_note("bit %u of MSR %x", bit, bits->msr);
		EXPECT_EQ(trial.refused, refused);
		EXPECT_EQ(trial.read_back, bits->kept & value ? fixed ^ value : fixed);
	}
	wrmsr(bits->msr, 0);
}

static uint64_t below(unsigned bit)
{
	return (1ull << bit) - 1;
}

TEST(pt_base_register, .group = "PT", .ids = "PT5 PT56", .needs = NEED_PT,
     .claim = "IA32_RTIT_OUTPUT_BASE holds bits MAXPHYADDR-1:7 and refuses each other",
     .source = "SDM Vol 3, 36.2.7")
{
	uint64_t kept = below(cpuid(SUPPORTED_ADDRESSES, 0).eax & 0xff) & ~0x7full;

	PT_RIG(rig, 1, true);
	try_bits(&(struct bits){.msr = IA32_RTIT_OUTPUT_BASE, .kept = kept});
	try_bits(&(struct bits){.msr = IA32_RTIT_OUTPUT_BASE, .kept = kept, .good = kept});
}

TEST(pt_pointers_register, .group = "PT", .ids = "PT3 PT4 PT57", .needs = NEED_PT,
     .claim =
	     "IA32_RTIT_OUTPUT_MASK_PTRS holds bits 63:7; the others read as 1 whatever is written",
     .source = "SDM Vol 3, 36.2.7")
{
	PT_RIG(rig, 1, true);
	EXPECT_EQ(msr_try(IA32_RTIT_OUTPUT_MASK_PTRS, 0, 0).read_back, RTIT_MASK_PTRS_FIXED);
	for (unsigned n = 0; n < 2; n++)
		try_bits(&(struct bits){.msr = IA32_RTIT_OUTPUT_MASK_PTRS,
					.kept = ~0x7full,
					.ignored = 0x7f,
					.good = n ? ~0ull : 0});
}

TEST(pt_status_register, .group = "PT", .ids = "PT6 PT7 PT58 PT59 PT60 PT61", .needs = NEED_PT,
     .claim = "IA32_RTIT_STATUS keeps Error, Stopped and, where there is one, PacketByteCnt; three "
	      "bits are read-only, the others raise #GP",
     .source = "SDM Vol 3, 36.2.7")
{
	const uint64_t enables =
		RTIT_STATUS_FILTER_EN | RTIT_STATUS_CONTEXT_EN | RTIT_STATUS_TRIGGER_EN;
	uint64_t kept = RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED, left;

	if (pt_caps()->psb_cyc)
		kept |= RTIT_STATUS_PACKET_BYTE_COUNT;
	PT_RIG(rig, 1, true);
	pt_trace_nop(&rig, PT_PLAIN);
	left = rdmsr(IA32_RTIT_STATUS) & enables;
	for (unsigned n = 0; n < 2; n++)
		try_bits(&(struct bits){.msr = IA32_RTIT_STATUS,
					.kept = kept,
					.ignored = enables,
					.good = n ? kept : 0,
					.skipped = cpuid(0x14, 0).ebx & 1u << 6 ? 0xc0 : 0});
	EXPECT_EQ(rdmsr(IA32_RTIT_STATUS) & enables, left);
}

TEST(pt_cr3_register, .group = "PT", .ids = "PT8 PT62", .needs = NEED_PT,
     .claim = "IA32_RTIT_CR3_MATCH takes what bits 4:0 of are 0, and is there with the filter only",
     .source = "SDM Vol 3, 36.2.7")
{
	uint64_t value;

	PT_RIG(rig, 1, true);
	EXPECT_EQ(rdmsr_safe(IA32_RTIT_CR3_MATCH, &value), pt_caps()->cr3_filter);
	EXPECT_EQ(wrmsr_safe(IA32_RTIT_CR3_MATCH, 0), pt_caps()->cr3_filter);
	for (unsigned n = 0; n < 2 && pt_caps()->cr3_filter; n++)
		try_bits(&(struct bits){
			.msr = IA32_RTIT_CR3_MATCH, .kept = ~0x1full, .good = n ? ~0x1full : 0});
}

TEST(pt_range_registers, .group = "PT", .ids = "PT9 PT63", .needs = NEED_PT,
     .claim = "IA32_RTIT_ADDRn_A and _B take canonical addresses, as many as CPUID says; RDMSR and "
	      "WRMSR of the others raise #GP; none has a second number",
     .source = "SDM Vol 3, 36.2.7")
{
	const uint64_t marks = 0x5a5a5a5a5a00;
	unsigned width = cpuid(7, 0).ecx & LEAF_7_LA57 ? 57 : 48;
	uint64_t value;

	PT_RIG(rig, 1, true);
	for (uint32_t n = 0; n < 2 * PT_RANGES_MOST; n++) {
		struct bits bits = {.msr = IA32_RTIT_ADDR0_A + n, .kept = below(width - 1)};

		if (n / 2 >= pt_caps()->ranges) {
			EXPECT(!rdmsr_safe(bits.msr, &value));
			EXPECT(msr_try(bits.msr, 0, 0).refused);
			continue;
		}
		try_bits(&bits);
		bits.good = ~bits.kept;
		try_bits(&bits);
		wrmsr(bits.msr, marks + n);
	}
	for (uint32_t msr = IA32_RTIT_OUTPUT_BASE; msr < IA32_RTIT_ADDR0_A; msr++)
		EXPECT(!rdmsr_safe(msr, &value) || value - marks >= 2 * PT_RANGES_MOST);
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

/* Of any of EBX[8:6] of leaf 14H: what this suite does not know. */
static uint64_t later_bits(void)
{
	return cpuid(0x14, 0).ebx & 0x1c0 ? 1ull << 31 | 3ull << 55 : 0;
}

/* What IA32_RTIT_CTL has before each trial, and keeps where that is refused. */
#define KEPT (PT_PLAIN | RTIT_CTL_DIS_RETC)

static void try_control(uint64_t control)
{
	for (unsigned on = 0; on < 2; on++) {
		uint64_t value = on ? pt_on(control) : control;
		struct msr_trial trial;

		wrmsr(IA32_RTIT_CTL, KEPT);
		trial = msr_try(IA32_RTIT_CTL, value, value & ~RTIT_CTL_TRACE_EN);
		if (trial.refused != !is_valid(control))
			test_note("IA32_RTIT_CTL = %lx", value);
		if (on && !(control & RTIT_CTL_BRANCH_EN))
			EXPECT_OR_ERRATUM(trial.refused == !is_valid(control), "BDM106");
		else
			EXPECT_EQ(trial.refused, !is_valid(control));
		EXPECT_EQ(trial.read_back, trial.refused ? KEPT : value);
	}
}

TEST(pt_control_register, .group = "PT", .ids = "PT7 PT10 PT66 PT67 PT68 PT69", .needs = NEED_PT,
     .claim = "IA32_RTIT_CTL takes what CPUID offers; reserved bits and values raise #GP and "
	      "change nothing",
     .source = "SDM Vol 3, 36.2.7")
{
	PT_RIG(rig, 1, true);
	for (unsigned bit = 1; bit < 64; bit++)
		if (!(1ull << bit & later_bits()))
			try_control(1ull << bit);
	for (uint64_t value = 0; value < 16; value++) {
		try_control(value << 14);
		try_control(value << 19);
		try_control(value << 24);
		for (unsigned n = 0; n < PT_RANGES_MOST; n++)
			try_control(RTIT_CTL_ADDR_CFG(n, value));
	}
}

/* With what TraceEn may be set: in context, out of it, and with a bit left by which nothing is
   traced. */
static const struct {
	uint64_t control, left;
} traced[] = {{PT_PLAIN, 0},
	      {RTIT_CTL_USER | RTIT_CTL_BRANCH_EN, 0},
	      {PT_PLAIN, RTIT_STATUS_ERROR},
	      {PT_PLAIN, RTIT_STATUS_STOPPED}};
enum { TRACED_ROWS = sizeof(traced) / sizeof(traced[0]) };

static void expect_locked(struct pt_rig *rig, uint64_t on, uint64_t left)
{
	uint64_t now;

	pt_again(rig, PT_PLAIN);
	for (unsigned n = FIRST_FILTER; n < MARKED; n++)
		if (is_there(n))
			wrmsr(marked[n], mark(n, 1));
	wrmsr(IA32_RTIT_STATUS, left);
	wrmsr(IA32_RTIT_CTL, on);
	for (unsigned n = 0; n < MARKED; n++) {
		if (!is_there(n) || marked[n] == IA32_RTIT_CTL)
			continue;
		EXPECT(rdmsr_safe(marked[n], &now));
		EXPECT(!wrmsr_safe(marked[n], n == 1 ? left : now));
		EXPECT(!wrmsr_safe(marked[n], 0));
	}
	EXPECT(rdmsr_safe(IA32_RTIT_CTL, &now));
	EXPECT_EQ(now, on);
	pt_stop(&rig->trace);
	EXPECT_EQ(rdmsr(IA32_RTIT_OUTPUT_BASE), rig->trace.buffer.table_address);
	for (unsigned n = FIRST_FILTER; n < MARKED; n++)
		if (is_there(n))
			EXPECT_EQ(rdmsr(marked[n]), mark(n, 1));
}

TEST(pt_enabled_is_locked, .group = "PT", .ids = "PT11 PT70", .needs = NEED_PT,
     .claim = "while TraceEn is set a write to any other MSR of Intel PT raises #GP, even of the "
	      "value that it has, and each can be read",
     .source = "SDM Vol 3, 36.2.7")
{
	PT_RIG(rig, 1, true);
	for (unsigned n = 0; n < TRACED_ROWS; n++)
		expect_locked(&rig, pt_on(traced[n].control), traced[n].left);
}

TEST(pt_enabled_control, .group = "PT", .ids = "PT12 PT71", .needs = NEED_PT,
     .claim = "while TraceEn is set IA32_RTIT_CTL takes its own value, and any valid one that "
	      "clears TraceEn",
     .source = "SDM Vol 3, 36.2.7")
{
	PT_RIG(rig, 1, true);
	for (unsigned n = 0; n < 63 * TRACED_ROWS; n++) {
		const uint64_t on = pt_on(traced[n % TRACED_ROWS].control);
		unsigned bit = 1 + n / TRACED_ROWS;

		pt_off();
		wrmsr(IA32_RTIT_STATUS, traced[n % TRACED_ROWS].left);
		wrmsr(IA32_RTIT_CTL, on);
		EXPECT(!wrmsr_safe(IA32_RTIT_CTL, on ^ 1ull << bit));
		EXPECT_EQ(rdmsr(IA32_RTIT_CTL), on);
		EXPECT(wrmsr_safe(IA32_RTIT_CTL, on));
		for (uint64_t value = 1ull << bit, more = 0; more < 2; value *= 3, more++)
			if (!(value & later_bits()) && !is_valid(value))
				EXPECT(!wrmsr_safe(IA32_RTIT_CTL, value));
		EXPECT_EQ(rdmsr(IA32_RTIT_CTL), on);
		EXPECT(wrmsr_safe(IA32_RTIT_CTL, RTIT_CTL_DIS_RETC));
		EXPECT_EQ(rdmsr(IA32_RTIT_CTL), RTIT_CTL_DIS_RETC);
	}
	/* The last packets go where the others went. */
	pt_again(&rig, PT_PLAIN);
	pt_switch(PT_PLAIN, 0);
	pt_stop(&rig.trace);
	REQUIRE(pt_state(&rig.trace).end > 0);
	EXPECT(rig.memory[pt_state(&rig.trace).end - 1] != PT_RIG_POISON);
}

TEST(pt_single_range_needed, .group = "PT", .ids = "PT13", .needs = NEED_PT,
     .claim = "TraceEn without ToPA raises #GP where there is no single-range output; without "
	      "TraceEn the other bits may be set",
     .source = "SDM Vol 3, 36.2.7")
{
	static const uint64_t alone[] = {RTIT_CTL_OS, RTIT_CTL_USER, RTIT_CTL_BRANCH_EN, PT_PLAIN};

	PT_RIG(rig, 1, true);
	wrmsr(IA32_RTIT_OUTPUT_BASE, rig.chunks[0]);
	wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, PT_RIG_BYTES - 1);
	EXPECT_EQ(msr_try(IA32_RTIT_CTL, PT_PLAIN | RTIT_CTL_TRACE_EN, PT_PLAIN).refused,
		  !pt_caps()->single_range);
	for (size_t n = 0; n < sizeof(alone) / sizeof(alone[0]); n++)
		EXPECT_EQ(msr_try(IA32_RTIT_CTL, alone[n], 0).read_back, alone[n]);
}

/* The three enables as IA32_RTIT_STATUS has them while TraceEn is set with `control`; nowhere: the
   range that `control` names leaves this code out. */
struct enables {
	uint64_t control, left, cr3_flip;
	bool nowhere;
	unsigned expected;
};

enum { F = RTIT_STATUS_FILTER_EN, C = RTIT_STATUS_CONTEXT_EN, T = RTIT_STATUS_TRIGGER_EN };
#define FILTERS(n) (PT_PLAIN | RTIT_CTL_ADDR_CFG(n, RTIT_ADDR_FILTER))
#define STOPS(n)   (PT_PLAIN | RTIT_CTL_ADDR_CFG(n, RTIT_ADDR_TRACE_STOP))
#define BY_CR3	   (PT_PLAIN | RTIT_CTL_CR3_FILTER)

static const struct enables enables[] = {
	{PT_PLAIN, 0, 0, false, T | C | F},
	{PT_PLAIN | RTIT_CTL_USER, 0, 0, false, T | C | F},
	{RTIT_CTL_BRANCH_EN, 0, 0, false, T | F},
	{RTIT_CTL_OS, 0, 0, false, T | C | F},
	{PT_PLAIN, RTIT_STATUS_ERROR, 0, false, 0},
	{PT_PLAIN, RTIT_STATUS_STOPPED, 0, false, 0},
	{BY_CR3, 0, 0, false, T | C | F},
	{BY_CR3, 0, 0x20, false, T | C | F},
	{BY_CR3, 0, 1ull << 63, false, T | F},
	{FILTERS(0), 0, 0, false, T | C | F},
	{FILTERS(0), 0, 0, true, T | C},
	{FILTERS(1), 0, 0, false, T | C | F},
	{FILTERS(1), 0, 0, true, T | C},
	{RTIT_CTL_USER | RTIT_CTL_BRANCH_EN, 0, 0, false, T | F}, /* it was clear */
	{STOPS(0), 0, 0, true, T | C | F},
	{STOPS(1), 0, 0, true, T | C | F},
};

static bool has(uint64_t control)
{
	return !(control & RTIT_CTL_CR3_FILTER && !pt_caps()->cr3_filter) &&
	       !(control >> 32 & 0xf && pt_caps()->ranges < 1) &&
	       !(control >> 36 & 0xf && pt_caps()->ranges < 2) &&
	       !(!(control & RTIT_CTL_BRANCH_EN) && pt_caps()->always_branches);
}

static void try_enables(struct pt_rig *rig, const struct enables *row)
{
	uint64_t on = pt_on(row->control), high = on >> 32;
	uint32_t status;

	pt_again(rig, PT_PLAIN);
	wrmsr(IA32_RTIT_STATUS, row->left);
	if (row->control & RTIT_CTL_CR3_FILTER)
		wrmsr(IA32_RTIT_CR3_MATCH, (pt_own_cr3() & ~0xfffull) ^ row->cr3_flip);
	for (unsigned n = 0; n < 2 * pt_caps()->ranges; n++)
		wrmsr(IA32_RTIT_ADDR0_A + n, row->nowhere ? 0x1000 : -(uint64_t) !!(n % 2));
	/* No branch in between. */
	__asm__ volatile("wrmsr\n\tmovl $0x571, %%ecx\n\trdmsr"
			 : "=a"(status), "+d"(high)
			 : "a"(on), "c"(IA32_RTIT_CTL)
			 : "memory");
	pt_stop(&rig->trace);
	if (row->left ? status & T : (status & (T | C | F)) != row->expected)
		test_note("IA32_RTIT_CTL = %lx, IA32_RTIT_STATUS = %x", row->control, status);
	if (row->left)
		EXPECT(!(status & T));
	else
		EXPECT_EQ(status & (T | C | F), row->expected);
	EXPECT_EQ(status & (RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED), row->left);
	EXPECT(!(rig->trace.status & T));
}

TEST(pt_trigger_status, .group = "PT", .ids = "PT14 PT72 PT73 PT74", .needs = NEED_PT,
     .claim = "TriggerEn is set with TraceEn, ContextEn at the privilege levels and the CR3 that "
	      "are traced, FilterEn where no range leaves the code out",
     .source = "SDM Vol 3, 36.2.5")
{
	PT_RIG(rig, 1, true);
	for (size_t n = 0; n < sizeof(enables) / sizeof(enables[0]); n++)
		if (has(enables[n].control))
			try_enables(&rig, &enables[n]);
	for (uint64_t flip = 1 << 12; has(BY_CR3) && flip < 1ull << 52; flip *= 2)
		try_enables(&rig, &(struct enables){BY_CR3, 0, flip, false, T | F});
}

/* Whether packets begin, or go on, with the first instruction of `ring`. */
static bool goes_to_ring(struct pt_rig *rig, unsigned ring, uint64_t control)
{
	bool goes = false;

	pt_again(rig, control);
	own_ring_run(ring, IA32_RTIT_CTL, pt_on(control),
		     pt_on(control) & ~(uint64_t)RTIT_CTL_TRACE_EN);
	pt_stop(&rig->trace);
	EACH_PACKET (rig, reader, packet)
		goes |= (packet.kind == PACKET_TIP_PGE || packet.kind == PACKET_TIP) &&
			packet.value == (uint64_t)own_ring_jumps;
	EXPECT(!reader.error);
	return goes;
}

TEST(pt_rings_1_and_2, .group = "PT", .ids = "PT73", .needs = NEED_PT,
     .claim = "rings 1 and 2 are traced with User, and not with OS", .source = "SDM Vol 3, 36.2.5")
{
	PT_RIG(rig, 1, true);
	own_gdt_load();
	for (unsigned ring = 1; ring <= 2; ring++) {
		EXPECT(goes_to_ring(&rig, ring, RTIT_CTL_USER | RTIT_CTL_BRANCH_EN));
		EXPECT(!goes_to_ring(&rig, ring, PT_PLAIN));
	}
	own_gdt_unload();
}

TEST(pt_each_register_alone, .group = "PT", .ids = "PT64", .needs = NEED_PT,
     .claim = "a write of one MSR of Intel PT changes no other", .source = "SDM Vol 3, 36.2.7")
{
	PT_RIG(rig, 1, true);
	for (unsigned trial = 0; trial < 2 * MARKED; trial++) {
		unsigned written = trial / 2, before = trial % 2;

		if (!is_there(written))
			continue;
		for (unsigned n = 0; n < MARKED; n++)
			if (is_there(n))
				wrmsr(marked[n], mark(n, before));
		wrmsr(marked[written], mark(written, !before));
		for (unsigned n = 0; n < MARKED; n++)
			if (is_there(n))
				EXPECT_EQ(rdmsr(marked[n]) & ~(uint64_t)(T | C | F),
					  mark(n, (n == written) != before) &
						  ~(uint64_t)(T | C | F));
	}
}

/* Each register of the CPU that this runs on, from now on. */
static void each_register(unsigned cpu, bool writes, unsigned which)
{
	test_go_to(cpu);
	for (unsigned n = 0; n < MARKED; n++) {
		if (!is_there(n))
			continue;
		if (writes)
			wrmsr(marked[n], mark(n, which));
		else
			EXPECT_EQ(rdmsr(marked[n]) & ~(uint64_t)(T | C | F),
				  mark(n, which) & ~(uint64_t)(T | C | F));
	}
}

TEST(pt_each_register_per_cpu, .group = "PT", .ids = "PT65", .needs = NEED_PT | NEED_SMP,
     .claim = "each MSR of Intel PT is each processor's own", .source = "SDM Vol 3, 36.2.7")
{
	unsigned last = cpu_count() - 1;

	each_register(0, true, 0);
	each_register(last, true, 1);
	each_register(0, false, 0);
	each_register(last, false, 1);
	for (unsigned n = 0; n < MARKED; n++) {
		test_go_to(n % 2 ? last : 0);
		for (unsigned i = 0; i < MARKED; i++)
			if (is_there(i))
				wrmsr(marked[i], 0);
	}
}
