// SPDX-License-Identifier: MIT
#include "drivers/clock/tsc.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/trace/trace.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/chain.h"
#include "tests/lib/statistics.h"

#define RECORDS 16384
#define PAGES	(RECORDS * sizeof(struct ptrace_bts_record) / PAGE_SIZE)
#define RUNS	5

struct round {
	enum trace_overflow overflow;
	uint64_t recording, draining;
};

/* A task reads its own trace; its own calls are in it, but for the walk's branches they are few. */
static void record(void *argument)
{
	struct round *round = argument;
	struct ptrace_bts_record *records = test_area(PAGES);
	struct trace_options options = {.view = TRACE_USER | TRACE_KERNEL,
					.privileged = true,
					.overflow = round->overflow,
					.size = RECORDS * sizeof(*records)};
	struct tracer *tracer;
	uint64_t start;

	REQUIRE_EQ(trace_attach(current_task(), &options, &tracer), 0);
	start = tsc_read();
	chain_walk(&chain_a, 2 * RECORDS);
	round->recording = tsc_read() - start;
	options.paused = true;
	EXPECT_EQ(trace_change(tracer, &options), 0);
	start = tsc_read();
	EXPECT(trace_read(tracer, records, RECORDS) > RECORDS / 2);
	round->draining = tsc_read() - start;
	EXPECT(trace_detach(tracer));
}

static uint64_t copying(void)
{
	void *from = test_area(PAGES), *to = test_area(PAGES);
	uint64_t cycles[RUNS], start;

	for (unsigned i = 0; i < RUNS; i++) {
		start = tsc_read();
		memcpy(to, from, PAGES * PAGE_SIZE);
		cycles[i] = tsc_read() - start;
	}
	return distribution(cycles, RUNS).least;
}

static struct round least(enum trace_overflow overflow)
{
	struct round best = {.recording = UINT64_MAX, .draining = UINT64_MAX};

	for (unsigned i = 0; i < RUNS; i++) {
		struct round round = {.overflow = overflow};

		record(&round);
		if (round.recording < best.recording)
			best.recording = round.recording;
		if (round.draining < best.draining)
			best.draining = round.draining;
	}
	return best;
}

TEST(bts_bench_drain, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim =
	     "figures: reading a buffer over copying its bytes; what interrupts at thresholds cost",
     .source = "design 11")
{
	struct round circular = least(TRACE_WRAP);
	uint64_t linear = 0, copy = copying();
	struct trace_options other = {.overflow = TRACE_WRAP, .size = 4096};
	struct tracer *second;

	REQUIRE_EQ(trace_attach(current_task(), &other, &second), 0);
	linear = least(TRACE_WRAP).recording;
	EXPECT(trace_detach(second));
	test_figure("drain_over_memcpy", copy * 100 / circular.draining, "percent");
	test_figure("record_circular", circular.recording * 1000 / (2 * RECORDS),
		    "cycles_per_1000");
	test_figure("record_linear", linear * 1000 / (2 * RECORDS), "cycles_per_1000");
}
