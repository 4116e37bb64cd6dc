// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/time.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/rig.h"
#include "tests/lib/viewer.h"
#include "tests/lib/walker.h"

#define SWITCHES 2000 /* a million with scale=50000 */
#define SLOTS	 64

/* One record further, round the buffer's `end`; no manual says when the index goes to the base. */
static bool is_next(const struct rig *rig, uint64_t before, uint64_t after, uint64_t end)
{
	if (before == end)
		return after == rig->base + rig->record;
	return after == before + rig->record || (before + rig->record == end && after == rig->base);
}

/* The watchdog's, where a hypervisor stopped the machine: its transition may be a record as well.
 */
static unsigned nmis_met;

static bool count_nmi(struct trap_frame *frame)
{
	(void)frame;
	nmis_met++;
	return false;
}

/* One branch while it is on, one while it is off, then look. */
TEST(bts_robust_on_off, .group = "Z", .ids = "Z1", .needs = NEED_BTS,
     .claim =
	     "however often recording is turned on and off, each branch between is stored, none after",
     .source = "SDM Vol 3, 17.4.5")
{
	uint64_t times = test_scaled(SWITCHES), right = 0, smis = smi_count();
	size_t capacity = SLOTS - (CALIBRATION_SLOTS - calibration()->used_at_end);

	RIG(rig, SLOTS);
	nmis_met = 0;
	test_handle_nmis(count_nmi);
	for (uint64_t i = 0; i < times; i++) {
		uint64_t at = rig_index(&rig);

		TRACED(rig_all(), "jmp 1f\n1:\n\t");
		chain_walk(&chain_a, 2);
		right += is_next(&rig, at, rig_index(&rig), rig.base + capacity * rig.record);
	}
	test_handle_nmis(NULL);
	if (smi_count() == smis)
		EXPECT(right <= times && right + nmis_met >= times);
	EXPECT(rig_index(&rig) <= rig.base + SLOTS * rig.record);
	test_note("%lu times, %u NMIs", times, nmis_met);
}

// Linux tested its driver at boot: stop, read twice, go on, stop, compare. This is that cycle, many
// times, with every branch known. Passing means: a stopped trace is stable, whole and in order, and
// nothing is missing between two readings.

#define TIMES 250 /* a thousand with scale=400 */

static atomic_bool go;

static void wait(struct walker *walker)
{
	(void)walker;
	while (!atomic_exchange(&go, false))
		task_yield();
}

/* Stopped it reads the same twice; every record is a branch; nothing is missing in the end. */
TEST(bts_robust_read_go_on, .group = "Z", .ids = "Z4", .needs = NEED_BTS,
     .claim = "a trace is stopped, read and gone on with again and again: stable, whole, in order",
     .source = "docs/bts.md#self-test-of-linux; Linux 2.6.32, ds_selftest.c")
{
	uint64_t times = test_scaled(TIMES);
	USER_CHAIN(user);
	struct walker walker CLOSED_BY(walker_end) = {.name = "watched",
						      .chain = &chain_a,
						      .walks = times,
						      .user = &user,
						      .between = wait};
	struct bts_options options = viewer_options(TRACE_USER, 0);
	struct viewer viewer CLOSED_BY(viewer_close);
	size_t unstable = 0;

	options.overflow = TRACE_WRAP;
	walkers_create(&walker, 1);
	viewer_open(&viewer, &walker, &options);
	task_start(walker.task);
	for (uint64_t i = 0; i < times; i++) {
		struct ptrace_bts_record newest, again;

		while (((volatile struct walker *)&walker)->walked <= i && !walker.task->ended)
			task_yield();
		unstable += bts_get(viewer.tracer, 0, &newest) != 0 ||
			    bts_get(viewer.tracer, 0, &again) != 0 || newest.from != again.from ||
			    newest.to != again.to;
		viewer_read(&viewer);
		unstable += bts_available(viewer.tracer) != 0;
		atomic_store(&go, true);
	}
	walkers_join(&walker, 1);
	EXPECT_EQ(unstable, 0);
	viewer_expect(&viewer, times);
}

#define PERIOD	    200 /* microseconds from the end of one blow to the next */
#define MOST_ROUNDS 100

static atomic_uint timers, sent, nmis;

static bool claim(struct trap_frame *frame)
{
	(void)frame;
	atomic_fetch_add(&nmis, 1);
	return atomic_load(&sent) > 0;
}

static void blow(struct timer *timer)
{
	atomic_fetch_add(&timers, 1);
	atomic_fetch_add(&sent, 1);
	lapic_self_nmi();
	timer_start(timer, PERIOD);
}

static void round(uint64_t walks)
{
	struct walker walkers[] = {
		{.name = "a", .chain = &chain_a, .walks = walks},
		{.name = "b", .chain = &chain_b, .walks = walks},
	};
	struct timer timer = {.expired = blow};

	for (unsigned i = 0; i < 2; i++)
		walkers[i].options = walker_options(walks * 512 + 65536);
	timer_start(&timer, PERIOD);
	while (!atomic_load(&sent)) /* no NMI before the first that is the storm's */
		task_yield();
	walkers_start(walkers, 2);
	walkers_join_reading(walkers, 2);
	timer_stop(&timer);
	task_sleep(1000);
	walkers_check(walkers, 2);
}

/* On a busy host the timer may come late: as many rounds as it takes to meet it. */
TEST(bts_robust_storm, .group = "Z", .ids = "Z2", .needs = NEED_BTS,
     .claim = "in a storm of timer interrupts and NMIs traced tasks get on and lose no branch",
     .source = "docs/design.md#losses")
{
	uint64_t unknown = nmi_unknown_count();

	atomic_store(&timers, 0);
	atomic_store(&sent, 0);
	atomic_store(&nmis, 0);
	test_handle_nmis(claim);
	sched_set_slice(500);
	for (unsigned rounds = 0; rounds < MOST_ROUNDS && !atomic_load(&nmis); rounds++)
		round(test_scaled(300));
	sched_set_slice(1000);
	test_handle_nmis(NULL);
	EXPECT(atomic_load(&timers) > 0);
	EXPECT(atomic_load(&nmis) > 0);
	EXPECT_EQ(nmi_unknown_count(), unknown);
	test_note("%u timer interrupts, %u NMIs", atomic_load(&timers), atomic_load(&nmis));
}

/*
 * Each interrupts at the same instruction, and finds no trace unit with a reason: of PMIs that
 * do so the kernel takes 1000.
 */
TEST(robust_nmis_of_others, .group = "Z", .ids = "", .needs = NEED_BTS,
     .claim = "NMIs of another source, however many, are not taken for performance-monitoring "
	      "interrupts",
     .source = "docs/design.md#interrupt-at-the-threshold")
{
	enum { MANY = 5000, FEWEST = 1500 };
	struct walker walker = {.name = "among", .chain = &chain_a, .walks = 8};
	unsigned count = 0;

	walker.options = walker_options(32768);
	atomic_store(&sent, MANY);
	atomic_store(&nmis, 0);
	test_handle_nmis(claim);
	for (; count < MANY && test_has_time(); count++)
		lapic_self_nmi();
	test_handle_nmis(NULL);
	EXPECT_EQ(atomic_load(&nmis), count);
	walkers_start(&walker, 1);
	walkers_join(&walker, 1);
	walkers_check(&walker, 1);
	if (count < FEWEST)
		test_slow("%u of %u NMIs, in %lu s", count, FEWEST, test_seconds());
}

static struct {
	unsigned interrupts;
	uint32_t in_service, after;
	uint64_t flags, flags_after;
} seen;

static uint32_t in_service(void)
{
	return apic_read(APIC_ISR + VECTOR_TEST / 32 * 16) & 1u << VECTOR_TEST % 32;
}

/*
 * As the APIC delivers it: it has no bit in the ISR. An EOI from its handler would end the
 * interrupt that is in service here.
 */
static void interrupted(struct trap_frame *frame)
{
	(void)frame;
	seen.interrupts++;
	seen.in_service = in_service();
	__asm__ volatile("pushfq\n\tpopq %0\n\tint $0xff\n\tpushfq\n\tpopq %1"
			 : "=&r"(seen.flags), "=&r"(seen.flags_after));
	seen.after = in_service();
	lapic_eoi();
}

TEST(robust_spurious_interrupt, .group = "Z", .ids = "",
     .claim = "the local APIC's spurious interrupt, which takes no EOI, changes nothing",
     .source = "SDM Vol 3, 10.9")
{
	uint64_t flags = interrupts_save();

	seen.interrupts = 0;
	interrupt_set_handler(VECTOR_TEST, interrupted);
	lapic_self_ipi(VECTOR_TEST);
	__asm__ volatile("sti");
	for (unsigned i = 0; i < 1000000 && !((volatile unsigned *)&seen.interrupts)[0]; i++)
		__asm__ volatile("pause");
	interrupts_restore(flags);
	interrupt_set_handler(VECTOR_TEST, NULL);
	EXPECT_EQ(seen.interrupts, 1);
	EXPECT(seen.in_service != 0);
	EXPECT_EQ(seen.after, seen.in_service);
	EXPECT_EQ(seen.flags_after, seen.flags);
}

#define NOBODYS	   0xf0
#define LONG_AFTER 1000000 /* microseconds */

static uint64_t arrived(void)
{
	unsigned newest;

	return interrupt_unknown_count(&newest);
}

/* A second one of the same vector arrives only if the first was ended. */
TEST(robust_unknown_interrupt, .group = "Z", .ids = "", .needs = 0,
     .claim = "an interrupt that has no handler is ended and counted, and the kernel goes on",
     .source = "SDM Vol 3, 10.8.4")
{
	uint64_t before = arrived();
	unsigned newest = 0;

	test_pin();
	for (unsigned i = 1; i <= 3; i++) {
		uint64_t end = clock_us() + LONG_AFTER;

		lapic_self_ipi(NOBODYS);
		while (arrived() < before + i && clock_us() < end)
			__asm__ volatile("pause");
		REQUIRE_EQ(interrupt_unknown_count(&newest), before + i);
		EXPECT_EQ(newest, NOBODYS);
	}
	__asm__ volatile("int %0" : : "i"(NOBODYS));
	EXPECT_EQ(arrived(), before + 4);
	EXPECT(!lapic_in_service(NOBODYS));
	EXPECT(!lapic_requested());
}

/* Ring 3 reaches what a loader's LDT describes if LDTR is left as it was. */
TEST(robust_no_ldt, .group = "Z", .ids = "", .needs = 0,
     .claim = "LDTR is null on every CPU, whatever the loader left there",
     .source = "SDM Vol 3, 2.4.2")
{
	for (unsigned i = 0; i < cpu_count(); i++) {
		uint16_t selector = UINT16_MAX;

		test_go_to(i);
		__asm__ volatile("sldt %0" : "=m"(selector));
		EXPECT_EQ(selector, 0);
	}
}

static atomic_uint expiries;

static void expired(struct timer *timer)
{
	(void)timer;
	atomic_fetch_add(&expiries, 1);
}

/* The initial count of the local APIC when `first` was started, and when it was put off. */
static void put_off(struct timer *first, uint32_t *started, uint32_t *later)
{
	uint64_t flags;

	task_sleep(1); /* a new slice: its end is after `first` */
	flags = interrupts_save();
	timer_start(first, 20);
	*started = apic_read(APIC_TIMER_INITIAL);
	timer_start(first, 25);
	*later = apic_read(APIC_TIMER_INITIAL);
	interrupts_restore(flags);
}

/* A hypervisor intercepts a write of the register, and a tracer that steps switches tasks all the
   time. */
TEST(robust_timer_restarts, .group = "Z", .ids = "", .needs = 0,
     .claim = "a timer that is put off leaves the local APIC's timer alone and expires once; one "
	      "that is to expire sooner than another does",
     .source = "kernel/time.h")
{
	struct timer first = {.expired = expired}, late = {.expired = expired};

	test_pin();
	atomic_store(&expiries, 0);
	timer_start(&late, 100 * LONG_AFTER);
	for (unsigned i = 1; i <= 20; i++) {
		uint64_t end = clock_us() + 10 * LONG_AFTER;
		uint32_t started, later;

		put_off(&first, &started, &later);
		EXPECT_EQ(later, started);
		while (((volatile struct timer *)&first)->running && clock_us() < end)
			__asm__ volatile("pause");
		EXPECT_EQ(atomic_load(&expiries), i);
	}
	EXPECT(late.running);
	timer_stop(&late);
}
