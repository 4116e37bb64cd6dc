// SPDX-License-Identifier: MIT
#include "tests/lib/said.h"

#include "lib/format.h"
#include "lib/string.h"
#include "tests/framework/select.h"

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

int said_run(const char *name, uint64_t argument, bool privileged)
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

const char *said(const char *pattern, const char *line)
{
	unsigned end = atomic_load(&count) < MOST_LINES ? atomic_load(&count) : MOST_LINES;

	for (unsigned at = 0; at < end; at++)
		if ((!line || lines[at] > line) && glob_match(pattern, strlen(pattern), lines[at]))
			return lines[at];
	return NULL;
}
