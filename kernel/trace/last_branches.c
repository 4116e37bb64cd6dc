// SPDX-License-Identifier: MIT
// "How did I get here": the founding use of BTS, and of the LBR stack where BTS is absent.
#include "kernel/console.h"
#include "kernel/end.h"
#include "kernel/symbols.h"
#include "kernel/trace/context.h"
#include "kernel/trace/freeze.h"
#include "kernel/trap/trap.h"

#define MOST 32

static void print_branch(const struct trace_branch *branch)
{
	char from[64], to[64];

	symbol_describe(branch->from, from, sizeof(from));
	symbol_describe(branch->to, to, sizeof(to));
	printk("#   %016lx -> %016lx  %s -> %s\n", branch->from, branch->to, from, to);
}

static bool get_newest(struct cpu *cpu, unsigned unit, size_t n, struct trace_branch *branch)
{
	return trace_units[unit]->newest && trace_units[unit]->newest(cpu, n, branch);
}

/* How many branches are newer than the one of the event; false: that is not among them. */
static bool find_event(struct cpu *cpu, unsigned unit, const struct trap_frame *frame,
		       size_t *newer)
{
	uint64_t entry = trap_entry((unsigned)frame->vector);
	struct trace_branch branch;

	for (*newer = 0; get_newest(cpu, unit, *newer, &branch); ++*newer)
		if (branch.to == entry)
			return true;
	*newer = 0;
	return false;
}

static void print_unit(struct cpu *cpu, unsigned unit, const struct trap_frame *frame)
{
	size_t newer = 0, n = 0;
	bool found = !frame || find_event(cpu, unit, frame, &newer);
	struct trace_branch branch;

	printk("# last branches of %s CPU by %s, newest first:\n",
	       cpu == this_cpu() ? "this" : "that", trace_units[unit]->name);
	for (; n < MOST && get_newest(cpu, unit, newer + n, &branch); n++)
		print_branch(&branch);
	if (!found)
		printk("# none of them is the branch of the event\n");
	else if (n < MOST)
		printk("# no older ones were kept; %zu newer ones led from the event to here\n",
		       newer);
}

static void print_branches(struct cpu *cpu, const struct trap_frame *frame)
{
	struct trace_branch branch;

	for (unsigned unit = 0; cpu->trace && unit < TRACE_UNITS; unit++) {
		if (get_newest(cpu, unit, 0, &branch))
			print_unit(cpu, unit, frame);
		if (trace_units[unit]->show)
			trace_units[unit]->show(cpu);
	}
}

/* The others stopped by NMI. */
void print_last_branches(const struct trap_frame *frame)
{
	const struct trap_frame nmi = {.vector = VECTOR_NMI};

	print_branches(this_cpu(), frame);
	for (unsigned i = 0; i < cpu_count(); i++)
		if (freeze_say(i) && i != this_cpu()->index)
			print_branches(cpu_by_index(i), &nmi);
}
