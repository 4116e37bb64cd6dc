// SPDX-License-Identifier: MIT
// Tracers that begin, are read, and say how they are.
#include "kernel/sched/task.h"
#include "kernel/trace/lbr/private.h"

int branch_stack_attach(struct task *task, unsigned cpu, const struct branch_stack_options *options,
			struct tracer **result)
{
	bool lent = !task && cpu < cpu_count() && ds_is_lent(&cpu_by_index(cpu)->trace->ds);
	struct tracer *tracer;
	int error = lent ? -EBUSY : stack_create(options, task, &tracer);

	if (!error)
		error = trace_link(task, cpu, tracer);
	if (!error)
		*result = tracer;
	return error;
}

struct reading {
	struct ptrace_lbr_branch *branches;
	unsigned count;
};

static void copy_branches(struct tracer *of, void *argument)
{
	struct reading *reading = argument;
	const struct stack_tracer *tracer = stack_of(of);

	if (reading->count > tracer->options.entries)
		reading->count = tracer->options.entries;
	if (reading->count > tracer->count)
		reading->count = tracer->count;
	for (unsigned i = 0; reading->branches && i < reading->count; i++)
		reading->branches[i] = tracer->branch[i];
}

unsigned branch_stack_read(struct tracer *tracer, struct ptrace_lbr_branch *branches, unsigned most)
{
	struct reading reading = {branches, most};

	trace_perform(tracer, copy_branches, &reading);
	return reading.count;
}

static void clear_branches(struct tracer *of, void *argument)
{
	struct stack_tracer *tracer = stack_of(of);

	(void)argument;
	tracer->count = 0;
	tracer->saved = (struct lbr_registers){.top = 0};
	tracer->state.header.xcomp_bv = 0;
}

void branch_stack_clear(struct tracer *tracer)
{
	trace_perform(tracer, clear_branches, NULL);
}

struct ptrace_lbr_config branch_stack_status(struct tracer *tracer)
{
	const struct branch_stack_options *options = tracer ? &stack_of(tracer)->options : NULL;
	struct ptrace_lbr_config status = {.depth = lbr_caps()->depth,
					   .format = lbr_caps()->format};

	if (!options)
		return status;
	status.entries = options->entries;
	status.branch_size = sizeof(struct ptrace_lbr_branch);
	status.flags = options->flags;
	status.kinds = options->flags & PTRACE_LBR_CALL_STACK ? 0 : options->kinds;
	status.available = branch_stack_read(tracer, NULL, LBR_MOST);
	return status;
}
