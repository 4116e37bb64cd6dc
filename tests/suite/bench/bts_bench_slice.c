// SPDX-License-Identifier: MIT
#include "drivers/ds/configuration.h"
#include "kernel/mm/page.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "kernel/trace/trace.h"
#include "tests/framework/test.h"
#include "tests/lib/statistics.h"

#define RECORDS	  65536
#define SLICES	  8
#define MOST	  64
#define MOST_TIME 5000000 /* microseconds */

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
	const struct trace_options options = {.view = TRACE_USER | TRACE_KERNEL,
					      .privileged = true,
					      .overflow = TRACE_STOP,
					      .stamps = true,
					      .size = RECORDS * sizeof(struct ptrace_bts_record)};
	struct ptrace_bts_record *records = test_area(options.size / PAGE_SIZE);
	uint64_t slices[MOST], end = time_now() + MOST_TIME, middle;
	struct tracer *tracer;
	struct task *task;
	size_t found;

	test_pin();
	task = task_create_stopped("slices", spin, NULL);
	if (!task || trace_attach(task, &options, &tracer))
		test_error("the task cannot be started and traced");
	task_start(task);
	while (task->switches < SLICES && time_now() < end)
		;
	task_kill(task);
	task_join(task);
	found = collect(records, trace_read(tracer, records, RECORDS), slices);
	REQUIRE(found > 0);
	middle = distribution(slices, found).median;
	test_figure("slice_records", middle, "records");
	test_figure("slice_bytes", middle * ds_configuration->record_size, "bytes");
	EXPECT(trace_detach(tracer));
	task_put(task);
}
