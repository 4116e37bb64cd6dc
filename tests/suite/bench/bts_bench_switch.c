// SPDX-License-Identifier: MIT
#include "drivers/clock/tsc.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/trace/switch.h"
#include "kernel/trace/trace.h"
#include "tests/framework/test.h"
#include "tests/lib/instructions.h"
#include "tests/lib/spinner.h"
#include "tests/lib/statistics.h"

#define MOST 4 /* tracers */

/* What the scheduler does for tracing where a task leaves and where one comes: see sched.c. */
static void leave_and_come(void *argument)
{
	struct cpu *cpu = argument;

	if (cpu->ds.loaded)
		trace_depart(cpu);
	if (cpu->current->trace || cpu->ds.loaded)
		trace_arrive(cpu);
}

static void nothing(void *argument)
{
	(void)argument;
}

/* Of ring 3 alone the steps themselves leave no records that a switch in the linear shape moves. */
static uint64_t instructions_with(unsigned tracers, unsigned view)
{
	const struct trace_options options = {
		.view = view, .privileged = true, .overflow = TRACE_WRAP, .size = 4096};
	struct tracer *tracer[MOST];
	uint64_t steps;

	for (unsigned i = 0; i < tracers; i++)
		REQUIRE_EQ(trace_attach(current_task(), &options, &tracer[i]), 0);
	steps = instructions_of(leave_and_come, this_cpu()) - instructions_of(nothing, NULL);
	for (unsigned i = 0; i < tracers; i++)
		EXPECT(trace_detach(tracer[i]));
	return steps;
}

TEST(bts_bench_switch_instructions, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim =
	     "figures: instructions of tracing in a switch with no tracer, one in either shape, and four",
     .source = "docs/design.md#budgets")
{
	uint64_t none, one, linear, four;

	test_pin();
	none = instructions_with(0, TRACE_USER);
	one = instructions_with(1, TRACE_USER | TRACE_KERNEL); /* in the circular shape */
	linear = instructions_with(1, TRACE_USER);
	four = instructions_with(MOST, TRACE_USER);
	EXPECT(none < one && one < linear && linear < four);
	test_figure("switch_instructions_untraced", none, "instructions");
	test_figure("switch_instructions_one_tracer", one, "instructions");
	test_figure("switch_instructions_linear", linear, "instructions");
	test_figure("switch_instructions_four_tracers", four, "instructions");
}

#define TRIES 10

/* A host that is late with the timer lets the last slice fill the buffer with spins alone. */
static void measure_records(bool in_user, const char *departure_name, const char *switch_name)
{
	struct preemption preemptions[SPINNER_MOST];
	uint64_t departures[SPINNER_MOST], switches[SPINNER_MOST];
	size_t count = 0;

	for (unsigned tries = 0; !count && tries < TRIES; tries++)
		count = spinner_run(in_user, preemptions);
	REQUIRE(count > 0);
	for (size_t i = 0; i < count; i++) {
		departures[i] = preemptions[i].departure;
		switches[i] = preemptions[i].departure + preemptions[i].arrival;
	}
	test_figure(departure_name, distribution(departures, count).most, "records");
	test_figure(switch_name, distribution(switches, count).most, "records");
}

TEST(bts_bench_switch_records, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: the kernel's own records in a task's buffer when the timer preempts it",
     .source = "docs/design.md#budgets; docs/bts.md#costs: 245 and 328 records in Linux")
{
	measure_records(true, "departure_records", "switch_records");
	measure_records(false, "departure_records_kernel_task", "switch_records_kernel_task");
}

#define TURNS	     200
#define TURN_RECORDS (TURNS * 128) /* a ring's: room for those of interrupts too */

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
static uint64_t cycles_with(unsigned tracers, uint64_t *records)
{
	const struct trace_options options = {.view = TRACE_USER | TRACE_KERNEL,
					      .privileged = true,
					      .overflow = TRACE_STOP,
					      .size = TURN_RECORDS *
						      sizeof(struct ptrace_bts_record)};
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
	cycles = cycles_with(0, &none);
	test_figure("turn_untraced", cycles, "cycles");
	cycles = cycles_with(1, &records);
	test_figure("turn_one_tracer", cycles, "cycles");
	test_figure("turn_records_one_tracer", records, "records");
	cycles = cycles_with(MOST, &records_of_four);
	test_figure("turn_four_tracers", cycles, "cycles");
	test_figure("turn_records_four_tracers", records_of_four, "records");
	EXPECT(records > 0);
}
