// SPDX-License-Identifier: MIT
// Tracers that begin, are read, and say how they are.
#include "kernel/sched/task.h"
#include "kernel/trace/lbr/private.h"

static int attach_tracer(struct task *task, unsigned index,
			 const struct branch_stack_options *options, struct tracer **result)
{
	struct stack_tracer *tracer;
	int error = stack_create(options, task, index, &tracer);

	if (!error)
		error = trace_link(task, index, &tracer->base);
	if (!error)
		*result = &tracer->base;
	return error;
}

int branch_stack_attach(struct task *task, const struct branch_stack_options *options,
			struct tracer **tracer)
{
	return attach_tracer(task, 0, options, tracer);
}

int branch_stack_attach_cpu(unsigned index, const struct branch_stack_options *options,
			    struct tracer **tracer)
{
	if (index < cpu_count() && ds_is_lent(&cpu_by_index(index)->trace->ds))
		return -EBUSY;
	return attach_tracer(NULL, index, options, tracer);
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
