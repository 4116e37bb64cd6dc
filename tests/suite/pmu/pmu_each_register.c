// SPDX-License-Identifier: MIT
// Each register of each counter: what it holds, extends and refuses, whose it is.
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/processor.h"
#include "drivers/pt/pt.h"
#include "drivers/pt/registers.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/task.h"
#include "kernel/silicon.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"

#define SIZE(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t mark(unsigned n)
{
	return 0x1000 + 0x11 * n;
}

static void mark_values(uint64_t counters)
{
	EACH_COUNTER (n, counters)
		wrmsr(pmu_rig_msr(n), mark(n));
}

/* No counter but `but` has another value than its mark. */
static void expect_marks(uint64_t counters, unsigned but)
{
	EACH_COUNTER (n, counters & ~(1ull << but))
		EXPECT_EQ(pmu_rig_value(n), mark(n));
}

static uint64_t general_of(uint64_t counters)
{
	return counters & ((1ull << PMU_FIXED) - 1);
}

static uint64_t fixed_of(uint64_t counters)
{
	return counters & ~((1ull << PMU_FIXED) - 1);
}

/* Reserved in every edition for version 1 to 5; later versions have more of a unit mask there. */
#define FIRST_RESERVED 36

/* Nehalem, Westmere and what was before them: later editions reserve the bit for the others. */
static bool has_pin_control(void)
{
	unsigned model = cpuid_signature(cpuid(1, 0).eax).model;

	return model < 0x2a || model == 0x2c || model == 0x2e || model == 0x2f;
}

static bool may_be_reserved(unsigned bit)
{
	if (bit == 19)
		return !has_pin_control();
	return bit == 21 || bit >= 32; /* AnyThread; of transactions, adaptive records */
}

/* With each bit that every version has: CMASK, INV, EN, INT, E, OS, USR. */
static uint64_t mark_of_select(unsigned n)
{
	return 0xffd70000 | mark(n);
}

TEST(pmu_each_select_bit, .group = "pmu", .ids = "PM1 PM2 PM3 PM4", .needs = 0,
     .claim = "each IA32_PERFEVTSELx holds each of its bits alone, and refuses bits 36 to 63",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2")
{
	COUNTERS(counters, 0);

	EACH_COUNTER (n, general_of(counters))
		pmu_rig_control(n, mark_of_select(n));
	mark_values(counters);
	EACH_COUNTER (n, general_of(counters)) {
		for (unsigned bit = 0; bit < 64; bit++) {
			struct msr_trial trial =
				msr_try(IA32_PERFEVTSEL0 + n, 1ull << bit, mark_of_select(n));

			if (bit >= FIRST_RESERVED && pmu_caps()->version <= 5)
				EXPECT(trial.refused && trial.read_back == mark_of_select(n));
			else if (!may_be_reserved(bit))
				EXPECT_EQ(trial.read_back, 1ull << bit);
		}
		EACH_COUNTER (other, general_of(counters))
			EXPECT_EQ(rdmsr(IA32_PERFEVTSEL0 + other), mark_of_select(other));
		expect_marks(counters, 63);
	}
}

static void overflow(unsigned n)
{
	pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, false));
	pmu_rig_load(n, 1);
	pmu_rig_run_until(n, 1ull << n);
	pmu_rig_control(n, 0);
}

TEST(pmu_each_select_keeps_value, .group = "pmu", .ids = "PM4", .needs = ON_EACH_CPU,
     .claim = "a write of an event select or of an enable, of the value that it has too, changes "
	      "no counter and no status bit",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	uint64_t counters = pmu_rig_open(NO_INSTRUCTIONS | NO_CYCLES), status;

	EACH_COUNTER (n, counters)
		overflow(n);
	status = pmu_rig_status();
	EXPECT_EQ(status & counters, counters);
	mark_values(counters);
	EACH_COUNTER (n, counters) {
		pmu_rig_control(n, pmu_rig_counting(n, PMU_USR, true));
		expect_marks(counters, 63);
		pmu_rig_control(n, pmu_rig_counting(n, PMU_USR, true));
		expect_marks(counters, 63);
		pmu_rig_control(n, 0);
	}
	pmu_rig_run(counters);
	expect_marks(counters, 63);
	EXPECT_EQ(pmu_rig_status(), status);
	pmu_rig_clear(counters);
	expect_marks(counters, 63);
	pmu_rig_close(counters);
}

static uint64_t extended(uint64_t value, uint64_t mask)
{
	return (uint64_t)(int64_t)(int32_t)value & mask;
}

TEST(pmu_each_counter_extends, .group = "pmu", .ids = "PM5 PM6 PM23", .needs = 0,
     .claim = "a write of each IA32_PMCx takes bits 31:0 and extends bit 31, for RDPMC too; no "
	      "other counter moves",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.5")
{
	static const uint64_t values[] = {0,	       1,	   2,	       0x7fffffff,
					  0x80000000,  0x80000001, 0xffffffff, 0x100000000,
					  0x17fffffff, 1ull << 63, UINT64_MAX, 0xffffffff00000000};
	COUNTERS(counters, 0);

	mark_values(counters);
	EACH_COUNTER (n, general_of(counters)) {
		for (unsigned i = 0; i < SIZE(values); i++) {
			EXPECT(wrmsr_safe(IA32_PMC0 + n, values[i]));
			EXPECT_EQ(rdmsr(IA32_PMC0 + n), extended(values[i], pmu_rig_mask(n)));
			EXPECT_EQ(pmu_rig_rdpmc(n), extended(values[i], pmu_rig_mask(n)));
		}
		expect_marks(counters, n);
		wrmsr(IA32_PMC0 + n, mark(n));
	}
}

/* The values at the borders of a register that holds `mask`. */
static void hold_borders(uint32_t msr, unsigned n, uint32_t rdpmc)
{
	uint64_t mask = pmu_rig_mask(n);
	const uint64_t values[] = {
		0,	     1,		2,	  0x7fffffff, 0x80000000,	 0xffffffff,
		0x100000000, mask >> 1, mask - 1, mask,	      mask ^ (mask >> 1)};

	for (unsigned i = 0; i < SIZE(values); i++) {
		EXPECT(wrmsr_safe(msr, values[i] & mask));
		EXPECT_EQ(rdmsr(msr), values[i] & mask);
		EXPECT_EQ(pmu_rig_value(n), values[i] & mask);
		EXPECT_EQ(pmu_rig_rdpmc(rdpmc), values[i] & mask);
	}
}

TEST(pmu_each_alias, .group = "pmu", .ids = "PM7 PM8 PM23", .needs = 0,
     .claim = "each IA32_A_PMCx is its counter in full width, for RDPMC too, and refuses more; "
	      "without FW_WRITE there is none",
     .source = "SDM Vol 3, 18.2.5")
{
	uint64_t counters = pmu_rig_open(0), value;
	bool full = pmu_rig_capabilities() & FULL_WIDTH_WRITES;

	mark_values(counters);
	if (counters >> PMU_FIXED & 1) { /* it counts meanwhile */
		pmu_rig_control(PMU_FIXED, FIXED_OS);
		wrmsr(IA32_PERF_GLOBAL_CTRL, 1ull << PMU_FIXED);
	}
	EACH_COUNTER (n, general_of(counters)) {
		uint32_t alias = IA32_A_PMC0 + n;

		if (!full) {
			EXPECT(!rdmsr_safe(alias, &value));
			EXPECT(!wrmsr_safe(alias, 1));
		} else {
			hold_borders(alias, n, n);
			wrmsr(alias, mark(n));
			EXPECT(!wrmsr_safe(alias, pmu_rig_mask(n) + 1));
			EXPECT(!wrmsr_safe(alias, 1ull << 63));
		}
		expect_marks(counters, PMU_FIXED);
	}
	pmu_rig_close(counters);
}

TEST(pmu_each_fixed_holds, .group = "pmu", .ids = "PM9 PM23", .needs = 0,
     .claim = "each IA32_FIXED_CTRx holds the width of CPUID.0AH, for RDPMC too; no other counter "
	      "moves",
     .source = "SDM Vol 3, 18.2.2")
{
	uint64_t counters = pmu_rig_open(0), before;
	struct msr_trial trial;

	if (!fixed_of(counters)) {
		pmu_rig_close(counters);
		test_skip("no fixed counters");
	}
	mark_values(counters);
	EACH_COUNTER (n, fixed_of(counters)) {
		hold_borders(pmu_rig_msr(n), n, pmu_rig_selector(n));
		before = pmu_rig_value(n);
		trial = msr_try(pmu_rig_msr(n), pmu_rig_mask(n) + 1, 0);
		before = trial.refused ? before : trial.read_back & pmu_rig_mask(n);
		EXPECT_EQ(trial.read_back, before);
		expect_marks(counters, n);
		wrmsr(pmu_rig_msr(n), mark(n));
	}
	pmu_rig_close(counters);
}

TEST(pmu_fixed_control_bits, .group = "pmu", .ids = "PM10 PM11", .needs = 0,
     .claim = "IA32_FIXED_CTR_CTRL holds OS, USR and PMI of each fixed counter, and refuses the "
	      "fields of others",
     .source = "SDM Vol 3, 18.2.2")
{
	COUNTERS(counters, 0);
	uint64_t fixed = pmu_rig_here() >> PMU_FIXED; /* there may be a hole */

	for (unsigned bit = 0; bit < 64; bit++) {
		bool there = fixed >> bit / FIXED_BITS & 1;
		struct msr_trial trial = msr_try(IA32_FIXED_CTR_CTRL, 1ull << bit | !there, 0);
		bool any = there && bit % FIXED_BITS == 2;
		bool adaptive = bit >= 32 && bit % FIXED_BITS == 0 &&
				pmu_rig_capabilities() & PERF_CAPABILITIES_PEBS_BASELINE;

		if (any || (bit >= 32 && pmu_caps()->version > 5) ||
		    (adaptive && fixed >> (bit - 32) / FIXED_BITS & 1))
			continue;
		EXPECT_EQ(trial.refused, !there);
		EXPECT_EQ(trial.read_back, there ? 1ull << bit : 0);
	}
}

TEST(pmu_rdpmc_refuses, .group = "pmu", .ids = "PM12", .needs = 0,
     .claim = "RDPMC raises #GP for the first general and fixed counter that CPUID.0AH has not",
     .source = "SDM Vol 2, RDPMC")
{
	COUNTERS(counters, 0);
	unsigned general = pmu_rig_general_here(), fixed = pmu_rig_fixed_here();

	EXPECT(!pmu_rig_rdpmc_refused(general - 1));
	EXPECT(pmu_rig_rdpmc_refused(general));
	if (fixed)
		EXPECT(!pmu_rig_rdpmc_refused(1u << 30 | (fixed - 1)));
	EXPECT(pmu_rig_rdpmc_refused(1u << 30 | fixed));
	EXPECT(pmu_rig_rdpmc_refused(0xffff));
	/* A hypervisor may drop bit 31, a flag on NetBurst; bit 29 is of topdown metrics. */
	for (unsigned bit = 5; bit < 32 && !silicon_is_foreign_guest(); bit++) {
		if (bit == 30)
			continue;
		EXPECT(pmu_rig_rdpmc_refused(1u << 30 | 1u << bit));
		if (!(bit == 29 && pmu_rig_capabilities() & PERF_METRICS))
			EXPECT(pmu_rig_rdpmc_refused(1u << bit));
	}
}

#define AT 0x00005a0000001000ul

/* MOV ECX, selector; RDPMC; SYSCALL */
static const uint8_t user_code[] = {0xb9, 0, 0, 0, 0, 0x0f, 0x33, 0x0f, 0x05};

static uint64_t set_pce(bool pce)
{
	const uint64_t bit = 1u << 8;
	uint64_t before;

	__asm__ volatile("movq %%cr4, %0" : "=r"(before));
	__asm__ volatile("movq %0, %%cr4" : : "r"(pce ? before | bit : before & ~bit) : "memory");
	return before & bit;
}

/* The exception, or SYSCALL, of RDPMC in ring 3. */
static uint64_t rdpmc_in_user(bool pce, uint64_t expected)
{
	struct trap_frame frame = {.rip = AT};
	uint64_t before;

	preemption_disable();
	before = set_pce(pce);
	user_run(&frame);
	own_gdt_load();
	for (unsigned ring = 1; ring <= 2; ring++)
		EXPECT_EQ(own_ring_refuses(own_ring_rdpmc, ring, IA32_PERF_GLOBAL_CTRL, 0), !pce);
	own_gdt_unload();
	set_pce(before);
	preemption_enable();
	if (frame.vector == VECTOR_SYSCALL)
		EXPECT_EQ((frame.rdx << 32) | (uint32_t)frame.rax, expected);
	return frame.vector;
}

TEST(pmu_rdpmc_in_ring_3, .group = "pmu", .ids = "PM13 PM23", .needs = ON_EACH_CPU,
     .claim =
	     "RDPMC in ring 3 raises #GP while CR4.PCE is 0, and reads each counter while it is 1; "
	     "rings 1 and 2 are as ring 3",
     .source = "SDM Vol 2, RDPMC; SDM Vol 3, 2.5")
{
	COUNTERS(counters, 0);
	uint8_t *page = test_area(1);

	memcpy(page, user_code, sizeof(user_code));
	code_map(AT, page, VM_USER);
	EACH_COUNTER (n, counters) {
		uint32_t selector = pmu_rig_selector(n);
		uint64_t value = pmu_rig_mask(n) - mark(n); /* the old address extends it */

		wrmsr(pmu_rig_msr(n), value);
		memcpy(page + 1, &selector, sizeof(selector));
		EXPECT_EQ(rdpmc_in_user(false, 0), VECTOR_GP);
		EXPECT_EQ(rdpmc_in_user(true, value), VECTOR_SYSCALL);
	}
	code_unmap(AT);
}

/* Before version 4 the uncore of a client may have registers there: chapter 35, 391H of Nehalem. */
static bool is_of_uncore(void)
{
	return pmu_caps()->version < 4 && !silicon_is_virtual() && !silicon_is_foreign_guest();
}

TEST(pmu_status_read_only, .group = "pmu", .ids = "PM14 PM15 PM16", .needs = 0,
     .claim = "IA32_PERF_GLOBAL_STATUS, IA32_PERF_CAPABILITIES and IA32_PERF_GLOBAL_INUSE refuse a "
	      "write; STATUS_SET and INUSE are not there before version 4",
     .source = "SDM Vol 3, table 35-2 and 18.2.4")
{
	uint64_t counters = pmu_rig_open(NO_INSTRUCTIONS), capabilities = pmu_rig_capabilities();
	uint64_t status, value;
	bool has_inuse = pmu_caps()->version >= 4;

	overflow((unsigned)__builtin_ctzll(counters));
	status = pmu_rig_status();
	EXPECT(!wrmsr_safe(IA32_PERF_GLOBAL_STATUS, counters));
	EXPECT_EQ(pmu_rig_status(), status);
	pmu_rig_clear(counters);
	if (capabilities) {
		EXPECT(!wrmsr_safe(IA32_PERF_CAPABILITIES, capabilities));
		EXPECT_EQ(rdmsr(IA32_PERF_CAPABILITIES), capabilities);
	}
	if (!is_of_uncore()) {
		EXPECT(!wrmsr_safe(IA32_PERF_GLOBAL_INUSE, 0));
		EXPECT_EQ(rdmsr_safe(IA32_PERF_GLOBAL_INUSE, &value), has_inuse);
		EXPECT_EQ(wrmsr_safe(IA32_PERF_GLOBAL_STATUS_SET, 0), has_inuse);
		EXPECT_EQ(rdmsr_safe(IA32_PERF_GLOBAL_STATUS_SET, &value), has_inuse);
	}
	EXPECT(rdmsr_safe(IA32_PERF_GLOBAL_OVF_CTRL, &value));
	pmu_rig_close(counters);
}

static void need_version_4(uint64_t counters)
{
	if (pmu_caps()->version >= 4)
		return;
	pmu_rig_close(counters);
	test_skip("version %u: IA32_PERF_GLOBAL_STATUS_SET and _INUSE begin with 4",
		  pmu_caps()->version);
}

static uint64_t status_of_pt(void)
{
	return pt_caps()->topa ? TRACE_TOPA_PMI : 0;
}

TEST(pmu_status_set_and_reset, .group = "pmu", .ids = "PM17 PM18 PT92", .needs = ON_EACH_CPU,
     .claim = "IA32_PERF_GLOBAL_STATUS_SET sets each bit, IA32_PERF_GLOBAL_STATUS_RESET clears it, "
	      "and the others stay",
     .source = "SDM Vol 3, 18.2.4")
{
	/* Ovf_Uncore too, which a hypervisor may not have, and ASCI, which needs SGX on silicon. */
	const uint64_t other = STATUS_CTR_FRZ | STATUS_LBR_FRZ | GLOBAL_STATUS_OVF_BUF |
			       status_of_pt() | (silicon_is_foreign_guest() ? 0 : 1ull << 61) |
			       (silicon_is_virtual() ? 1ull << 60 : 0);
	uint64_t counters = pmu_rig_open(0), all = counters | other, before;

	need_version_4(counters);
	pmu_rig_clear(all);
	before = pmu_rig_status();
	EXPECT_EQ(before & all, 0);
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t one = 1ull << bit;

		if (!(all & one))
			continue;
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, one);
		EXPECT_EQ(pmu_rig_status(), before | one);
		pmu_rig_clear(one);
		EXPECT_EQ(pmu_rig_status(), before);
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, all & ~one);
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, one);
		EXPECT_EQ(pmu_rig_status(), before | all);
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, all);
		EXPECT_EQ(pmu_rig_status(), before | all);
		pmu_rig_clear(one);
		EXPECT_EQ(pmu_rig_status(), before | (all & ~one));
		pmu_rig_clear(all);
	}
	pmu_rig_close(counters);
}

TEST(pmu_status_set_freezes, .group = "pmu", .ids = "PM40", .needs = ON_EACH_CPU,
     .claim =
	     "CTR_Frz that software sets stops each counter until software clears it; LBR_Frz stops "
	     "none",
     .source = "SDM Vol 3, 18.2.4")
{
	uint64_t all = pmu_rig_open(NO_INSTRUCTIONS | NO_CYCLES);

	need_version_4(all);
	EACH_COUNTER (n, all) {
		uint64_t on = pmu_rig_counting(n, PMU_OS, false), value;

		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_CTR_FRZ);
		EXPECT_EQ(pmu_rig_count(n, on, all), 0);
		EXPECT(pmu_rig_rests(n, pmu_rig_counting_cycles(n, PMU_OS, false), all, 1));
		wrmsr(pmu_rig_msr(n), 4711);
		value = pmu_rig_rdpmc(pmu_rig_selector(n));
		EXPECT_EQ(value, 4711);
		pmu_rig_clear(STATUS_CTR_FRZ);
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_LBR_FRZ);
		EXPECT(pmu_rig_counts(n, on, all));
		pmu_rig_clear(STATUS_LBR_FRZ);
	}
	pmu_rig_close(all);
}

/* Bits 48 and 61 are of other units; later editions give more of them a meaning. */
static bool is_reserved(unsigned bit)
{
	bool frozen = bit == 58 || bit == 59;

	if (bit == 60) /* ASCI */
		return pmu_caps()->version < 4;
	if (bit == 48 || bit > 60 || (bit > 48 && pmu_caps()->version > 5) ||
	    status_of_pt() >> bit & 1)
		return false;
	return !(pmu_rig_here() >> bit & 1) && !(frozen && pmu_caps()->version >= 4);
}

TEST(pmu_status_bits_reserved, .group = "pmu", .ids = "PM53", .needs = 0,
     .claim = "IA32_PERF_GLOBAL_OVF_CTRL and IA32_PERF_GLOBAL_STATUS_SET refuse the bits of "
	      "counters that are not there, CTR_Frz, LBR_Frz and ASCI before version 4, and "
	      "Trace_ToPA_PMI without Intel PT",
     .source = "SDM Vol 3, 18.2.4 and table 35-2")
{
	COUNTERS(counters, NO_INSTRUCTIONS);
	bool others = pmu_caps()->version >= 4 && !silicon_is_foreign_guest();
	bool uncore = is_of_uncore();
	uint64_t status = (others ? 15ull : 12ull) << 60;

	EXPECT(wrmsr_safe(IA32_PERF_GLOBAL_OVF_CTRL, status));
	overflow((unsigned)__builtin_ctzll(counters));
	status = pmu_rig_status();
	EXPECT(uncore || !wrmsr_safe(IA32_PERF_GLOBAL_STATUS_SET, 1ull << 63 | counters));
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t one = 1ull << bit | counters;

		if (!is_reserved(bit))
			continue;
		EXPECT(!wrmsr_safe(IA32_PERF_GLOBAL_OVF_CTRL, one));
		EXPECT(uncore || !wrmsr_safe(IA32_PERF_GLOBAL_STATUS_SET, one));
	}
	EXPECT_EQ(pmu_rig_status(), status);
	pmu_rig_clear(counters);
}

TEST(pmu_inuse_each_counter, .group = "pmu", .ids = "PM14 PM19 PM20", .needs = ON_EACH_CPU,
     .claim = "IA32_PERF_GLOBAL_INUSE shows each counter with an event select or an enable, frozen "
	      "or not, and bit 63 any interrupt enable, or counter of PEBS",
     .source = "SDM Vol 3, 18.2.4")
{
	uint64_t counters = pmu_rig_open(0), before;
	bool baseline = pmu_rig_capabilities() & PERF_CAPABILITIES_PEBS_BASELINE, refused;

	need_version_4(counters);
	before = rdmsr(IA32_PERF_GLOBAL_INUSE);
	EXPECT_EQ(before & (counters == pmu_rig_here() ? UINT64_MAX : counters), 0);
	EACH_COUNTER (n, counters) {
		uint64_t in_use = before | 1ull << n;

		for (unsigned bit = 0; bit < (pmu_rig_is_fixed(n) ? 2 : 8); bit++) {
			wrmsr(bit & 1 ? IA32_PERF_GLOBAL_OVF_CTRL : IA32_PERF_GLOBAL_STATUS_SET,
			      STATUS_CTR_FRZ);
			pmu_rig_control(n, 1ull << bit);
			refused = !wrmsr_safe(IA32_PERF_GLOBAL_INUSE, in_use);
			EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_INUSE), refused ? in_use : 0);
		}
		pmu_rig_control(n, pmu_rig_counting(n, 0, true));
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_INUSE),
			  (pmu_rig_is_fixed(n) ? before : in_use) | INUSE_PMI);
		if (!pmu_rig_is_fixed(n)) {
			pmu_rig_control(n, 0xff00 | PMU_OS | PMU_USR | PERFEVTSEL_EN);
			EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_INUSE), before);
			pmu_rig_control(n, 0xff00 | PERFEVTSEL_INT);
			EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_INUSE), before | INUSE_PMI);
		}
		pmu_rig_control(n, 0);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_INUSE), before);
	}
	/* Load latency of counter 3 enables none; with PEBS_BASELINE the bit is of a fixed one. */
	for (unsigned n = 0; ds_caps()->pebs && n < (baseline ? 4 : 5); n++) {
		if (!wrmsr_safe(IA32_PEBS_ENABLE, 1ull << (n < 4 ? n : 35)))
			continue; /* PEBS has fewer counters */
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_INUSE), n < 4 ? before | INUSE_PMI : before);
		wrmsr(IA32_PEBS_ENABLE, 0);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_INUSE), before);
	}
	pmu_rig_close(counters);
}

/* What each CPU writes: no two have one value in common. */
struct registers {
	uint64_t value[PMU_COUNTERS_MOST], select[PMU_GENERAL_MOST], fixed_control, status, control;
};

static void write_registers(uint64_t counters, unsigned cpu)
{
	EACH_COUNTER (n, counters)
		wrmsr(pmu_rig_msr(n), mark(n) + cpu);
	EACH_COUNTER (n, general_of(counters))
		wrmsr(IA32_PERFEVTSEL0 + n, mark(n) + cpu);
	if (fixed_of(counters))
		wrmsr(IA32_FIXED_CTR_CTRL, cpu ? FIXED_OS : FIXED_USR);
	wrmsr(IA32_PERF_GLOBAL_CTRL, cpu ? 1 : 2);
	pmu_rig_clear(counters);
	if (pmu_caps()->version >= 4)
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, cpu ? 1 : 2);
}

static void expect_registers(uint64_t counters, unsigned cpu)
{
	EACH_COUNTER (n, counters)
		EXPECT_EQ(pmu_rig_value(n), mark(n) + cpu);
	EACH_COUNTER (n, general_of(counters))
		EXPECT_EQ(rdmsr(IA32_PERFEVTSEL0 + n), mark(n) + cpu);
	if (fixed_of(counters))
		EXPECT_EQ(rdmsr(IA32_FIXED_CTR_CTRL), cpu ? FIXED_OS : FIXED_USR);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_CTRL) & 3, cpu ? 1 : 2);
	if (pmu_caps()->version >= 4) {
		EXPECT_EQ(pmu_rig_status() & 3, cpu ? 1 : 2);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_INUSE) & 1, cpu); /* its event select */
	}
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	pmu_rig_clear(counters);
}

TEST(pmu_each_register_per_cpu, .group = "pmu", .ids = "PM21", .needs = NEED_SMP,
     .claim = "each register of the counters is each processor's own, and so is an overflow",
     .source = "SDM Vol 3, chapter 35")
{
	uint64_t here, there;
	unsigned last = cpu_count() - 1;

	pmu_rig_need_two();
	test_go_to(0);
	here = pmu_rig_open(NO_INSTRUCTIONS);
	test_go_to(last);
	there = pmu_rig_open(NO_INSTRUCTIONS);
	write_registers(there, 1);
	test_go_to(0);
	write_registers(here, 0);
	test_go_to(last);
	expect_registers(there, 1);
	pmu_rig_control(0, pmu_rig_counting(0, PMU_OS, false));
	pmu_rig_load(0, 1);
	pmu_rig_run(1);
	EXPECT_EQ(pmu_rig_status() & 1, 1);
	test_go_to(0);
	EXPECT_EQ(pmu_rig_status() & 1, 0);
	expect_registers(here, 0);
	test_go_to(last);
	EXPECT_EQ(pmu_rig_status() & 1, 1);
	pmu_rig_clear(1);
	test_go_to(0);
	overflow(0);
	test_go_to(last);
	EXPECT_EQ(pmu_rig_status() & 1, 0);
	pmu_rig_close(there);
	test_go_to(0);
	pmu_rig_clear(1);
	pmu_rig_close(here);
}
