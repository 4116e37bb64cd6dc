// SPDX-License-Identifier: MIT
#include "tests/lib/chain.h"
#include "tests/lib/rig.h"
#include "tests/lib/statistics.h"
#include "tests/lib/stepper.h"

#define RUNS  5
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
