// SPDX-License-Identifier: MIT
// Each counter: what lets it count, its conditions, its overflow, interrupt and freezing.
#include "drivers/apic/lapic.h"
#include "drivers/lbr/lbr.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/pmi.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/user_visits.h"

#define UNIT_MASK(mask) ((uint64_t)(mask) << 8)

static uint64_t bit(unsigned n)
{
	return 1ull << n;
}

static uint64_t general_of(uint64_t counters)
{
	return counters & (bit(PMU_FIXED) - 1);
}

TEST(pmu_each_counter_enabled, .group = "pmu", .ids = "PM27 PM29 PM30 PM32", .needs = ON_EACH_CPU,
     .claim = "each counter counts while its bit of IA32_PERF_GLOBAL_CTRL, EN and the level are "
	      "set, and not without one of them",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	EACH_COUNTER (n, all) {
		uint64_t on = pmu_rig_counting(n, PMU_OS, false);
		unsigned runs = pmu_rig_counts(n, on, all);

		EXPECT(runs);
		EXPECT(pmu_rig_counts(n, on, bit(n)));
		EXPECT(pmu_rig_counts(n, pmu_rig_counting(n, PMU_OS | PMU_USR, false), all));
		EXPECT(pmu_rig_rests(n, on, all & ~bit(n), runs));
		EXPECT(pmu_rig_rests(n, pmu_rig_counting(n, PMU_USR, false), all, runs));
		EXPECT(pmu_rig_rests(n, pmu_rig_counting(n, 0, true), all, runs));
		EXPECT(pmu_rig_rests(n, 0, all, runs));
		if (!pmu_rig_is_fixed(n))
			EXPECT(pmu_rig_rests(n, on & ~PERFEVTSEL_EN, all, runs));
	}
}

/* Counter `n` sees ring 3, ring 0 or both, and the next one another. */
enum { USER, KERNEL, BOTH, ROLES };
static const uint64_t levels_of[] = {PMU_USR, PMU_OS, PMU_OS | PMU_USR};

static unsigned role_of(unsigned n, unsigned turn)
{
	return (n + turn) % ROLES;
}

/* What the counters of each role count, all the same; 0: no counter has it. */
static void count_visits(uint64_t all, unsigned turn, uint64_t counted[ROLES])
{
	EACH_COUNTER (n, all) {
		pmu_rig_load(n, 0);
		pmu_rig_control(n, pmu_rig_counting(n, levels_of[role_of(n, turn)], false));
	}
	wrmsr(IA32_PERF_GLOBAL_CTRL, all);
	user_visits_run();
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	EACH_COUNTER (n, all) {
		uint64_t value = pmu_rig_value(n), *first = &counted[role_of(n, turn)];

		pmu_rig_control(n, 0);
		EXPECT(value || n > PMU_FIXED + 1); /* a slow clock */
		if (!pmu_rig_is_exact(n))
			continue;
		if (!*first)
			*first = value;
		else
			EXPECT_EQ(value, *first);
	}
}

/* Last branches of these levels, 0: of none. They and counters of other levels are side by side. */
static void record_branches(uint64_t levels)
{
	uint64_t ring_0 = levels & PMU_OS ? 1 : 0, others = levels & PMU_USR ? 2 : 0;

	if (lbr_caps()->architectural && lbr_either())
		wrmsr(IA32_LBR_CTL,
		      levels ? LBR_CTL_LBREN | (ring_0 | others) << 1 | LBR_CTL_KINDS : 0);
	else if (!lbr_caps()->architectural)
		wrmsr(IA32_DEBUGCTL, levels ? LBR : 0);
	if (lbr_caps()->select && !lbr_caps()->architectural)
		wrmsr(MSR_LBR_SELECT, levels ? 3 ^ ring_0 ^ others : 0);
}

/* Of ring 3 alone: the newest is of the visits, where they can be selected. */
static bool has_branches_of_user(void)
{
	const struct lbr_caps *caps = lbr_caps();
	uint32_t top = caps->architectural ? 0 : (uint32_t)rdmsr(caps->top);

	return !caps->select || (caps->architectural && !lbr_either()) ||
	       (rdmsr(caps->from + top) << 16 >> 16) - VISITS_AT < PAGE_SIZE;
}

TEST(pmu_each_counter_level, .group = "pmu", .ids = "PM24 PM27 PM29 LB2", .needs = ON_EACH_CPU,
     .claim =
	     "each counter with USR counts the instructions of ring 3, with OS the others, with "
	     "both all of them, beside counters of other levels; last branches of any level change "
	     "nothing, nor do counters of them",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	uint64_t all = pmu_rig_open(NO_INSTRUCTIONS | NO_CYCLES);

	user_visits_open();
	pmu_rig_take_interrupts(0);
	user_visits_run(); /* pages that are touched for the first time */
	for (unsigned turn = 0; turn < (lbr_caps()->depth ? 4 : 1) * ROLES; turn++) {
		uint64_t counted[ROLES] = {0},
			 levels = turn < ROLES ? 0 : levels_of[turn / ROLES - 1];

		record_branches(levels);
		count_visits(all, turn, counted);
		record_branches(0);
		EXPECT(levels != PMU_USR || has_branches_of_user());
		EXPECT(!counted[USER] || counted[USER] == VISITS * (2 + 2 * (VISIT_BRANCHES + 1)));
		EXPECT(!counted[BOTH] || !counted[USER] || !counted[KERNEL] ||
		       counted[BOTH] == counted[USER] + counted[KERNEL]);
	}
	pmu_rig_release_interrupts();
	user_visits_close();
	pmu_rig_close(all);
}

/* Runs counter `n` from `value` until it has moved; what it has then. */
static uint64_t run_from(unsigned n, uint64_t value)
{
	uint64_t on = pmu_rig_counting(n, PMU_OS, false);

	wrmsr(pmu_rig_msr(n), value);
	pmu_rig_control(n, on);
	pmu_rig_run_until(n, bit(n));
	pmu_rig_control(n, 0);
	return pmu_rig_value(n);
}

static bool has_overflowed(unsigned n, uint64_t all)
{
	uint64_t status = pmu_rig_status() & (all | GLOBAL_STATUS_OVF_BUF);

	EXPECT_EQ(status & ~bit(n), 0);
	return status;
}

static void overflow_each(unsigned n, uint64_t all)
{
	uint64_t least = pmu_rig_count(n, pmu_rig_counting(n, PMU_OS, false), bit(n));
	uint64_t mask = pmu_rig_mask(n), value;
	bool wide = mask > UINT32_MAX;

	pmu_rig_clear(all | GLOBAL_STATUS_OVF_BUF);
	if (pmu_rig_is_exact(n)) {
		EXPECT_EQ(run_from(n, (mask - least) & mask), mask);
		EXPECT(!has_overflowed(n, all));
		EXPECT_EQ(run_from(n, (mask - least + 1) & mask), 0);
		EXPECT(has_overflowed(n, all));
		pmu_rig_clear(bit(n));
		EXPECT_EQ(run_from(n, 0x7fffffff), 0x7fffffff + least);
		EXPECT(!has_overflowed(n, all));
	}
	if (wide && pmu_rig_is_fixed(n)) {
		value = run_from(n, 0xffffffff);
		EXPECT(value >= 0x100000000 && !has_overflowed(n, all));
		EXPECT(run_from(n, mask >> 1) > value && !has_overflowed(n, all));
	} else if (wide && pmu_rig_capabilities() & FULL_WIDTH_WRITES) {
		wrmsr(IA32_A_PMC0 + n, 0xffffffff);
		pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, false));
		pmu_rig_run(bit(n));
		EXPECT_EQ(rdmsr(IA32_PMC0 + n), 0xffffffff + least);
		EXPECT(!has_overflowed(n, all));
	}
	for (unsigned times = 0; times < 2; times++) {
		run_from(n, mask);
		EXPECT(has_overflowed(n, all));
	}
	pmu_rig_clear(all & ~bit(n));
	EXPECT(has_overflowed(n, all));
	pmu_rig_clear(bit(n));
	EXPECT(!has_overflowed(n, all));
	run_from(n, mask);
	EXPECT(has_overflowed(n, all));
	pmu_rig_clear(bit(n));
	pmu_rig_control(n, 0);
}

/* Each overflow sets its counter's status bit. The bits set before stay, OvfBuf among them. */
static void overflow_in_turn(uint64_t all)
{
	uint64_t seen = pmu_caps()->version >= 4 ? GLOBAL_STATUS_OVF_BUF : 0;

	pmu_rig_clear(all);
	if (pmu_caps()->version >= 4)
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, GLOBAL_STATUS_OVF_BUF);
	EACH_COUNTER (n, all) {
		run_from(n, pmu_rig_mask(n));
		seen |= bit(n);
		EXPECT_EQ(pmu_rig_status() & (all | GLOBAL_STATUS_OVF_BUF), seen);
	}
	pmu_rig_clear(GLOBAL_STATUS_OVF_BUF);
}

TEST(pmu_each_counter_overflows, .group = "pmu", .ids = "PM31 PM34 PM35", .needs = ON_EACH_CPU,
     .claim = "each counter overflows past its width, not before; its status bit alone is set, by "
	      "a second overflow too, and stays beside those of others until it is cleared",
     .source = "SDM Vol 3, 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	EACH_COUNTER (n, all)
		overflow_each(n, all);
	overflow_in_turn(all);
	pmu_rig_clear(all & (all - 1)); /* but the first */
	EXPECT_EQ(pmu_rig_status() & all, all & -all);
	pmu_rig_clear(all);
}

TEST(pmu_overflows_together, .group = "pmu", .ids = "PM31 PM35", .needs = 0,
     .claim = "counters that overflow at the same instruction set each their own status bit, with "
	      "INT and PMI too, and where that freezes",
     .source = "SDM Vol 3, 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS);
	uint64_t exact = all & (bit(PMU_FIXED + 1) - 1);

	pmu_rig_take_interrupts(all);
	lapic_mask_lvtpc();
	for (unsigned freeze = 0; freeze < 2; freeze++) {
		uint64_t overflowed = 0;

		pmu_rig_clear(all);
		EACH_COUNTER (n, exact) {
			pmu_rig_load(n, 100);
			pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, true));
		}
		wrmsr_safe(IA32_DEBUGCTL, freeze ? FREEZE_PERFMON : 0);
		pmu_rig_run(exact);
		EACH_COUNTER (n, exact) {
			pmu_rig_control(n, 0);
			overflowed |= (uint64_t)(pmu_rig_value(n) < 200) << n;
		}
		EXPECT(freeze || overflowed == exact); /* the first may stop the others */
		EXPECT_EQ(pmu_rig_status() & all, overflowed);
	}
	wrmsr_safe(IA32_PERF_GLOBAL_OVF_CTRL, all | STATUS_CTR_FRZ);
	pmu_rig_clear(all);
	lapic_unmask_lvtpc();
	pmu_rig_release_interrupts();
}

/* For overflow_beside(): more bits of its control; the others overflow with it, and silently. */
static uint64_t beside_event;
static bool beside_overflows;

static uint64_t sum_of_controls(uint64_t all)
{
	uint64_t sum = all >> PMU_FIXED ? rdmsr(IA32_FIXED_CTR_CTRL) : 0;

	EACH_COUNTER (n, general_of(all))
		sum = 3 * sum + rdmsr(IA32_PERFEVTSEL0 + n);
	return sum;
}

/* Has counter `n` overflow at its next event, before 200 NOPs or among them. The others count
   beside it. The overflow changes no control. */
static void overflow_beside(unsigned n, uint64_t all, bool interrupt, uint64_t debugctl)
{
	uint64_t controls;

	EACH_COUNTER (other, all) {
		pmu_rig_load(other, beside_overflows);
		pmu_rig_control(other,
				pmu_rig_counting(other, PMU_OS, other != n && !beside_overflows));
	}
	pmu_rig_load(n, 1);
	pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, interrupt) | beside_event);
	controls = sum_of_controls(all);
	pmu_rig_interrupt.count = 0;
	pmu_rig_clear(all);
	wrmsr(IA32_DEBUGCTL, debugctl);
	if (interrupt && !(apic_read(APIC_LVT_PC) & LVT_MASKED))
		pmu_rig_run_interrupted(all);
	else
		pmu_rig_run_until(n, all);
	wrmsr(IA32_DEBUGCTL, 0);
	EXPECT_EQ(sum_of_controls(all), controls);
	EACH_COUNTER (other, all)
		pmu_rig_control(other, 0);
}

static void expect_exact(unsigned n, bool holds)
{
	EXPECT(holds || !pmu_rig_is_exact(n));
}

/* In ring 0 no one of these changes what a counter counts, nor that it overflows and interrupts.
   Nor do overflows of others at the same instruction. */
static void overflow_with_each_bit(unsigned n, uint64_t counters)
{
	static const uint64_t general[] = {PMU_USR, PERFEVTSEL_PC, PERFEVTSEL_ANY, PERFEVTSEL_INV,
					   PERFEVTSEL_CMASK(1)};
	static const uint64_t fixed[] = {FIXED_USR, FIXED_ANY};
	const uint64_t *bits = pmu_rig_is_fixed(n) ? fixed : general;
	unsigned count = pmu_rig_is_fixed(n) ? 2 : 5;

	for (unsigned i = 0; i <= count; i++) {
		uint64_t all = i == count ? bit(n) : counters;

		beside_overflows = i == count;
		beside_event = beside_overflows ? 0 : bits[i];
		if (!pmu_rig_takes(n, beside_event))
			continue;
		overflow_beside(n, counters, true, 0);
		EXPECT_EQ(pmu_rig_interrupt.count, 1);
		EXPECT_EQ(pmu_rig_interrupt.status & all, bit(n));
	}
	beside_overflows = false;
}

TEST(pmu_each_counter_interrupts, .group = "pmu", .ids = "PM1 PM24 PM31 PM36 PM51",
     .needs = ON_EACH_CPU,
     .claim =
	     "the overflow of each counter interrupts if its INT or PMI bit is set, beside any other "
	     "bit, once, in ring 3 too, and the counter goes on; those of the others do not make it",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	user_visits_open();
	pmu_rig_take_interrupts(all);
	EACH_COUNTER (n, all) {
		overflow_beside(n, all, true, 0);
		EXPECT_EQ(pmu_rig_interrupt.count, 1);
		EXPECT_EQ(pmu_rig_interrupt.status & all, bit(n));
		EXPECT_EQ(pmu_rig_interrupt.control & all, all);
		expect_exact(n, pmu_rig_interrupt.value[n] >= 10); /* in the handler too */
		expect_exact(n, pmu_rig_value(n) >= 200);
		overflow_beside(n, all, false, 0);
		EXPECT_EQ(pmu_rig_await_interrupt(), 0);
		EXPECT_EQ(pmu_rig_status() & all, bit(n));
		pmu_rig_clear(all);
		overflow_with_each_bit(n, all);
		if (n <= PMU_FIXED + 1) {
			pmu_rig_clear(all);
			pmu_rig_overflow_in_user(n, 0);
			EXPECT_EQ(pmu_rig_interrupt.status & all, bit(n));
		}
	}
	pmu_rig_release_interrupts();
	user_visits_close();
}

static struct {
	unsigned count;
	uint32_t lvtpc;
} by_vector;

static void note_vector(struct trap_frame *frame)
{
	(void)frame;
	by_vector.count++;
	by_vector.lvtpc = apic_read(APIC_LVT_PC);
	lapic_eoi();
}

/* Counter `n` overflows and interrupts by a fixed vector. */
static void overflow_by_vector(unsigned n)
{
	uint32_t before = apic_read(APIC_LVT_PC);

	by_vector.count = 0;
	interrupt_set_handler(VECTOR_TEST, note_vector);
	lapic_set_lvtpc(VECTOR_TEST, false);
	pmu_rig_load(n, 1);
	pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, true));
	pmu_rig_run(bit(n));
	pmi_settle();
	pmu_rig_control(n, 0);
	pmu_rig_clear(bit(n));
	lapic_set_lvtpc((uint8_t)(before & LVT_VECTOR_MASK), before & LVT_NMI);
	if (before & LVT_MASKED)
		lapic_mask_lvtpc();
	interrupt_set_handler(VECTOR_TEST, NULL);
}

static unsigned first, seen_within;

/* In an NMI's handler the first counter overflows once more: that interrupt waits. */
static void overflow_within(void)
{
	if (pmu_rig_interrupt.count > 1)
		return;
	pmu_rig_control(first, 0);
	pmu_rig_load(first, 1);
	pmu_rig_control(first, pmu_rig_counting(first, PMU_OS, true));
	pmu_rig_nops();
	seen_within = pmu_rig_interrupt.count;
}

/*
 * KVM up to Linux 6.5 delivered the interrupt and left the entry of a guest as it was: Linux
 * a16eb25b09c0, "Mask LVTPC when handling a PMI", of September 2023. Its own perf unmasks the entry
 * whatever it has, so that no guest noticed.
 */
TEST(pmu_interrupt_masks, .group = "pmu", .ids = "PM36 PM57", .needs = ON_EACH_CPU,
     .claim = "the delivery of a counter's interrupt, as NMI or by a vector, masks the LVT entry",
     .source = "SDM Vol 3, 10.5.1")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	first = (unsigned)__builtin_ctzll(all);
	pmu_rig_take_interrupts(all);
	pmu_rig_interrupt.then = overflow_within;
	overflow_beside(first, all, true, 0);
	pmu_rig_interrupt.then = NULL;
	EXPECT_EQ(pmu_rig_interrupt.count, 2);
	EXPECT_EQ(seen_within, 1);
	EXPECT(pmu_rig_interrupt.lvtpc & LVT_MASKED);
	pmu_rig_release_interrupts();
	overflow_by_vector(first);
	EXPECT_EQ(by_vector.count, 1);
	EXPECT_EQ(by_vector.lvtpc & ~LVT_PENDING, VECTOR_TEST | LVT_MASKED);
}

TEST(pmu_each_counter_masked, .group = "pmu", .ids = "PM56", .needs = ON_EACH_CPU,
     .claim = "the overflow of each counter does not interrupt while the LVT entry is masked, nor "
	      "after that if its status bit was cleared meanwhile",
     .source = "SDM Vol 3, 10.5.1 and 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	pmu_rig_take_interrupts(all);
	EACH_COUNTER (n, all) {
		lapic_mask_lvtpc();
		overflow_beside(n, all, true, 0);
		EXPECT_EQ(pmu_rig_status() & all, bit(n));
		pmu_rig_clear(all);
		lapic_unmask_lvtpc();
		EXPECT_EQ(pmu_rig_await_interrupt(), 0);
		overflow_beside(n, all, true, 0);
		EXPECT_EQ(pmu_rig_interrupt.count, 1);
	}
	pmu_rig_release_interrupts();
}

TEST(pmu_masked_without_int, .group = "pmu", .ids = "PM58", .needs = ON_EACH_CPU,
     .claim = "an overflow without INT is no cause of an interrupt when the LVT entry is unmasked",
     .source = "SDM Vol 3, 10.5.1 and 18.2.1.1")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	pmu_rig_take_interrupts(all);
	EACH_COUNTER (n, all) {
		lapic_mask_lvtpc();
		overflow_beside(n, all, true, 0);
		overflow_beside(n, all, false, 0);
		EXPECT_EQ(pmu_rig_status() & all, bit(n));
		lapic_unmask_lvtpc();
		EXPECT_EQ(pmu_rig_await_interrupt(), 0);
		pmu_rig_clear(all);
	}
	pmu_rig_release_interrupts();
}

/* Counter `n`, alone and with INT; its status bit is set. */
static void run_alone(unsigned n)
{
	pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, true));
	if (pmu_caps()->version >= 4)
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, bit(n));
	pmu_rig_run_until(n, bit(n));
	pmu_rig_control(n, 0);
}

TEST(pmu_each_overflow_interrupts, .group = "pmu", .ids = "PM59", .needs = ON_EACH_CPU,
     .claim = "an overflow interrupts while status bits are still set, its own too; INT, enabling "
	      "and IA32_PERF_GLOBAL_STATUS_SET alone do not",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	pmu_rig_take_interrupts(all);
	EACH_COUNTER (n, all) {
		pmu_rig_interrupt.count = 0;
		overflow_in_turn(all);
		pmu_rig_load(n, 0);
		run_alone(n);
		if (pmu_caps()->version >= 4)
			wrmsr(IA32_PERF_GLOBAL_STATUS_SET, GLOBAL_STATUS_OVF_BUF);
		pmu_rig_clear(GLOBAL_STATUS_OVF_BUF);
		EXPECT_EQ(pmu_rig_await_interrupt(), 0);
		pmu_rig_load(n, 1);
		run_alone(n);
		EXPECT_EQ(pmu_rig_await_interrupt(), 1);
	}
	pmu_rig_release_interrupts();
}

/* From the interrupt on no counter moves, by what the version says, until that is undone. */
static void expect_frozen(unsigned n, uint64_t all)
{
	uint64_t frozen = pmu_caps()->version >= 4 ? STATUS_CTR_FRZ : 0;

	EXPECT_EQ(pmu_rig_interrupt.count, 1);
	EXPECT_EQ(pmu_rig_interrupt.control & all, frozen ? all : 0);
	EXPECT_EQ(pmu_rig_interrupt.debugctl, FREEZE_PERFMON);
	EXPECT_EQ(pmu_rig_interrupt.status & (all | STATUS_CTR_FRZ), bit(n) | frozen);
	EACH_COUNTER (other, all)
		EXPECT_EQ(pmu_rig_value(other), pmu_rig_interrupt.value[other]);
	EACH_COUNTER (other, frozen ? all : 0)
		EXPECT_EQ(pmu_rig_count(other, pmu_rig_counting(other, PMU_OS, false), all), 0);
	pmu_rig_clear(frozen);
	EACH_COUNTER (other, all)
		EXPECT(pmu_rig_counts(other, pmu_rig_counting(other, PMU_OS, false), all));
}

static void freeze_in_user(unsigned n)
{
	bool streamlined = pmu_caps()->version >= 4;

	pmu_rig_overflow_in_user(n, FREEZE_PERFMON);
	EXPECT_EQ(pmu_rig_interrupt.control, streamlined ? bit(n) : 0);
	EXPECT_EQ(!!(pmu_rig_interrupt.status & STATUS_CTR_FRZ), streamlined);
	pmu_rig_clear(streamlined ? STATUS_CTR_FRZ : 0);
}

/* The overflow was before FREEZE_PERFMON_ON_PMI; its status bit is still set, and software sets
   all. */
static void expect_no_freeze(unsigned n, uint64_t all)
{
	wrmsr(IA32_PERF_GLOBAL_CTRL, all);
	wrmsr(IA32_DEBUGCTL, FREEZE_PERFMON);
	if (pmu_caps()->version >= 4)
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, all);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_CTRL) & all, all);
	EXPECT_EQ(pmu_rig_status() & STATUS_CTR_FRZ, 0);
	EXPECT(pmu_rig_counts(n, pmu_rig_counting(n, PMU_OS, false), all));
	wrmsr(IA32_DEBUGCTL, 0);
}

TEST(pmu_each_counter_freezes, .group = "pmu", .ids = "PM37 PM38 PM39", .needs = ON_EACH_CPU,
     .claim =
	     "with FREEZE_PERFMON_ON_PMI the overflow of each counter that interrupts stops all, in "
	     "ring 3 too; without the bit or an interrupt none does, nor by a status bit that is set",
     .source = "SDM Vol 3, 17.4.7 and 18.2.4")
{
	uint64_t all;
	uint32_t exact; /* a counter beside the one that overflows, or that one */

	pmu_rig_need_freeze(FREEZE_PERFMON);
	all = pmu_rig_open(NO_INSTRUCTIONS | NO_CYCLES);
	exact = pmu_rig_msr((unsigned)__builtin_ctzll(all));
	user_visits_open();
	pmu_rig_take_interrupts(all);
	EACH_COUNTER (n, all) {
		overflow_beside(n, all, true, FREEZE_PERFMON);
		expect_frozen(n, all);
		if (n <= PMU_FIXED + 1)
			freeze_in_user(n);
		overflow_beside(n, all, false, FREEZE_PERFMON);
		EXPECT_EQ(pmu_rig_interrupt.count, 0);
		EXPECT(rdmsr(exact) >= 100);
		expect_no_freeze(n, all);
		overflow_beside(n, all, true, 0);
		EXPECT(rdmsr(exact) >= 100);
		EXPECT_EQ(pmu_rig_status() & STATUS_CTR_FRZ, 0);
	}
	pmu_rig_release_interrupts();
	user_visits_close();
	pmu_rig_close(all);
}

/* What a unit mask means is the model's: each counter says the same of it, the others being off. */
TEST(pmu_each_counter_unit_mask, .group = "pmu", .ids = "PM33", .needs = 0,
     .claim = "each general counter counts by the unit mask in its select, as counter 0 does",
     .source = "SDM Vol 3, 18.2.1.1")
{
	COUNTERS(all, NO_BRANCHES);

	EACH_COUNTER (n, general_of(all)) {
		EXPECT_EQ(pmu_rig_branches(n, 0, bit(n)), 3);
		EXPECT_EQ(pmu_rig_branches(n, UNIT_MASK(2), bit(n)),
			  pmu_rig_branches(0, UNIT_MASK(2), 1));
	}
}

/* What pmu_rig_branches() returns under these conditions. */
static const struct {
	uint32_t conditions, count;
} by_conditions[] = {{0, 3},
		     {PERFEVTSEL_CMASK(1), 3},
		     {PERFEVTSEL_EDGE, 3},
		     {PERFEVTSEL_EDGE | PERFEVTSEL_INV, 3},
		     {PERFEVTSEL_EDGE | PERFEVTSEL_CMASK(1), 3}};

#define INVERTED (EVENT_INSTRUCTIONS | PERFEVTSEL_EN | PERFEVTSEL_INV | PERFEVTSEL_CMASK(255))

/* Beside a counter of edges whose condition always holds. */
static void expect_edges(unsigned n, uint64_t all)
{
	uint64_t fewer = PERFEVTSEL_INV | PERFEVTSEL_CMASK(1), some = 0, edges;
	unsigned other = n ^ 1;

	if (all >> other & 1)
		pmu_rig_control(other, INVERTED | PMU_OS | PERFEVTSEL_EDGE);
	edges = pmu_rig_branches(n, fewer | PERFEVTSEL_EDGE, all);

	for (unsigned least = 2; least < 256; least *= 2)
		some |= pmu_rig_branches(n, PERFEVTSEL_CMASK(least), all);
	EXPECT(!some && pmu_rig_branches(n, fewer, all) >= 4);
	EXPECT(edges - 3 <= 1); /* before each branch, and after the last */
	for (unsigned i = 0; i < sizeof(by_conditions) / sizeof(by_conditions[0]); i++)
		if (!EXPECT_EQ(pmu_rig_branches(n, by_conditions[i].conditions, all),
			       by_conditions[i].count))
			test_note("conditions %x", by_conditions[i].conditions);
	if (all >> other & 1)
		pmu_rig_control(other, 0);
}

/*
 * Relations that hold however many instructions a cycle retires: no cycle retires 128; a cycle that
 * counts for CMASK = 2 has two instructions; between two edges is a cycle that does not count.
 * Those of cycles hold within one run. Here each is of two, of which the second may be faster.
 */
static bool conditions_hold(unsigned n)
{
	const uint64_t on = EVENT_INSTRUCTIONS | PMU_OS | PERFEVTSEL_EN;
	uint64_t plain = pmu_rig_count(n, on, bit(n));
	uint64_t one = pmu_rig_count(n, on | PERFEVTSEL_CMASK(1), bit(n));
	uint64_t two = pmu_rig_count(n, on | PERFEVTSEL_CMASK(2), bit(n));
	uint64_t cycles = pmu_rig_count(n, on | PERFEVTSEL_INV | PERFEVTSEL_CMASK(255), bit(n));
	uint64_t edges = pmu_rig_count(n, on | PERFEVTSEL_EDGE | PERFEVTSEL_CMASK(1), bit(n));
	uint64_t plain_edges = pmu_rig_count(n, on | PERFEVTSEL_EDGE, bit(n));

	EXPECT_EQ(pmu_rig_count(n, on | PERFEVTSEL_CMASK(128), bit(n)), 0);
	EXPECT_EQ(pmu_rig_count(n, on | PERFEVTSEL_CMASK(255), bit(n)), 0);
	EXPECT_EQ(pmu_rig_count(n, on | PERFEVTSEL_INV, bit(n)), plain);
	EXPECT(one > 0 && one <= plain);
	EXPECT(2 * two <= plain);
	EXPECT_EQ(pmu_rig_count(n, on | PERFEVTSEL_EDGE | PERFEVTSEL_CMASK(255), bit(n)), 0);
	return cycles >= one && 2 * edges <= cycles + 1 &&
	       (2 * plain_edges <= cycles + 1 || plain_edges == plain);
}

/* Counter `n` is of another level, and counts no cycle. The one beside it counts instructions. */
static void expect_level(unsigned n, uint64_t all)
{
	unsigned other = n ^ 1;

	if (!(all >> other & 1))
		return;
	pmu_rig_control(other, EVENT_INSTRUCTIONS | PMU_OS | PERFEVTSEL_EN);
	EXPECT_EQ(pmu_rig_count(n, INVERTED | PMU_USR, all), 0);
	pmu_rig_control(other, 0);
}

static void expect_conditions(unsigned n)
{
	enum { TURNS = 20 };
	unsigned turn = 0;

	while (turn < TURNS && !conditions_hold(n))
		turn++;
	EXPECT(turn < TURNS);
}

TEST(pmu_each_counter_conditions, .group = "pmu", .ids = "PM29 PM41 PM42 PM43 PM44 PM62",
     .needs = ON_EACH_CPU,
     .claim = "on each general counter CMASK counts cycles with as many events, INV the others, E "
	      "the edges; INV alone changes nothing, and counts no cycle of another level",
     .source = "SDM Vol 3, 18.2.1.1")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_BRANCHES);

	EACH_COUNTER (n, general_of(all)) {
		expect_conditions(n);
		expect_edges(n, all);
		expect_level(n, all);
	}
	if (all >> PMU_FIXED & 1) {
		pmu_rig_control(0, INVERTED & ~PERFEVTSEL_INV);
		EXPECT(pmu_rig_counts(PMU_FIXED, FIXED_OS, all));
	}
}
