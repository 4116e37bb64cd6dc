// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"
#include "kernel/sched/sched.h"
#include "lib/format.h"
#include "lib/string.h"
#include "tests/framework/pages.h"
#include "tests/framework/select.h"

/*
 * Stacks of tasks that ended are freed in their own time, by whichever CPU is idle. Each test
 * before waited for its own (check_left_behind()): this is for one that failed there.
 */
static void settle(void)
{
	uint64_t last = 0;

	for (unsigned same = 0; same < 3; same++) {
		task_sleep(1000);
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

#define MOST_LINES 40

static char lines[MOST_LINES][100];
static atomic_uint count;

/* On the CPU of the process. */
static void listen(const struct process *process, const char *line)
{
	unsigned at = atomic_fetch_add(&count, 1);

	(void)process;
	if (at < MOST_LINES)
		format(lines[at], sizeof(lines[at]), "%s", line);
}

int program_output_of(const char *name, uint64_t argument, bool privileged)
{
	struct process *process = NULL;
	int status;

	atomic_store(&count, 0);
	process_said = listen;
	if (privileged)
		REQUIRE_EQ(process_spawn_privileged(name, argument, &process), 0);
	else
		process = program_start(name, argument);
	status = program_end(process);
	process_said = NULL;
	return status;
}

const char *program_output(const char *pattern, const char *after)
{
	unsigned end = atomic_load(&count) < MOST_LINES ? atomic_load(&count) : MOST_LINES;

	for (unsigned at = 0; at < end; at++)
		if ((!after || lines[at] > after) &&
		    glob_match(pattern, strlen(pattern), lines[at]))
			return lines[at];
	return NULL;
}
