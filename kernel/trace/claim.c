// SPDX-License-Identifier: MIT
// Which units are in use, of what and by whom: some silicon has one of two record nothing while the
// other does.
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"

static struct spinlock lock;
static struct trace_claim *claims; /* newest first */

static bool excludes(const struct trace_claim *one, const struct trace_claim *other)
{
	const struct trace_unit *unit = trace_units[one->unit];

	return unit->excludes && unit->excludes() >> other->unit & 1;
}

/* Both would record at a time: no CPU runs two tasks. */
static bool can_meet(const struct trace_claim *one, const struct trace_claim *other)
{
	const struct trace_claim *of_task = one->traced ? one : other;

	return one->traced == other->traced ||
	       (!(one->traced && other->traced) && !trace_units[of_task->unit]->gives_way);
}

/* Two tracers of a unit that asks: of one task, of one CPU, or of a task and a CPU. */
static bool disagree(const struct trace_claim *one, const struct trace_claim *other)
{
	const struct trace_unit *unit = trace_units[one->unit];

	return unit->agree && one->unit == other->unit && other->tracer != one->tracer->replaces &&
	       (one->traced || other->traced || one->cpu == other->cpu) &&
	       !unit->agree(one->tracer, other->tracer);
}

int trace_claim(struct trace_claim *claim)
{
	SPIN_GUARD(&lock);

	claim->pid = current_task()->pid;
	for (const struct trace_claim *at = claims; at; at = at->next)
		if (can_meet(claim, at) &&
		    (excludes(claim, at) || excludes(at, claim) || disagree(claim, at)))
			return -EBUSY;
	claim->next = claims;
	claims = claim;
	return 0;
}

void trace_unclaim(const struct trace_claim *claim)
{
	SPIN_GUARD(&lock);

	LIST_REMOVE(claims, claim, next);
}

int trace_holder(unsigned unit)
{
	const struct trace_claim *holder = NULL;
	SPIN_GUARD(&lock);

	for (const struct trace_claim *at = claims; at; at = at->next)
		if (at->unit == unit && (!holder || (holder->traced && !at->traced)))
			holder = at;
	return holder ? (int)holder->pid : -ENXIO;
}
