// SPDX-License-Identifier: MIT
// A tracer of the newest branches: what it asks for, and because of whom it is refused.
#include "kernel/mm/vm.h"
#include "kernel/sched/task.h"
#include "kernel/trace/lbr/private.h"
#include "kernel/trace/memory.h"

#define EVERYTHING (PTRACE_LBR_USER | PTRACE_LBR_KERNEL)
#define CALLS	   (PTRACE_LBR_CALL | PTRACE_LBR_CALL_INDIRECT | PTRACE_LBR_RETURN)

static struct spinlock lock;
static struct stack_tracer *known; /* all that there are */

static bool may_run_together(const struct stack_tracer *one, const struct stack_tracer *other)
{
	if (one->pid && other->pid)
		return one->pid == other->pid;
	return one->pid || other->pid || one->cpu == other->cpu;
}

/* A call stack has kinds that no other tracer could be beside. */
static bool agree(const struct branch_stack_options *one, const struct branch_stack_options *other)
{
	return !((one->flags | other->flags) & PTRACE_LBR_CALL_STACK) && one->kinds == other->kinds;
}

/* -EBUSY: another is in the way. */
static int admit_tracer(struct stack_tracer *tracer, const struct tracer *replaced)
{
	SPIN_GUARD(&lock);

	for (const struct stack_tracer *at = known; at; at = at->next_known)
		if (&at->base != replaced && may_run_together(tracer, at) &&
		    !agree(&tracer->options, &at->options))
			return -EBUSY;
	tracer->next_known = known;
	known = tracer;
	return 0;
}

static void forget_tracer(const struct stack_tracer *tracer)
{
	SPIN_GUARD(&lock);

	LIST_REMOVE(known, tracer, next_known);
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

bool stack_free(struct tracer *freed)
{
	struct stack_tracer *tracer = stack_of(freed);

	forget_tracer(tracer);
	account_uncharge(tracer->options.account, PAGE_SIZE);
	area_free(tracer, 1);
	return true;
}

int stack_create(const struct branch_stack_options *options, const struct task *task,
		 unsigned index, struct stack_tracer **result)
{
	struct branch_stack_options settled = *options;
	size_t spared = options->replaces ? PAGE_SIZE : 0, charged = 0;
	struct stack_tracer *tracer = NULL;
	int error = settle_options(&settled, task);

	if (!error)
		charged = account_charge(settled.account, PAGE_SIZE, PAGE_SIZE, spared);
	if (charged)
		tracer = area_alloc(1, VM_WRITE);
	if (!tracer) {
		account_uncharge(settled.account, charged);
		return error ? error : -ENOMEM;
	}
	tracer->base.unit = TRACE_LBR;
	tracer->options = settled;
	tracer->pid = task ? task->pid : 0;
	tracer->cpu = index;
	error = admit_tracer(tracer, options->replaces);
	if (error)
		stack_free(&tracer->base);
	*result = tracer;
	return error;
}
