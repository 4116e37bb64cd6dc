/* SPDX-License-Identifier: MIT */
/* Tests that run programs of ring 3. */
#pragma once

#include "kernel/process/process.h"
#include "tests/framework/test.h"

/* The pages there are before the first program, with nothing of an earlier test left. */
uint64_t programs_begin(void);

/* Kills what is left and expects every page of it back. */
void programs_end(uint64_t pages_before);

/* In a block: programs_begin(), with the pages in `name`, and at the block's end programs_end(). */
#define PROGRAMS(name) uint64_t name CLOSED_BY(programs_ended) = programs_begin()
void programs_ended(const uint64_t *pages_before);

/* Starts one. The test is an ERROR if that fails. The caller owes process_put(). */
struct process *program_start(const char *name, uint64_t argument);

/* Runs one to its end: its status as wait4() says it. */
int program_run(const char *name, uint64_t argument);

/*
 * Runs 40 programs that have half of the free memory in single pages, at most 900 each, and ends
 * them.
 */
void programs_use_pages(void);

/* Prints how the program `name` ended, "exited with N" or "ended by SIGSEGV"; `status` is that of
 * wait4(). */
void program_note_end(const char *name, int status);

/*
 * Runs one, with the right to kernel addresses if `privileged`, and expects it to find nothing
 * wrong (exit code 0) and to leave no page allocated.
 */
void program_expect(const char *name, uint64_t argument, bool privileged);

/* The whole body of a TEST(). */
#define BY_PROGRAM(name, argument, privileged)                                                     \
	{                                                                                          \
		program_expect(name, argument, privileged);                                        \
	}

/*
 * Waits until it is stopped (only if `stops`) or has ended: how it is, as wait4() says it. Kills it
 * when the test's time is up, which is a FAIL.
 */
int program_await(struct process *process, bool stops);

/* Waits, as above, until a started one has ended and forgets it: its status. */
int program_end(struct process *process);

/*
 * Runs one to its end, with the right to kernel addresses if `privileged`, and keeps the lines that
 * it writes: its status.
 */
int program_output_of(const char *name, uint64_t argument, bool privileged);

/*
 * A line of that run, after the line `after` of it (NULL: any line), that `pattern` with * and ?
 * matches; NULL if there is none.
 */
const char *program_output(const char *pattern, const char *after);

/*
 * Whether COM2 is there and neither the console nor the kernel's export has it, which `*is_taken`
 * says. programs_require_line() skips the test where not, programs_require_host() also where bytes
 * that leave by it would go to an unknown device.
 */
bool programs_have_line(bool *is_taken);
void programs_require_line(void);
void programs_require_host(void);
