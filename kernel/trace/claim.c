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
	uint64_t flags = spin_lock(&lock);
	bool refused = false;

	for (unsigned other = 0; other < TRACE_UNITS; other++)
		refused |= find_claim(other) && (excludes(unit, other) || excludes(other, unit));
	if (!refused) {
		*claim = (struct trace_claim){unit, current_task()->pid, claims};
		claims = claim;
	}
	spin_unlock(&lock, flags);
	return refused ? -EBUSY : 0;
}

void trace_unclaim(const struct trace_claim *claim)
{
	uint64_t flags = spin_lock(&lock);
	struct trace_claim **at = &claims;

	while (*at && *at != claim)
		at = &(*at)->next;
	if (*at)
		*at = claim->next;
	spin_unlock(&lock, flags);
}

int trace_holder(unsigned unit)
{
	uint64_t flags = spin_lock(&lock);
	const struct trace_claim *claim = find_claim(unit);
	int pid = claim ? (int)claim->pid : -ENXIO;

	spin_unlock(&lock, flags);
	return pid;
}
