// SPDX-License-Identifier: MIT
#include "drivers/clock/hpet.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/panic.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/watchdog.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

TEST(selftest_hang, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that hangs with interrupts on is ended by the timer: FAIL",
     .source = "docs/design.md#deadlines")
{
	for (;;)
		__asm__ volatile("pause");
}

TEST(selftest_hang_interrupts_off, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that hangs with interrupts off is ended by the watchdog's NMI: FAIL",
     .source = "docs/design.md#deadlines")
{
	__asm__ volatile("cli");
	for (;;)
		__asm__ volatile("pause");
}

TEST(selftest_hang_traced, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_BTS,
     .claim = "a traced test that hangs with interrupts off is ended by the watchdog's NMI: FAIL",
     .source = "docs/design.md#deadlines")
{
	struct bts_options options = walker_options(1024);
	struct tracer *tracer;

	options.overflow = TRACE_WRAP;
	EXPECT_EQ(bts_attach(current_task(), &options, &tracer), 0);
	__asm__ volatile("cli");
	for (;;)
		__asm__ volatile("pause");
}

TEST(selftest_panic_mid_line, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a panic in the middle of a line begins one of its own", .source = "docs/console.md")
{
	printk("# half a line, and then");
	panic("in the middle of a line");
}

/* In the midst of what the panic prints. */
#define SOON 300 /* microseconds */

TEST(selftest_panic_nmi, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "an NMI does not stop the CPU that panics", .source = "docs/console.md")
{
	watchdog_disarm();
	hpet_nmi_after(SOON);
	panic("an NMI is to come");
}

TEST(selftest_panic_traced, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_BTS,
     .claim = "a panic in a traced task prints registers, backtrace and the newest 32 branches",
     .source = "docs/design.md#last-branches-in-a-panic")
{
	struct bts_options options = walker_options(1024);
	struct tracer *tracer;

	options.overflow = TRACE_WRAP;
	EXPECT_EQ(bts_attach(current_task(), &options, &tracer), 0);
	interrupts_save(); /* as with a spinlock held: the end of one test is not enough */
	chain_walk(&chain_a, 40);
	__asm__ volatile("ud2");
}

TEST(selftest_triple_fault, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a processor that shuts down ends the run without a verdict: never a pass",
     .source = "SDM Vol 3, 6.15: double fault")
{
	static const struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) no_gates = {0, 0};

	__asm__ volatile("cli\n\tlidt %0\n\tud2" : : "m"(no_gates));
}
