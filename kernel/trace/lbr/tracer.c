// SPDX-License-Identifier: MIT
// A tracer of the newest branches: what it asks for, and because of whom it is refused.
#include "kernel/trace/lbr/private.h"
#include "kernel/trace/memory.h"
#include "lib/string.h"

#define EVERYTHING (PTRACE_LBR_USER | PTRACE_LBR_KERNEL)
#define CALLS	   (PTRACE_LBR_CALL | PTRACE_LBR_CALL_INDIRECT | PTRACE_LBR_RETURN)

/* A call stack has kinds that no other tracer could be beside. */
bool stack_agree(const struct tracer *tracer, const struct tracer *beside)
{
	const struct branch_stack_options *one = &stack_of(tracer)->options;
	const struct branch_stack_options *other = &stack_of(beside)->options;

	return !((one->flags | other->flags) & PTRACE_LBR_CALL_STACK) && one->kinds == other->kinds;
}

const struct ptrace_lbr_branch *branch_stack_held(const struct tracer *tracer, unsigned *count)
{
	*count = stack_of(tracer)->count;
	return stack_of(tracer)->branch;
}

bool branch_stack_present(void)
{
	return lbr_caps()->depth;
}

/* Everything needs no filter; a call stack is of one task's ring 3. */
static bool is_supported(const struct branch_stack_options *options, bool of_task)
{
	const struct lbr_program program = {options->flags, options->kinds};
	bool alone = of_task && !(options->flags & PTRACE_LBR_KERNEL);

	return lbr_supports(&program) && (alone || !(options->flags & PTRACE_LBR_CALL_STACK)) &&
	       (lbr_caps()->freezes || !options->freezes);
}

/* Checks them, and decides what they leave open. */
static int settle_options(struct branch_stack_options *options, bool of_task)
{
	bool calls = options->flags & PTRACE_LBR_CALL_STACK;

	if (!branch_stack_present())
		return -ENODEV;
	if (options->flags & ~(uint64_t)PTRACE_LBR_SETTABLE || !options->entries ||
	    options->kinds & ~(unsigned)PTRACE_LBR_KINDS || (calls && options->kinds))
		return -EINVAL;
	if (!(options->flags & EVERYTHING))
		options->flags |= PTRACE_LBR_USER;
	if (!options->kinds)
		options->kinds = calls ? CALLS : PTRACE_LBR_KINDS;
	if (options->entries > lbr_caps()->depth)
		options->entries = lbr_caps()->depth;
	if (!is_supported(options, of_task))
		return -EOPNOTSUPP;
	return options->flags & PTRACE_LBR_KERNEL && !options->privileged ? -EPERM : 0;
}

int stack_create(const struct branch_stack_options *options, bool of_task, struct tracer **result)
{
	struct branch_stack_options settled = *options;
	struct trace_size size = {options->account, options->replaces, .pages = 1};
	int error = settle_options(&settled, of_task);

	if (error)
		return error;
	*result = trace_new_page(TRACE_LBR, &size);
	if (!*result)
		return -ENOMEM;
	stack_of(*result)->options = settled;
	return 0;
}

size_t stack_read(struct tracer *read, void *branches, size_t most)
{
	const struct stack_tracer *tracer = stack_of(read);

	if (most > tracer->options.entries)
		most = tracer->options.entries;
	if (most > tracer->count)
		most = tracer->count;
	if (branches)
		memcpy(branches, tracer->branch, most * sizeof(tracer->branch[0]));
	return most;
}

void stack_clear(struct tracer *cleared)
{
	struct stack_tracer *tracer = stack_of(cleared);

	tracer->count = 0;
	tracer->saved = (struct lbr_registers){.top = 0};
	tracer->state.header.xcomp_bv = 0;
}
