// SPDX-License-Identifier: MIT
#include "tests/lib/stage.h"

#include "kernel/sched/sched.h"

static atomic_ulong halted; /* after so many walks; 0: it runs */

void stage_halt(struct walker *walker)
{
	if (walker->walked % STAGE || walker->walked == walker->walks)
		return;
	atomic_store(&halted, walker->walked);
	while (atomic_load(&halted))
		task_yield();
}

struct walker stage_walker(struct user_chain *user, uint64_t walks)
{
	return (struct walker){.name = "watched",
			       .chain = &chain_a,
			       .walks = walks,
			       .user = user,
			       .between = stage_halt};
}

void stage_next(struct walker *walker, uint64_t walks)
{
	atomic_store(&halted, 0);
	if (!walker->task->switches)
		task_start(walker->task);
	while (atomic_load(&halted) != walks)
		task_yield();
}

void stage_last(struct walker *walker)
{
	atomic_store(&halted, 0);
	walkers_join(walker, 1);
}
