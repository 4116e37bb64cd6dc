// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/apic/registers.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/time.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"

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
 * As the APIC delivers it: no bit of its own in the ISR. An EOI from its handler would end the
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

/* A second one of the same vector comes only if the first was ended. */
TEST(robust_unknown_interrupt, .group = "Z", .ids = "", .needs = 0,
     .claim = "an interrupt that has no handler is ended and counted, and the kernel goes on",
     .source = "SDM Vol 3, 10.8.4")
{
	uint64_t before = arrived();
	unsigned newest = 0;

	test_pin();
	for (unsigned i = 1; i <= 3; i++) {
		uint64_t end = time_now() + LONG_AFTER;

		lapic_self_ipi(NOBODYS);
		while (arrived() < before + i && time_now() < end)
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

		task_set_affinity(current_task(), 1ul << i);
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

/* What the local APIC counts from, when `first` was started, and when it was put off. */
static void put_off(struct timer *first, uint32_t *started, uint32_t *later)
{
	uint64_t flags;

	task_sleep(1); /* a new slice: its end comes after `first` */
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
		uint64_t end = time_now() + 10 * LONG_AFTER;
		uint32_t started, later;

		put_off(&first, &started, &later);
		EXPECT_EQ(later, started);
		while (((volatile struct timer *)&first)->running && time_now() < end)
			__asm__ volatile("pause");
		EXPECT_EQ(atomic_load(&expiries), i);
	}
	EXPECT(late.running);
	timer_stop(&late);
}
