// SPDX-License-Identifier: MIT
// Tracers that begin, are read, and say how they are.
#include "kernel/sched/task.h"
#include "kernel/trace/lbr/private.h"

int branch_stack_attach(struct task *task, unsigned cpu, const struct branch_stack_options *options,
			struct tracer **result)
{
	bool lent = !task && cpu < cpu_count() && ds_is_lent(&cpu_by_index(cpu)->trace->ds);
	struct stack_tracer *tracer;
	int error = lent ? -EBUSY : stack_create(options, task, cpu, &tracer);

	if (!error)
		error = trace_link(task, cpu, &tracer->base);
	if (!error)
		*result = &tracer->base;
	return error;
}

struct reading {
	const struct stack_tracer *tracer;
	struct ptrace_lbr_branch *branches;
	unsigned count;
};

static void copy_branches(void *argument)
{
	struct reading *reading = argument;

	if (reading->count > reading->tracer->options.entries)
		reading->count = reading->tracer->options.entries;
	if (reading->count > reading->tracer->count)
		reading->count = reading->tracer->count;
	for (unsigned i = 0; reading->branches && i < reading->count; i++)
		reading->branches[i] = reading->tracer->branch[i];
}

unsigned branch_stack_read(struct tracer *tracer, struct ptrace_lbr_branch *branches, unsigned most)
{
	struct reading reading = {stack_of(tracer), branches, most};

	trace_perform(tracer->context, copy_branches, &reading);
	return reading.count;
}

static void clear_branches(void *argument)
{
	struct stack_tracer *tracer = argument;

	tracer->count = 0;
	tracer->saved = (struct lbr_registers){.top = 0};
	tracer->state.header.xcomp_bv = 0;
}

void branch_stack_clear(struct tracer *tracer)
{
	trace_perform(tracer->context, clear_branches, stack_of(tracer));
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
