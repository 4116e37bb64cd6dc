// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

#include "kernel/sched/sched.h"
#include "tests/framework/pages.h"

/* Stacks of tasks that ended are freed in their own time, by whichever CPU is idle. */
static void settle(void)
{
	uint64_t last = 0;

	for (unsigned same = 0; same < 3; same++) {
		task_sleep(10000);
		sched_reap();
		if (pages_left() != last)
			same = 0;
		last = pages_left();
	}
}

uint64_t programs_begin(void)
{
	process_kill_all();
	settle();
	return pages_left();
}

void programs_end(uint64_t pages_before)
{
	process_kill_all();
	EXPECT_EQ(pages_missing(pages_before), 0);
}

struct process *program_start(const char *name, uint64_t argument)
{
	struct process *process = NULL;
	int error = process_spawn(name, argument, NULL, &process);

	if (error)
		test_error("program %s did not start: %d", name, error);
	return process;
}

int program_end(struct process *process)
{
	int status = process_await(process, false);

	process_put(process);
	return status;
}

int program_run(const char *name, uint64_t argument)
{
	return program_end(program_start(name, argument));
}

void program_expect(const char *name, uint64_t argument, bool privileged)
{
	uint64_t before = programs_begin();
	struct process *process = NULL;
	int error = privileged ? process_spawn_privileged(name, argument, &process)
			       : process_spawn(name, argument, NULL, &process);

	if (EXPECT_EQ(error, 0))
		EXPECT_EQ(program_end(process), WAIT_EXITED(0));
	programs_end(before);
}
