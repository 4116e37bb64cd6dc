// SPDX-License-Identifier: MIT
#include "kernel/trap/extable.h"
#include "tests/framework/test.h"
#include "tests/lib/chain.h"
#include "tests/lib/exact.h"
#include "tests/lib/rig.h"
#include "tests/lib/skid.h"
#include "tests/lib/statistics.h"
#include "tests/lib/stepper.h"

#define RUNS 5

static uint64_t median_cycles(uint64_t debugctl, uint64_t n)
{
	uint64_t cycles[RUNS];

	for (unsigned run = 0; run < RUNS; run++)
		loop_recorded(debugctl, n, &cycles[run]);
	return distribution(cycles, RUNS).median;
}

TEST(bts_bench_branch, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: cycles of a loop of five instructions, one branch, untraced and traced",
     .source = "docs/bts.md#costs")
{
	uint64_t n = test_scaled(10000);
	struct rig rig;

	rig_open(&rig, 1024);
	test_figure("branch_untraced", median_cycles(0, n) * 1000 / n, "cycles_per_1000");
	test_figure("branch_traced", median_cycles(rig_all(), n) * 1000 / n, "cycles_per_1000");
	rig_close(&rig);
}

#define SLOTS 1024

static void check_stepped(const struct stepped_branch *ring, uint64_t stored, uint64_t n)
{
	const struct stepped_branch *second = &ring[1];

	EXPECT_EQ(stored, n + 1); /* call, n - 1 times back, return */
	EXPECT_EQ(second->from, (uint64_t)loop_branch);
	EXPECT_EQ(second->to, (uint64_t)loop_start);
}

TEST(bts_bench_single_step, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim =
	     "figure: branches per second of BTS over those of a tracer by single steps, in percent",
     .source = "docs/design.md#budgets")
{
	struct stepped_branch *ring = test_area(SLOTS * sizeof(*ring) / 4096);
	uint64_t n = test_scaled(10000), by_bts[RUNS], by_steps[RUNS];
	struct rig rig;

	rig_open(&rig, SLOTS);
	loop_stepped(ring, SLOTS, 8, &by_steps[0]);
	check_stepped(ring, 9, 8);
	for (unsigned run = 0; run < RUNS; run++) {
		EXPECT_EQ(loop_stepped(ring, SLOTS, n, &by_steps[run]), n + 1);
		loop_recorded(rig_all(), n, &by_bts[run]);
	}
	rig_expect(&rig, 500, loop_branch, loop_start, "the loop's branch");
	test_figure("bts_over_single_step",
		    distribution(by_steps, RUNS).median * 100 / distribution(by_bts, RUNS).median,
		    "percent");
	test_figure("single_step_branch", distribution(by_steps, RUNS).median / n, "cycles");
	rig_close(&rig);
}

TEST(bts_bench_fault_records, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figure: records from a fault in the kernel to the instruction it goes on at",
     .source = "docs/bts.md#costs: 400 records on the path of SIGSEGV in 2008")
{
	struct rig rig;

	rig_open(&rig, 1024);
	EXACTLY (&rig)
		TRACED(rig_all(), "1:\tud2\n2:\tnop\n\t" EXCEPTION_TABLE("1b", "2b"));
	EXPECT(rig_count(&rig) >= 2);
	test_figure("fault_records", rig_count(&rig), "records");
	rig_close(&rig);
}

TEST(bts_bench_skid, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: records between the threshold and its interrupt, and its handler",
     .source = "docs/bts.md#costs")
{
	size_t runs = test_scaled(200);
	struct skid skid;

	skid_measure(&skid, runs < SKID_MOST ? runs : SKID_MOST);
	EXPECT_EQ(skid.missing + skid.early, 0);
	test_figure("skid_interrupt_least", skid.recorded.least, "records");
	test_figure("skid_interrupt_median", skid.recorded.median, "records");
	test_figure("skid_interrupt_most", skid.recorded.most, "records");
	test_figure("skid_handler_least", skid.read.least, "records");
	test_figure("skid_handler_median", skid.read.median, "records");
	test_figure("skid_handler_most", skid.read.most, "records");
}
