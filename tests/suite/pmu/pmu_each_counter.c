// SPDX-License-Identifier: MIT
// Each counter: what lets it count, its conditions, its overflow, interrupt and freezing.
#include "drivers/apic/lapic.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/pmi.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/user_visits.h"

#define EVENT_REFERENCE 0x013cull

#define UNIT_MASK(mask) ((uint64_t)(mask) << 8)

static uint64_t bit(unsigned n)
{
	return 1ull << n;
}

static uint64_t general_of(uint64_t counters)
{
	return counters & (bit(PMU_FIXED) - 1);
}

/* What counter `n` counts of 200 NOPs with this control and IA32_PERF_GLOBAL_CTRL. */
static uint64_t count(unsigned n, uint64_t control, uint64_t global)
{
	wrmsr(pmu_rig_msr(n), 0);
	pmu_rig_control(n, control);
	pmu_rig_run(global);
	pmu_rig_control(n, 0);
	return rdmsr(pmu_rig_msr(n));
}

/* The same until it has counted some; how many runs that took, 0: it counts nothing. All NOPs are
   in the first run of a counter of instructions. */
static unsigned counts(unsigned n, uint64_t control, uint64_t global)
{
	unsigned runs;

	wrmsr(pmu_rig_msr(n), 0);
	pmu_rig_control(n, control);
	runs = pmu_rig_run_until(n, global);
	pmu_rig_control(n, 0);
	return pmu_rig_is_exact(n) && rdmsr(pmu_rig_msr(n)) < 200 ? 0 : runs;
}

/* In twice the runs in which it would have counted some. */
static bool rests(unsigned n, uint64_t control, uint64_t global, unsigned runs)
{
	bool moved = false;

	for (unsigned run = 0; run < 2 * runs; run++)
		moved |= count(n, control, global);
	return !moved;
}

TEST(pmu_each_counter_enabled, .group = "pmu", .ids = "PM27 PM30 PM32", .needs = 0,
     .claim = "each counter counts while its bit of IA32_PERF_GLOBAL_CTRL, EN and the level are "
	      "set, and not without one of them",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	EACH_COUNTER(n, all)
	{
		uint64_t on = pmu_rig_counting(n, PMU_OS, false);
		unsigned runs = counts(n, on, all);

		EXPECT(runs);
		EXPECT(counts(n, on, bit(n)));
		EXPECT(rests(n, on, all & ~bit(n), runs));
		EXPECT(rests(n, pmu_rig_counting(n, PMU_USR, false), all, runs));
		EXPECT(rests(n, pmu_rig_counting(n, 0, true), all, runs));
		EXPECT(rests(n, 0, all, runs));
		if (!pmu_rig_is_fixed(n))
			EXPECT(rests(n, on & ~PERFEVTSEL_EN, all, runs));
	}
}

/* Counter `n` sees ring 3 or ring 0, and the next one the other. */
static uint64_t level_of(unsigned n, bool odd)
{
	return n % 2 == odd ? PMU_USR : PMU_OS;
}

static void count_visits(uint64_t all, bool odd, uint64_t *user, uint64_t *kernel)
{
	EACH_COUNTER(n, all)
	{
		wrmsr(pmu_rig_msr(n), 0);
		pmu_rig_control(n, pmu_rig_counting(n, level_of(n, odd), false));
	}
	wrmsr(IA32_PERF_GLOBAL_CTRL, all);
	user_visits_run();
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	EACH_COUNTER(n, all)
	{
		uint64_t value = rdmsr(pmu_rig_msr(n)), *first;

		pmu_rig_control(n, 0);
		first = level_of(n, odd) == PMU_USR ? user : kernel;
		if (!pmu_rig_is_exact(n))
			continue;
		if (!*first)
			*first = value;
		else
			EXPECT_EQ(value, *first);
	}
}

TEST(pmu_each_counter_level, .group = "pmu", .ids = "PM24 PM29", .needs = 0,
     .claim = "each counter with USR counts the instructions of ring 3, beside counters with OS "
	      "that count the others",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	uint64_t all = pmu_rig_open(NO_INSTRUCTIONS | NO_CYCLES), user = 0;

	user_visits_open();
	preemption_disable();
	user_visits_run(); /* pages that are touched for the first time */
	for (unsigned odd = 0; odd < 2; odd++) {
		uint64_t kernel = 0;

		count_visits(all, odd, &user, &kernel);
		EXPECT(kernel > user);
	}
	preemption_enable();
	user_visits_close();
	EXPECT_EQ(user, VISITS * (2 + 2 * (VISIT_BRANCHES + 1)));
	pmu_rig_close(all);
}

/* No branch is in the NOPs, and instructions are: the next counter has another event. */
TEST(pmu_each_counter_event, .group = "pmu", .ids = "PM33", .needs = 0,
     .claim = "each general counter counts its own event, whatever the others count",
     .source = "SDM Vol 3, 18.2.1.1 and table 18-1")
{
	COUNTERS(opened, NO_INSTRUCTIONS | NO_BRANCHES);
	uint64_t all = general_of(opened), same = 0;

	for (unsigned odd = 0; odd < 2; odd++) {
		EACH_COUNTER(n, all)
		{
			uint64_t event = n % 2 == odd ? EVENT_INSTRUCTIONS : EVENT_BRANCHES;

			wrmsr(IA32_PMC0 + n, 0);
			pmu_rig_control(n, event | PMU_OS | PERFEVTSEL_EN);
		}
		pmu_rig_run(all);
		EACH_COUNTER(n, all)
		{
			uint64_t value = rdmsr(IA32_PMC0 + n);

			pmu_rig_control(n, 0);
			if (n % 2 != odd)
				EXPECT_EQ(value, 0);
			else if (!same)
				same = value;
			else
				EXPECT_EQ(value, same);
		}
	}
	EXPECT(same >= 200);
}

/* Runs counter `n` from `value` until it has moved; what it has then. */
static uint64_t run_from(unsigned n, uint64_t value)
{
	uint64_t on = pmu_rig_counting(n, PMU_OS, false);

	wrmsr(pmu_rig_msr(n), value);
	pmu_rig_control(n, on);
	pmu_rig_run_until(n, bit(n));
	pmu_rig_control(n, 0);
	return rdmsr(pmu_rig_msr(n));
}

static bool has_overflowed(unsigned n, uint64_t all)
{
	uint64_t status = rdmsr(IA32_PERF_GLOBAL_STATUS) & all;

	EXPECT_EQ(status & ~bit(n), 0);
	return status;
}

static void overflow_each(unsigned n, uint64_t all)
{
	uint64_t least = count(n, pmu_rig_counting(n, PMU_OS, false), bit(n));
	uint64_t mask = pmu_rig_mask(n), value;

	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, all);
	if (pmu_rig_is_exact(n)) {
		EXPECT_EQ(run_from(n, (mask - least) & mask), mask);
		EXPECT(!has_overflowed(n, all));
		EXPECT_EQ(run_from(n, (mask - least + 1) & mask), 0);
		EXPECT(has_overflowed(n, all));
		wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, bit(n));
		EXPECT_EQ(run_from(n, 0x7fffffff), 0x7fffffff + least);
		EXPECT(!has_overflowed(n, all));
	}
	if (pmu_rig_is_fixed(n)) {
		value = run_from(n, 0xffffffff);
		EXPECT(value >= 0x100000000 && !has_overflowed(n, all));
	} else if (pmu_rig_capabilities() & FULL_WIDTH_WRITES) {
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
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, all & ~bit(n));
	EXPECT(has_overflowed(n, all));
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, bit(n));
	EXPECT(!has_overflowed(n, all));
	run_from(n, mask);
	EXPECT(has_overflowed(n, all));
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, bit(n));
	pmu_rig_control(n, 0);
}

static void overflow_in_turn(uint64_t all)
{
	uint64_t seen = 0;

	EACH_COUNTER(n, all)
	{
		run_from(n, pmu_rig_mask(n));
		seen |= bit(n);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & all, seen);
	}
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, all);
}

TEST(pmu_each_counter_overflows, .group = "pmu", .ids = "PM31 PM34 PM35", .needs = 0,
     .claim = "each counter overflows past its width, not before; its status bit alone is set, by "
	      "a second overflow too, and stays beside those of others until it is cleared",
     .source = "SDM Vol 3, 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	EACH_COUNTER(n, all)
	overflow_each(n, all);
	overflow_in_turn(all);
}

TEST(pmu_overflows_together, .group = "pmu", .ids = "PM31 PM35", .needs = 0,
     .claim = "counters that overflow at the same instruction set each their own status bit, with "
	      "INT and PMI too",
     .source = "SDM Vol 3, 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS);
	uint64_t exact = all & (bit(PMU_FIXED + 1) - 1);

	pmu_rig_take_interrupts(all);
	lapic_mask_lvtpc();
	EACH_COUNTER(n, exact)
	{
		pmu_rig_load(n, 100);
		pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, true));
	}
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, all);
	pmu_rig_run(exact);
	EACH_COUNTER(n, exact)
	pmu_rig_control(n, 0);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & all, exact);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, all);
	lapic_unmask_lvtpc();
	pmu_rig_release_interrupts();
}

/* Has counter `n` overflow at its next event, before 200 NOPs or among them. The others count
   beside it. */
static void overflow_beside(unsigned n, uint64_t all, bool interrupt, uint64_t debugctl)
{
	EACH_COUNTER(other, all)
	{
		wrmsr(pmu_rig_msr(other), 0);
		pmu_rig_control(other, pmu_rig_counting(other, PMU_OS, other != n));
	}
	pmu_rig_load(n, 1);
	pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, interrupt));
	pmu_rig_interrupt.count = 0;
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, all);
	wrmsr(IA32_DEBUGCTL, debugctl);
	if (interrupt && !(apic_read(APIC_LVT_PC) & LVT_MASKED))
		pmu_rig_run_interrupted(all);
	else
		pmu_rig_run_until(n, all);
	wrmsr(IA32_DEBUGCTL, 0);
	EACH_COUNTER(other, all)
	pmu_rig_control(other, 0);
}

TEST(pmu_each_counter_interrupts, .group = "pmu", .ids = "PM36", .needs = 0,
     .claim = "the overflow of each counter interrupts if its INT or PMI bit is set, once; those "
	      "of the others do not make it",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	pmu_rig_take_interrupts(all);
	EACH_COUNTER(n, all)
	{
		overflow_beside(n, all, true, 0);
		EXPECT_EQ(pmu_rig_interrupt.count, 1);
		EXPECT_EQ(pmu_rig_interrupt.status & all, bit(n));
		EXPECT_EQ(pmu_rig_interrupt.control & all, all);
		overflow_beside(n, all, false, 0);
		EXPECT_EQ(pmu_rig_interrupt.count, 0);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & all, bit(n));
		wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, all);
	}
	pmu_rig_release_interrupts();
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
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, bit(n));
	lapic_set_lvtpc((uint8_t)(before & LVT_VECTOR_MASK), before & LVT_NMI);
	if (before & LVT_MASKED)
		lapic_mask_lvtpc();
	interrupt_set_handler(VECTOR_TEST, NULL);
}

/*
 * KVM up to Linux 6.5 delivered the interrupt and left the entry of a guest as it was: Linux
 * a16eb25b09c0, "Mask LVTPC when handling a PMI", of September 2023. Its own perf unmasks the entry
 * whatever it has, so that no guest noticed.
 */
TEST(pmu_interrupt_masks, .group = "pmu", .ids = "PM57", .needs = 0,
     .claim = "the delivery of a counter's interrupt, as NMI or by a vector, masks the LVT entry",
     .source = "SDM Vol 3, 10.5.1")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);
	unsigned first = (unsigned)__builtin_ctzll(all);

	pmu_rig_take_interrupts(all);
	overflow_beside(first, all, true, 0);
	EXPECT_EQ(pmu_rig_interrupt.count, 1);
	EXPECT(pmu_rig_interrupt.lvtpc & LVT_MASKED);
	pmu_rig_release_interrupts();
	overflow_by_vector(first);
	EXPECT_EQ(by_vector.count, 1);
	EXPECT(by_vector.lvtpc & LVT_MASKED);
}

TEST(pmu_each_counter_masked, .group = "pmu", .ids = "PM56", .needs = 0,
     .claim = "the overflow of each counter does not interrupt while the LVT entry is masked, nor "
	      "after that if its status bit was cleared meanwhile",
     .source = "SDM Vol 3, 10.5.1 and 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	pmu_rig_take_interrupts(all);
	EACH_COUNTER(n, all)
	{
		lapic_mask_lvtpc();
		overflow_beside(n, all, true, 0);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & all, bit(n));
		wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, all);
		lapic_unmask_lvtpc();
		EXPECT_EQ(pmu_rig_interrupt.count, 0);
		overflow_beside(n, all, true, 0);
		EXPECT_EQ(pmu_rig_interrupt.count, 1);
	}
	pmu_rig_release_interrupts();
}

TEST(pmu_masked_without_int, .group = "pmu", .ids = "PM58", .needs = 0,
     .claim = "an overflow without INT is no cause of an interrupt when the LVT entry is "
	      "unmasked",
     .source = "SDM Vol 3, 10.5.1 and 18.2.1.1")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	pmu_rig_take_interrupts(all);
	EACH_COUNTER(n, all)
	{
		lapic_mask_lvtpc();
		overflow_beside(n, all, true, 0);
		overflow_beside(n, all, false, 0);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & all, bit(n));
		lapic_unmask_lvtpc();
		EXPECT_EQ(pmu_rig_interrupt.count, 0);
		wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, all);
	}
	pmu_rig_release_interrupts();
}

/* Counter `n`, alone and with INT. */
static void run_alone(unsigned n)
{
	pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, true));
	pmu_rig_run_until(n, bit(n));
	pmu_rig_control(n, 0);
}

TEST(pmu_each_overflow_interrupts, .group = "pmu", .ids = "PM59", .needs = 0,
     .claim = "an overflow interrupts while its status bit is still set; INT and enabling "
	      "alone do not",
     .source = "SDM Vol 3, 18.2.1.1 and 18.2.2")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_CYCLES);

	pmu_rig_take_interrupts(all);
	EACH_COUNTER(n, all)
	{
		overflow_beside(n, all, false, 0);
		wrmsr(pmu_rig_msr(n), 0);
		run_alone(n);
		EXPECT_EQ(pmu_rig_interrupt.count, 0);
		pmu_rig_load(n, 1);
		run_alone(n);
		pmu_rig_await_interrupt();
		EXPECT_EQ(pmu_rig_interrupt.count, 1);
	}
	pmu_rig_release_interrupts();
}

/* From the interrupt on no counter moves, by what the version says, until that is undone. */
static void expect_frozen(unsigned n, uint64_t all)
{
	uint64_t frozen = pmu_caps()->version >= 4 ? STATUS_CTR_FRZ : 0;

	EXPECT_EQ(pmu_rig_interrupt.count, 1);
	EXPECT_EQ(pmu_rig_interrupt.control & all, frozen ? all : 0);
	EXPECT_EQ(pmu_rig_interrupt.status & (all | STATUS_CTR_FRZ), bit(n) | frozen);
	EACH_COUNTER(other, all)
	EXPECT_EQ(rdmsr(pmu_rig_msr(other)), pmu_rig_interrupt.value[other]);
	EACH_COUNTER(other, frozen ? all : 0)
	EXPECT_EQ(count(other, pmu_rig_counting(other, PMU_OS, false), all), 0);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, frozen);
	EACH_COUNTER(other, all)
	EXPECT(counts(other, pmu_rig_counting(other, PMU_OS, false), all));
}

TEST(pmu_each_counter_freezes, .group = "pmu", .ids = "PM37 PM38 PM39", .needs = 0,
     .claim = "with FREEZE_PERFMON_ON_PMI the overflow of each counter that interrupts stops all; "
	      "without the bit, and without an interrupt, none does",
     .source = "SDM Vol 3, 17.4.7 and 18.2.4")
{
	uint64_t all;
	uint32_t exact; /* a counter beside the one that overflows, or that one */

	pmu_rig_need_freeze(FREEZE_PERFMON);
	all = pmu_rig_open(NO_INSTRUCTIONS | NO_CYCLES);
	exact = pmu_rig_msr((unsigned)__builtin_ctzll(all));
	pmu_rig_take_interrupts(all);
	EACH_COUNTER(n, all)
	{
		overflow_beside(n, all, true, FREEZE_PERFMON);
		expect_frozen(n, all);
		overflow_beside(n, all, false, FREEZE_PERFMON);
		EXPECT_EQ(pmu_rig_interrupt.count, 0);
		EXPECT(rdmsr(exact) >= 100);
		overflow_beside(n, all, true, 0);
		EXPECT(rdmsr(exact) >= 100);
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & STATUS_CTR_FRZ, 0);
	}
	pmu_rig_release_interrupts();
	pmu_rig_close(all);
}

TEST(pmu_status_set_freezes, .group = "pmu", .ids = "PM40", .needs = 0,
     .claim = "CTR_Frz that software sets stops each counter until software clears it",
     .source = "SDM Vol 3, 18.2.4")
{
	uint64_t all = pmu_rig_open(NO_INSTRUCTIONS | NO_CYCLES);

	if (pmu_caps()->version < 4) {
		pmu_rig_close(all);
		test_skip("version %u: CTR_Frz begins with 4", pmu_caps()->version);
	}
	EACH_COUNTER(n, all)
	{
		uint64_t on = pmu_rig_counting(n, PMU_OS, false);

		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_CTR_FRZ);
		EXPECT_EQ(count(n, on, all), 0);
		wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, STATUS_CTR_FRZ);
		EXPECT(counts(n, on, all));
	}
	pmu_rig_close(all);
}

/* What a unit mask means is the model's: each counter says the same of it, the others being off. */
TEST(pmu_each_counter_unit_mask, .group = "pmu", .ids = "PM33", .needs = 0,
     .claim = "each general counter counts by the unit mask in its select, as counter 0 does",
     .source = "SDM Vol 3, 18.2.1.1")
{
	COUNTERS(all, NO_BRANCHES);

	EACH_COUNTER(n, general_of(all))
	{
		EXPECT_EQ(pmu_rig_branches(n, 0), 3);
		EXPECT_EQ(pmu_rig_branches(n, UNIT_MASK(2)), pmu_rig_branches(0, UNIT_MASK(2)));
	}
}

static void expect_edges(unsigned n)
{
	uint64_t between = pmu_rig_branches(n, PERFEVTSEL_INV | PERFEVTSEL_CMASK(1));

	EXPECT_EQ(pmu_rig_branches(n, 0), 3);
	EXPECT_EQ(pmu_rig_branches(n, PERFEVTSEL_CMASK(1)), 3);
	EXPECT_EQ(pmu_rig_branches(n, PERFEVTSEL_CMASK(2)), 0);
	EXPECT_EQ(pmu_rig_branches(n, PERFEVTSEL_EDGE), 3);
	EXPECT_EQ(pmu_rig_branches(n, PERFEVTSEL_EDGE | PERFEVTSEL_INV), 3);
	EXPECT_EQ(pmu_rig_branches(n, PERFEVTSEL_EDGE | PERFEVTSEL_CMASK(1)), 3);
	EXPECT(between >= 4);
}

/*
 * Relations that hold however many instructions a cycle retires: no cycle retires 128; a cycle that
 * counts for CMASK = 2 has two instructions; between two edges is a cycle that does not count.
 * Those of cycles hold within one run. Here each is of two, of which the second may be faster.
 */
static bool conditions_hold(unsigned n)
{
	const uint64_t on = EVENT_INSTRUCTIONS | PMU_OS | PERFEVTSEL_EN;
	uint64_t plain = count(n, on, bit(n));
	uint64_t one = count(n, on | PERFEVTSEL_CMASK(1), bit(n));
	uint64_t two = count(n, on | PERFEVTSEL_CMASK(2), bit(n));
	uint64_t cycles = count(n, on | PERFEVTSEL_INV | PERFEVTSEL_CMASK(255), bit(n));
	uint64_t edges = count(n, on | PERFEVTSEL_EDGE | PERFEVTSEL_CMASK(1), bit(n));
	uint64_t plain_edges = count(n, on | PERFEVTSEL_EDGE, bit(n));

	EXPECT_EQ(count(n, on | PERFEVTSEL_CMASK(128), bit(n)), 0);
	EXPECT_EQ(count(n, on | PERFEVTSEL_CMASK(255), bit(n)), 0);
	EXPECT_EQ(count(n, on | PERFEVTSEL_INV, bit(n)), plain);
	EXPECT(one > 0 && one <= plain);
	EXPECT(2 * two <= plain);
	EXPECT_EQ(count(n, on | PERFEVTSEL_EDGE | PERFEVTSEL_CMASK(255), bit(n)), 0);
	return cycles >= one && 2 * edges <= cycles + 1 && 2 * plain_edges <= cycles + 1;
}

static void expect_conditions(unsigned n)
{
	enum { TURNS = 20 };
	unsigned turn = 0;

	while (turn < TURNS && !conditions_hold(n))
		turn++;
	EXPECT(turn < TURNS);
}

TEST(pmu_each_counter_conditions, .group = "pmu", .ids = "PM41 PM42 PM43 PM44", .needs = 0,
     .claim = "on each general counter CMASK counts cycles with as many events, INV the others, E "
	      "the edges; INV alone changes nothing",
     .source = "SDM Vol 3, 18.2.1.1")
{
	COUNTERS(all, NO_INSTRUCTIONS | NO_BRANCHES);

	EACH_COUNTER(n, general_of(all))
	{
		expect_conditions(n);
		expect_edges(n);
	}
}

/* They are few: a clock of the bus, which is slow. */
static void expect_reference_cycles(unsigned n, uint64_t all)
{
	const uint64_t on = EVENT_REFERENCE | PMU_OS | PMU_USR | PERFEVTSEL_EN;
	uint64_t cycles = 0;

	for (unsigned run = 0; run < PMU_RIG_RUNS && !cycles; run++)
		cycles = count(n, on, all);
	EXPECT(cycles > 0);
}

TEST(pmu_reference_cycles, .group = "pmu", .ids = "PM27", .needs = 0,
     .claim = "each general counter counts unhalted reference cycles",
     .source = "SDM Vol 3, table 18-1: 3CH, unit mask 01H")
{
	COUNTERS(all, NO_REFERENCE);

	EACH_COUNTER(n, general_of(all))
	expect_reference_cycles(n, all);
}

/* A cycle is one event: no more than one of them can be in a cycle. */
TEST(pmu_cycles_conditions, .group = "pmu", .ids = "PM27 PM45", .needs = 0,
     .claim = "a counter of cycles with CMASK = 2 counts none, with CMASK = 1 all, with E few",
     .source = "SDM Vol 3, 18.2.1.1 and table 18-1: 3CH")
{
	const uint64_t on = EVENT_CYCLES | PMU_OS | PMU_USR | PERFEVTSEL_EN;
	COUNTERS(all, NO_CYCLES);

	EACH_COUNTER(n, general_of(all))
	{
		EXPECT(count(n, on, all) > 0);
		EXPECT(count(n, on | PERFEVTSEL_CMASK(1), all) > 0);
		EXPECT_EQ(count(n, on | PERFEVTSEL_CMASK(2), all), 0);
		EXPECT(count(n, on | PERFEVTSEL_CMASK(2) | PERFEVTSEL_INV, all) > 0);
		EXPECT(count(n, on | PERFEVTSEL_CMASK(1) | PERFEVTSEL_EDGE, all) <= 2);
	}
}
