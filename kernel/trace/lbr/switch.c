// SPDX-License-Identifier: MIT
// Where the LBR stack records, and which branches each tracer takes over from it.
#include "drivers/apic/lapic.h"
#include "kernel/console.h"
#include "kernel/sched/task.h"
#include "kernel/trace/lbr/private.h"
#include "kernel/trace/memory.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"

/* IA32_PERF_GLOBAL_STATUS.LBR_Frz: SDM Vol 3, 17.4.7. */
#define LBR_FROZEN (1ull << 58)

/* A CPU's state for it. Only that CPU uses it, with IF = 0, until it has stopped. */
struct stack_cpu {
	struct lbr_program program;
	unsigned depth; /* of the processor's stack meanwhile */
	bool records;	/* a tracer's program is loaded */
	bool frozen;	/* by a PMI, until the branches have been taken over */
	unsigned kept;	/* of `newest` */
	struct trace_branch newest[LBR_MOST];
};
_Static_assert(sizeof(struct stack_cpu) <= TRACE_UNIT_BYTES, "struct trace_cpu");

static struct stack_cpu *stack_cpu(const struct cpu *cpu)
{
	return (struct stack_cpu *)cpu->trace->unit[TRACE_LBR];
}

static struct stack_tracer *next_tracer(const struct cpu *cpu, const struct stack_tracer *at)
{
	return stack_of(trace_next(cpu, TRACE_LBR, at ? &at->base : NULL));
}

/* Since the arrival, newest first. */
struct found {
	struct ptrace_lbr_branch branch[LBR_MOST];
	unsigned count;
	unsigned jump; /* to the address in the kernel's half where ring 3 faults; none: LBR_MOST */
};

static unsigned find_jump(const struct found *found, uint64_t fault)
{
	for (unsigned i = 0; fault && i < found->count; i++)
		if (found->branch[i].to == fault)
			return found->branch[i].from >> 63 ? LBR_MOST : i;
	return LBR_MOST;
}

/* Both ends: a transition has one in each half, or its source is not known. */
static bool is_in_view(const struct stack_tracer *tracer, const struct found *found, unsigned i)
{
	const struct ptrace_lbr_branch *branch = &found->branch[i];
	uint64_t ends = (branch->from >> 63 ? PTRACE_LBR_KERNEL : PTRACE_LBR_USER) |
			(branch->to >> 63 ? PTRACE_LBR_KERNEL : PTRACE_LBR_USER);

	if (branch->from == LBR_FROM_UNKNOWN)
		return false;
	return !(ends & ~tracer->options.flags) ||
	       (i == found->jump && tracer->options.flags & PTRACE_LBR_USER);
}

/*
 * Where the branches that were found fill the stack others were lost between them and the older
 * ones, which the tracer then drops: what it has follows each other without a hole. A call stack is
 * whole each time.
 */
static void take_branches(struct stack_tracer *tracer, const struct found *found, unsigned depth)
{
	unsigned count = found->count;
	bool whole = tracer->options.flags & PTRACE_LBR_CALL_STACK || count == depth;
	unsigned fresh = 0, kept = whole ? 0 : tracer->count;
	struct ptrace_lbr_branch *branch = tracer->branch;

	for (unsigned i = 0; i < count; i++)
		fresh += is_in_view(tracer, found, i);
	if (kept > lbr_caps()->depth - fresh)
		kept = lbr_caps()->depth - fresh;
	memmove(branch + fresh, branch, kept * sizeof(*branch));
	tracer->count = fresh + kept;
	for (unsigned i = 0; i < count; i++)
		if (is_in_view(tracer, found, i))
			*branch++ = found->branch[i];
}

static void stop(struct cpu *cpu)
{
	lbr_stop(&cpu->debugctl); /* nothing, where it is stopped */
}

static bool is_to_freeze(const struct stack_cpu *here)
{
	return here->records && lbr_wants_freeze(&here->program);
}

/* Whether a PMI froze it, by the bit of version 4. Left set, that would freeze the next program. */
static bool take_freeze(const struct stack_cpu *here)
{
	return is_to_freeze(here) && pmu_caps()->version >= 4 && pmu_take_overflows(LBR_FROZEN);
}

void branch_stack_depart(struct cpu *cpu)
{
	struct stack_cpu *here = stack_cpu(cpu);
	struct found found;

	if (!here->records)
		return;
	take_freeze(here);
	here->records = here->frozen = false;
	found.count = lbr_read(here->depth, found.branch);
	found.jump = find_jump(&found, cpu->trace->fault);
	for (unsigned i = 0; i < found.count; i++)
		found.branch[i].pid_cpu = cpu->current->pid | (uint64_t)cpu->index << 32;
	for (struct stack_tracer *at = next_tracer(cpu, NULL); at; at = next_tracer(cpu, at)) {
		take_branches(at, &found, here->depth);
		if (here->program.flags & PTRACE_LBR_CALL_STACK)
			stack_save(at);
	}
}

/*
 * The union of what the tracers want; that of a call stack is alone. Where the depth is to be
 * chosen there is room for twice as many entries as are wanted: each way to ring 3 takes one.
 */
static void arrive(struct cpu *cpu)
{
	struct stack_cpu *here = stack_cpu(cpu);
	struct stack_tracer *first = next_tracer(cpu, NULL);
	struct lbr_program *program = &here->program;
	unsigned entries = 0;

	*program = (struct lbr_program){0};
	if (!first) {
		lbr_unfilter();
		return;
	}
	for (struct stack_tracer *at = first; at; at = next_tracer(cpu, at)) {
		program->flags |= at->options.flags | (at->options.freezes ? LBR_FREEZES : 0);
		program->kinds |= at->options.kinds;
		entries = at->options.entries > entries ? at->options.entries : entries;
	}
	if (program->flags & PTRACE_LBR_CALL_STACK) {
		here->depth = lbr_caps()->depth;
		stack_restore(first);
	} else {
		here->depth = lbr_depth_for(2 * entries);
		lbr_clear(here->depth);
	}
	lbr_start(&cpu->debugctl, program);
	here->records = true;
}

/* Others need none: the filter leaves out what is to be left out. */
static uint64_t pause_stack(void)
{
	struct cpu *cpu = this_cpu();
	struct stack_cpu *here = stack_cpu(cpu);

	if (!is_to_freeze(here) || !lbr_runs(&cpu->debugctl))
		return 0;
	here->frozen |= lbr_is_frozen();
	lbr_stop(&cpu->debugctl);
	return 1;
}

static void resume_stack(uint64_t paused)
{
	struct cpu *cpu = this_cpu();

	if (paused && !stack_cpu(cpu)->frozen)
		lbr_start(&cpu->debugctl, &stack_cpu(cpu)->program);
}

/* In memory, for a panic of another CPU. Those of a call stack do not follow each other. */
static void keep_newest(struct cpu *cpu)
{
	struct stack_cpu *here = stack_cpu(cpu);
	struct ptrace_lbr_branch found[LBR_MOST];

	here->kept = 0;
	if (here->records && !(here->program.flags & PTRACE_LBR_CALL_STACK))
		here->kept = lbr_read(here->depth, found);
	for (unsigned i = 0; i < here->kept; i++)
		here->newest[i] = (struct trace_branch){found[i].from, found[i].to};
}

static bool get_newest(struct cpu *cpu, size_t n, struct trace_branch *branch)
{
	if (cpu == this_cpu())
		keep_newest(cpu);
	*branch = stack_cpu(cpu)->newest[n % LBR_MOST];
	return n < stack_cpu(cpu)->kept;
}

/*
 * No reason to interrupt: the PMI is another unit's. A stack that it froze rests until the work
 * after the PMI has taken the branches over.
 */
static bool interrupt(struct cpu *cpu)
{
	struct stack_cpu *here = stack_cpu(cpu);

	if (take_freeze(here))
		here->frozen = true;
	if (here->frozen)
		lapic_self_ipi(VECTOR_TRACE_WORK);
	return false;
}

/* Its state is zero; firmware may have left the processor's on. */
static void init_cpu(struct cpu *cpu)
{
	(void)cpu;
	lbr_init_cpu();
	stack_state_init();
}

static void print_unit(void)
{
	if (branch_stack_present())
		printk("# lbr=present format=%u entries=%u select=%lx\n", lbr_caps()->format,
		       lbr_caps()->depth, lbr_caps()->select);
}

/* BTS, as on Core 2 (17.4.8); Intel PT, where it suspends both (SDM Vol 3, 36.3.1.2). */
static unsigned excludes(void)
{
	return (ds_caps()->excludes_lbr ? 1u << TRACE_BTS : 0u) |
	       (ds_caps()->suspended_by_pt ? 1u << TRACE_PT : 0u);
}

const struct trace_unit lbr_unit = {
	.name = "lbr",
	.is_present = branch_stack_present,
	.init = lbr_init,
	.init_cpu = init_cpu,
	.print = print_unit,
	.pause = pause_stack,
	.resume = resume_stack,
	.end = stop,
	.newest = get_newest,
	.keep = keep_newest,
	.interrupt = interrupt,
	.stop = stop,
	.depart = branch_stack_depart,
	.arrive = arrive,
	.excludes = excludes,
	.agree = stack_agree,
	.clear = stack_clear,
	.read = stack_read,
	.free = trace_free_page,
	.requests = &ptrace_lbr_unit,
};
