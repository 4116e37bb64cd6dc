// SPDX-License-Identifier: MIT
// Which units are in use, and by whom: some silicon has one of two record nothing while the other
// does.
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"

static struct spinlock lock;
static struct trace_claim *claims; /* newest first */

static bool excludes(unsigned unit, unsigned other)
{
	return trace_units[unit]->excludes && trace_units[unit]->excludes() >> other & 1;
}

/* NULL: nobody has it. Under the lock. */
static const struct trace_claim *find_claim(unsigned unit)
{
	const struct trace_claim *claim = claims;

	while (claim && claim->unit != unit)
		claim = claim->next;
	return claim;
}

int trace_claim(struct trace_claim *claim, unsigned unit)
{
	SPIN_GUARD(&lock);

	for (unsigned other = 0; other < TRACE_UNITS; other++)
		if (find_claim(other) && (excludes(unit, other) || excludes(other, unit)))
			return -EBUSY;
	*claim = (struct trace_claim){unit, current_task()->pid, claims};
	claims = claim;
	return 0;
}

void trace_unclaim(const struct trace_claim *claim)
{
	struct trace_claim **at = &claims;
	SPIN_GUARD(&lock);

	while (*at && *at != claim)
		at = &(*at)->next;
	if (*at)
		*at = claim->next;
}

int trace_holder(unsigned unit)
{
	SPIN_GUARD(&lock);
	const struct trace_claim *claim = find_claim(unit);

	return claim ? (int)claim->pid : -ENXIO;
}
