// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/task.h"
#include "kernel/trace/switch.h"
#include "kernel/trace/trace.h"
#include "tests/framework/test.h"
#include "tests/lib/instructions.h"

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
static uint64_t measure(unsigned tracers, unsigned view)
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
	none = measure(0, TRACE_USER);
	one = measure(1, TRACE_USER | TRACE_KERNEL); /* in the circular shape */
	linear = measure(1, TRACE_USER);
	four = measure(MOST, TRACE_USER);
	EXPECT(none < one && one < linear && linear < four);
	test_figure("switch_instructions_untraced", none, "instructions");
	test_figure("switch_instructions_one_tracer", one, "instructions");
	test_figure("switch_instructions_linear", linear, "instructions");
	test_figure("switch_instructions_four_tracers", four, "instructions");
}
