/* SPDX-License-Identifier: MIT */
/* Between the files of this folder. */
#pragma once

#include "drivers/lbr/lbr.h"
#include "kernel/trace/context.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "kernel/trace/xsaves.h"

/* Component 15 alone, compacted: SDM Vol 1, 13.4. */
struct stack_state {
	struct xsaves_header header;
	uint64_t control, depth, last_event[3];
	uint64_t entry[LBR_MOST][3];
};
_Static_assert(sizeof(struct stack_state) == 576 + 808, "component 15");

struct stack_tracer {
	struct tracer base; /* its context's lock guards what follows */
	struct branch_stack_options options;
	unsigned count; /* of `branch`, the newest first */
	struct ptrace_lbr_branch branch[LBR_MOST];
	/* Of a call stack: in `state` if that has the component, else in `saved`. */
	struct lbr_registers saved;
	_Alignas(64) struct stack_state state;
};
_Static_assert(sizeof(struct stack_tracer) <= 4096, "one page");

static inline struct stack_tracer *stack_of(const struct tracer *tracer)
{
	return (struct stack_tracer *)(uintptr_t)tracer;
}

/* Charged, not attached. Errors as branch_stack_attach(). */
int stack_create(const struct branch_stack_options *options, bool of_task, struct tracer **tracer);

/* What a call stack's tracer has in the processor's stack, which is stopped. IF = 0. */
void stack_save(struct stack_tracer *tracer);
void stack_restore(struct stack_tracer *tracer);

/* This CPU can do so at once. Boot. */
void stack_state_init(void);

/* As the unit's row. */
size_t stack_read(struct tracer *tracer, void *branches, size_t most);
void stack_clear(struct tracer *tracer);
bool stack_agree(const struct tracer *tracer, const struct tracer *beside);
