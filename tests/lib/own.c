// SPDX-License-Identifier: MIT
#include "tests/lib/own.h"

#include "kernel/cpu.h"
#include "tests/framework/test.h"
#include "tests/lib/sight.h"

#define MOST  8
#define WALKS 100

struct one {
	struct user_chain user;
	struct walker walker;
	struct sight sight;
};

static atomic_uint missing; /* that have not made their first walk */

/* From here on all walk at the same time. */
static void wait_for_others(struct walker *walker)
{
	if (walker->walked > 1)
		return;
	atomic_fetch_sub(&missing, 1);
	while (atomic_load(&missing))
		__asm__ volatile("pause");
}

static void prepare(struct one *one, unsigned cpu)
{
	const struct trace_options options = sight_options(TRACE_USER, WALKS);

	user_chain_open(&one->user, cpu);
	one->walker = (struct walker){.name = "own",
				      .chain = &chain_a,
				      .walks = WALKS,
				      .user = &one->user,
				      .between = wait_for_others};
	walkers_create(&one->walker, 1);
	task_set_affinity(one->walker.task, 1ul << cpu);
	sight_open_cpu(&one->sight, &one->walker, cpu, &options);
}

static void finish(struct one *one)
{
	walkers_join(&one->walker, 1);
	sight_read(&one->sight);
	sight_expect(&one->sight, WALKS);
	sight_close(&one->sight);
	walker_end(&one->walker);
	user_chain_close(&one->user);
}

void own_branches(uint64_t cpus)
{
	static struct one ones[MOST];
	unsigned count = 0;

	for (unsigned cpu = 0; cpu < cpu_count() && count < MOST; cpu++)
		if (cpus >> cpu & 1)
			prepare(&ones[count++], cpu);
	EXPECT(count > 1);
	atomic_store(&missing, count);
	for (unsigned i = 0; i < count; i++)
		task_start(ones[i].walker.task);
	for (unsigned i = 0; i < count; i++)
		finish(&ones[i]);
}
