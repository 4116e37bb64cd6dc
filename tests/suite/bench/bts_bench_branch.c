// SPDX-License-Identifier: MIT
#include "tests/lib/chain.h"
#include "tests/lib/rig.h"
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
