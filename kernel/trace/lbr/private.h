/* SPDX-License-Identifier: MIT */
/* Between the files of this folder. */
#ifndef SPOOR_KERNEL_TRACE_LBR_PRIVATE_H
#define SPOOR_KERNEL_TRACE_LBR_PRIVATE_H

#include "drivers/lbr/lbr.h"
#include "kernel/trace/context.h"
#include "kernel/trace/lbr/branch_stack.h"

struct stack_tracer {
	struct tracer base; /* its context's lock guards what follows */
	struct branch_stack_options options;
	unsigned count; /* of `branch`, the newest first */
	struct ptrace_lbr_branch branch[LBR_MOST];
	struct lbr_registers saved; /* of a call stack */
	/* Under the lock of all of them (tracer.c): */
	struct stack_tracer *next_known;
	unsigned pid, cpu; /* of what it traces; pid 0: the CPU */
};
_Static_assert(sizeof(struct stack_tracer) <= 4096, "one page");

static inline struct stack_tracer *stack_of(const struct tracer *tracer)
{
	return (struct stack_tracer *)(uintptr_t)tracer;
}

/* Of `task`, or of CPU `index`: charged, admitted, not attached. Errors as branch_stack_attach().
 */
int stack_create(const struct branch_stack_options *options, const struct task *task,
		 unsigned index, struct stack_tracer **tracer);

/* As the unit's row. */
bool stack_free(struct tracer *tracer);

#endif
