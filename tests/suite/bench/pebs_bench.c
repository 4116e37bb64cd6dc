// SPDX-License-Identifier: MIT
#include "drivers/clock/tsc.h"
#include "drivers/msr.h"
#include "tests/lib/pebs_rig.h"

enum { ROUNDS = 2000, PERIOD = 9 };

static uint64_t loop_time(struct pebs *pebs, uint64_t counters)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < 20; i++) {
		uint64_t began;

		pebs_set(pebs, DS_PEBS_INDEX, pebs->base);
		began = tsc_read();
		SAMPLED(counters, "movl $2000, %%ebx\n1: decl %%ebx\n\tjnz 1b");
		if (tsc_read() - began < best)
			best = tsc_read() - began;
	}
	return best;
}

TEST(pebs_bench_sample, .group = "bench", .ids = "", .needs = NEED_PEBS,
     .claim = "cost of an instruction whose branch is counted, and of a sample",
     .source = "docs/design.md#interrupt-at-the-threshold")
{
	uint64_t plain, counted, sampled, samples;
	struct pebs pebs;

	if (!ds_caps()->pebs_format)
		test_skip("the buffer of format 0 is too small");
	pebs_open(&pebs, 256);
	plain = loop_time(&pebs, 0);
	pebs_count_plainly(&pebs);
	counted = loop_time(&pebs, 1);
	pebs_arm(&pebs, 0, PERIOD);
	sampled = loop_time(&pebs, 1);
	samples = ROUNDS / (PERIOD + 1);
	test_figure("instruction_uncounted", plain * 100 / (2 * ROUNDS), "cycles/100");
	test_figure("instruction_counted", counted / (2 * ROUNDS), "cycles");
	test_figure("pebs_sample", sampled > counted ? (sampled - counted) / samples : 0, "cycles");
	EXPECT(pebs_count(&pebs) > 0);
	pebs_close(&pebs);
}
