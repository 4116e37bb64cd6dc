// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "tests/framework/test.h"
#include "tests/lib/sight.h"

#define TASKS 4
#define WALKS 40

static struct user_chain users[TASKS];
static struct walker walkers[TASKS];
static struct sight sights[TASKS];
static unsigned disturbances;

static void move(struct walker *walker)
{
	unsigned at = (unsigned)(walker - walkers);

	walker->step = walker->step * 5 + at + 1;
	task_set_affinity(walker->task, 1ul << walker->step % cpu_count());
}

static void prepare(unsigned at)
{
	struct walker *walker = &walkers[at];
	/* Without the hardware's filter the kernel's records are in a circular buffer too. */
	bool few = at % 2 && ds_caps()->filters;
	struct trace_options options = sight_options(
		at % 2 ? TRACE_USER : TRACE_USER | TRACE_KERNEL, few ? WALKS : WALKS * 16);

	user_chain_open(&users[at], at);
	*walker = (struct walker){.name = "moves",
				  .chain = at < TASKS / 2 ? &chain_a : &chain_b,
				  .walks = WALKS,
				  .user = &users[at],
				  .between = move};
	walkers_create(walker, 1);
	options.overflow = at < TASKS / 2 ? TRACE_WRAP : TRACE_STOP;
	sight_open(&sights[at], walker, &options);
}

/* A tracer that never holds anybody for long, of a task or of a CPU, for a moment. */
static bool disturb(void)
{
	const struct walker *walker = &walkers[test_random() % TASKS];
	struct trace_options options = walker_options(2 + test_random() % 200);
	struct tracer *tracer = NULL;
	bool of_cpu = test_random() % 3 == 0;
	int error;

	options.overflow = test_random() % 2 ? TRACE_WRAP : TRACE_STOP;
	options.view = 1 + (unsigned)(test_random() % 3);
	options.stamps = test_random() % 2;
	error = of_cpu ? trace_attach_cpu((unsigned)test_random() % cpu_count(), &options, &tracer)
		       : trace_attach(walker->task, &options, &tracer);
	if (error)
		return error == -ESRCH && walker->task->trace_over;
	disturbances++;
	task_sleep(test_random() % 300);
	return trace_available(tracer) <= options.size / sizeof(struct ptrace_bts_record) &&
	       trace_detach(tracer);
}

static bool all_ended(void)
{
	for (unsigned i = 0; i < TASKS; i++)
		if (!walkers[i].task->ended)
			return false;
	return true;
}

TEST(bts_migration_disturbed, .group = "S", .ids = "S2 S3 S4", .needs = NEED_BTS,
     .claim = "tasks that move lose no branch while tracers of theirs and of CPUs come and go",
     .source = "docs/design.md#tracers")
{
	unsigned wrong = 0;

	disturbances = 0;
	for (unsigned i = 0; i < TASKS; i++)
		prepare(i);
	for (unsigned i = 0; i < TASKS; i++)
		task_start(walkers[i].task);
	while (!all_ended())
		wrong += !disturb();
	EXPECT_EQ(wrong, 0);
	EXPECT(disturbances > 0);
	for (unsigned i = 0; i < TASKS; i++) {
		walkers_join(&walkers[i], 1);
		sight_read(&sights[i]);
		sight_expect(&sights[i], WALKS);
		sight_close(&sights[i]);
		walker_end(&walkers[i]);
		user_chain_close(&users[i]);
	}
}
