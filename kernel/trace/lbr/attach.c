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
	status.available = (uint32_t)trace_read(tracer, NULL, LBR_MOST);
	return status;
}
