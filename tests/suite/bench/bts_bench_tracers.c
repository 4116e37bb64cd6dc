// SPDX-License-Identifier: MIT
#include "drivers/clock/tsc.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/trace.h"
#include "tests/framework/test.h"

#define TURNS	200
#define MOST	4	      /* tracers */
#define RECORDS (TURNS * 128) /* a ring's: room for those of interrupts too */

static struct {
	atomic_bool over;
	uint64_t cycles;
} run;

static void answer(void *argument)
{
	(void)argument;
	while (!atomic_load(&run.over))
		task_yield();
}

static void take_turns(void *argument)
{
	uint64_t start = tsc_read();

	(void)argument;
	for (unsigned i = 0; i < TURNS; i++)
		task_yield();
	run.cycles = tsc_read() - start;
	atomic_store(&run.over, true);
}

static struct task *create(const char *name, void (*entry)(void *argument))
{
	struct task *task = task_create_stopped(name, entry, NULL);

	if (!task)
		test_error("no memory for a task");
	return task;
}

/* Cycles of a turn, a switch there and one back; and the records of one that each tracer gets. */
static uint64_t measure(unsigned tracers, uint64_t *records)
{
	const struct trace_options options = {.view = TRACE_USER | TRACE_KERNEL,
					      .privileged = true,
					      .overflow = TRACE_STOP,
					      .size = RECORDS * sizeof(struct ptrace_bts_record)};
	struct task *one = create("turns", take_turns), *other = create("answers", answer);
	struct tracer *tracer[MOST];

	atomic_store(&run.over, false);
	for (unsigned i = 0; i < tracers; i++)
		if (trace_attach(one, &options, &tracer[i]))
			test_error("the task cannot be traced");
	task_start(one);
	task_start(other);
	task_join(one);
	task_join(other);
	*records = tracers ? trace_available(tracer[0]) / TURNS : 0;
	for (unsigned i = 0; i < tracers; i++)
		EXPECT(trace_detach(tracer[i]));
	task_put(one);
	task_put(other);
	return run.cycles / TURNS;
}

TEST(bts_bench_tracers, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: a turn of two tasks, one of them with no tracer, one and four",
     .source = "docs/design.md#budgets")
{
	uint64_t none, records, records_of_four, cycles;

	test_pin();
	cycles = measure(0, &none);
	test_figure("turn_untraced", cycles, "cycles");
	cycles = measure(1, &records);
	test_figure("turn_one_tracer", cycles, "cycles");
	test_figure("turn_records_one_tracer", records, "records");
	cycles = measure(MOST, &records_of_four);
	test_figure("turn_four_tracers", cycles, "cycles");
	test_figure("turn_records_four_tracers", records_of_four, "records");
	EXPECT(records > 0);
}
