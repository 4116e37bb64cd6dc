/* SPDX-License-Identifier: MIT */
/*
 * The newest branches by the LBR stack: the interface of the readers, with what trace.h says of all
 * tracers. A tracer has a stack in memory, as deep as the processor's. While its task (or anything
 * on its CPU) runs the processor's stack records. Where recording stops the kernel takes the new
 * branches over, each tracer those of its view.
 *
 * The processor has one stack and one filter of kinds. Tracers that may run together have to ask
 * for the same kinds. A tracer of the call stack has to be alone.
 */
#pragma once

#include "abi/ptrace_lbr.h"
#include "kernel/trace/trace.h"

struct cpu;
struct task;

extern const struct ptrace_unit ptrace_lbr_unit;

struct branch_stack_options {
	uint64_t flags;	  /* PTRACE_LBR_...; without a view: PTRACE_LBR_USER */
	unsigned kinds;	  /* PTRACE_LBR_CONDITIONAL and so on; 0: every kind; of a call stack: 0 */
	unsigned entries; /* at most, 1 at the least; more than there are: those */
	bool privileged;  /* may see kernel addresses; PTRACE_LBR_KERNEL needs it */
	bool freezes;	  /* until its CPU rests, by each performance-monitoring interrupt */
	struct trace_account *account; /* NULL: the kernel's own, not charged */
	struct tracer *replaces;       /* one that will be detached: it does not count */
};

/*
 * Attaches a tracer to `task` (of which the caller holds a reference, or is it), or if that is NULL
 * to what runs on CPU `cpu`, and starts to record. -ENODEV: no LBR stack; -EINVAL: a value out of
 * range, no such CPU, or kinds of a call stack;
 * -EOPNOTSUPP: the processor has no MSR_LBR_SELECT, and not everything is wanted, or it has no call
 * stacks, or one of a CPU or of the kernel is wanted, or it cannot freeze, where that is wanted;
 * -EPERM: kernel addresses without the right to them; -ENOMEM: no memory, or over the account's
 * limit; -ESRCH: it has ended; -EBUSY: a tracer that may run together with it wants other kinds, or
 * a call stack is wanted and it is not alone, or a unit is in use that excludes this one, or the
 * CPU's MSRs are lent. A failure leaves nothing.
 */
int branch_stack_attach(struct task *task, unsigned cpu, const struct branch_stack_options *options,
			struct tracer **tracer);

/*
 * For a unit that departs before this one: this CPU's tracers take over now what the stack has.
 * Then a tracer's branches, newest first, `count` of them; the next departure changes them. IF = 0,
 * after all units have stopped.
 */
void branch_stack_depart(struct cpu *cpu);
const struct ptrace_lbr_branch *branch_stack_held(const struct tracer *tracer, unsigned *count);

/* As PTRACE_LBR_STATUS says it. NULL: what the processor has, alone. */
struct ptrace_lbr_config branch_stack_status(struct tracer *tracer);

/* True if the processor has an LBR stack that the kernel knows. After boot, any context. */
bool branch_stack_present(void);
