// SPDX-License-Identifier: MIT
#include "drivers/clock/tsc.h"
#include "drivers/ds/configuration.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "kernel/trace/bts/bts.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/chain.h"
#include "tests/lib/statistics.h"

#define RECORDS 16384
#define BYTES	(RECORDS * sizeof(struct ptrace_bts_record))
#define RUNS	9

struct round {
	uint64_t recording, draining, copying; /* cycles */
};

/*
 * A task reads its own trace; its own calls are in it, but for the walk's branches they are few.
 * The bytes are copied right after, on a host that may be busier a moment later.
 */
static struct round run(struct ptrace_bts_record *records, struct ptrace_bts_record *copy)
{
	struct bts_options options = {.view = TRACE_USER | TRACE_KERNEL,
				      .privileged = true,
				      .overflow = TRACE_WRAP,
				      .size = BYTES};
	struct tracer *tracer;
	struct round round;
	uint64_t start;

	REQUIRE_EQ(bts_attach(current_task(), &options, &tracer), 0);
	start = tsc_read();
	chain_walk(&chain_a, 2 * RECORDS);
	round.recording = tsc_read() - start;
	options.paused = true;
	EXPECT_EQ(bts_change(tracer, &options), 0);
	start = tsc_read();
	EXPECT_EQ(bts_read(tracer, records, RECORDS), RECORDS);
	round.draining = tsc_read() - start;
	EXPECT(trace_detach(tracer));
	start = tsc_read();
	memcpy(copy, records, BYTES);
	round.copying = tsc_read() - start;
	return round;
}

static struct round median(void)
{
	struct ptrace_bts_record *records = test_area(BYTES / PAGE_SIZE);
	struct ptrace_bts_record *copy = test_area(BYTES / PAGE_SIZE);
	uint64_t recording[RUNS], draining[RUNS], copying[RUNS];

	for (unsigned i = 0; i < RUNS; i++) {
		struct round round = run(records, copy);

		recording[i] = round.recording;
		draining[i] = round.draining;
		copying[i] = round.copying;
	}
	return (struct round){distribution(recording, RUNS).median,
			      distribution(draining, RUNS).median,
			      distribution(copying, RUNS).median};
}

TEST(bts_bench_drain, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim =
	     "figures: reading a buffer over copying its bytes; what interrupts at thresholds cost",
     .source = "docs/design.md#budgets")
{
	struct round circular = median(), linear;
	struct bts_options other = {.overflow = TRACE_WRAP, .size = 4096};
	struct tracer *second;

	REQUIRE_EQ(bts_attach(current_task(), &other, &second), 0);
	linear = median();
	EXPECT(trace_detach(second));
	test_figure("drain_over_memcpy", circular.copying * 100 / circular.draining, "percent");
	test_figure("record_circular", circular.recording * 1000 / (2 * RECORDS),
		    "cycles_per_1000");
	test_figure("record_linear", linear.recording * 1000 / (2 * RECORDS), "cycles_per_1000");
}

#define SLICE_RECORDS 65536
#define SLICES	      8
#define MOST	      64
#define MOST_TIME     5000000 /* microseconds */

static void spin(void *argument)
{
	(void)argument;
	for (;;)
		__asm__ volatile("");
}

/* The records between the two stamps of each stay on the CPU. */
static size_t collect(const struct ptrace_bts_record *records, size_t count, uint64_t slices[MOST])
{
	size_t found = 0, first = count;

	for (size_t at = 0; at < count && found < MOST; at++) {
		if (records[at].qualifier == PTRACE_BTS_TASK_ARRIVES)
			first = at + 1;
		if (records[at].qualifier == PTRACE_BTS_TASK_DEPARTS && first < at)
			slices[found++] = at - first;
	}
	return found;
}

TEST(bts_bench_slice, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: what a task that branches all the time leaves in a slice of a millisecond",
     .source = "docs/bts.md#costs: more than 512 KiB in Linux")
{
	const struct bts_options options = {.view = TRACE_USER | TRACE_KERNEL,
					    .privileged = true,
					    .overflow = TRACE_STOP,
					    .stamps = true,
					    .size = SLICE_RECORDS *
						    sizeof(struct ptrace_bts_record)};
	struct ptrace_bts_record *records = test_area(options.size / PAGE_SIZE);
	uint64_t slices[MOST], end = time_now() + MOST_TIME, middle;
	struct tracer *tracer;
	struct task *task;
	size_t found;

	test_pin();
	task = task_create_stopped("slices", spin, NULL);
	if (!task || bts_attach(task, &options, &tracer))
		test_error("the task cannot be started and traced");
	task_start(task);
	while (task->switches < SLICES && time_now() < end)
		;
	task_kill(task);
	task_join(task);
	found = collect(records, bts_read(tracer, records, SLICE_RECORDS), slices);
	REQUIRE(found > 0);
	middle = distribution(slices, found).median;
	test_figure("slice_records", middle, "records");
	test_figure("slice_bytes", middle * ds_configuration->record_size, "bytes");
	EXPECT(trace_detach(tracer));
	task_put(task);
}
