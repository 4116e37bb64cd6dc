// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"
#include "drivers/console/console.h"
#include "kernel/console.h"
#include "kernel/mm/page.h"
#include "kernel/options.h"
#include "kernel/sched/sched.h"
#include "kernel/silicon.h"
#include "kernel/time.h"
#include "lib/format.h"
#include "lib/io.h"
#include "lib/string.h"
#include "tests/framework/pages.h"
#include "tests/framework/select.h"

uint64_t programs_begin(void)
{
	process_kill_all();
	pages_settle();
	return pages_left();
}

void programs_end(uint64_t pages_before)
{
	process_kill_all();
	EXPECT_EQ(pages_missing(pages_before), 0);
}

void programs_ended(const uint64_t *pages_before)
{
	programs_end(*pages_before);
}

struct process *program_start(const char *name, uint64_t argument)
{
	struct process *process = NULL;
	int error = process_spawn(name, argument, false, &process);

	if (error)
		test_error("program %s did not start: %d", name, error);
	return process;
}

#define USERS	   40
#define USERS_MOST 900 /* pages: a space has SPACE_MOST_PAGES */

/* Ends in an order that is not that of their start. */
void programs_use_pages(void)
{
	uint64_t pages = page_free_count() / 2 / USERS;
	struct process *users[USERS];

	for (unsigned i = 0; i < USERS; i++)
		users[i] = program_start("holds_pages", pages < USERS_MOST ? pages : USERS_MOST);
	for (unsigned i = 0; i < USERS; i++)
		EXPECT_EQ(program_await(users[i], true), WAIT_STOPPED(SIGSTOP));
	for (unsigned i = 0; i < USERS; i++) {
		process_signal(users[i * 7 % USERS], SIGKILL);
		EXPECT_EQ(program_end(users[i * 7 % USERS]), WAIT_KILLED(SIGKILL));
	}
}

struct limit {
	struct timer timer; /* first: it is what the callback gets */
	struct process *process;
	bool reached;
};

static void give_up(struct timer *timer)
{
	static const char states[][8] = {"runs", "stopped", "ended"};
	struct limit *limit = (struct limit *)timer;
	const struct process *process = limit->process;

	limit->reached = true;
	printk("# process %u: %s, %s %lx, given a CPU %lu times\n", process->pid,
	       states[process->state], process->in_call ? "in a call from" : "was at",
	       process->frame.rip, process->task->switches);
	process_signal(limit->process, SIGKILL);
}

static int await_change(struct process *process, bool stops)
{
	SPIN_GUARD(&processes_lock);

	while (process->state == PROCESS_RUNS || (process->state == PROCESS_STOPPED && !stops))
		sched_wait(&process->watchers, &processes_lock);
	return process->state == PROCESS_ENDED ? process->status : process->stop_status;
}

int program_await(struct process *process, bool stops)
{
	struct limit limit = {.timer = {.expired = give_up}, .process = process};
	int status;

	timer_start(&limit.timer, test_time_left());
	status = await_change(process, stops);
	timer_stop(&limit.timer);
	if (limit.reached)
		test_note("process %lu did not %s within the time of the test: killed",
			  (uint64_t)process->pid, stops ? "stop or end" : "end");
	EXPECT(!limit.reached);
	return status;
}

int program_end(struct process *process)
{
	int status = program_await(process, false);

	process_put(process);
	return status;
}

int program_run(const char *name, uint64_t argument)
{
	return program_end(program_start(name, argument));
}

static const char signals[SIGNALS][7] = {
	"",	"HUP",	"INT",	"QUIT", "ILL",	  "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
	"SEGV", "USR2", "PIPE", "ALRM", "TERM",	  "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
	"TTOU", "URG",	"XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "IO",   "PWR",  "SYS",
};

void program_note_end(const char *name, int status)
{
	unsigned signal = (unsigned)status & 0x7f;

	if (signal)
		test_note("%s: ended by SIG%s", name, signal < SIGNALS ? signals[signal] : "?");
	else
		test_note("%s: exited with %d", name, status >> 8);
}

void program_expect(const char *name, uint64_t argument, bool privileged)
{
	uint64_t before = programs_begin();
	struct process *process = NULL;
	int error = process_spawn(name, argument, privileged, &process);

	if (EXPECT_EQ(error, 0)) {
		int status = program_end(process);

		if (!EXPECT_EQ(status, WAIT_EXITED(0)))
			program_note_end(name, status);
	}
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
		REQUIRE_EQ(process_spawn(name, argument, true, &process), 0);
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

enum { COM2 = 0x2f8, SCRATCH = 7 };

bool programs_have_line(bool *is_taken)
{
	uint8_t was = inb(COM2 + SCRATCH);
	bool holds;

	*is_taken = console_has_port(COM2) || !strcmp(options.export, "com2");
	outb(COM2 + SCRATCH, 0x3c);
	holds = inb(COM2 + SCRATCH) == 0x3c;
	outb(COM2 + SCRATCH, was);
	return holds && !*is_taken;
}

void programs_require_line(void)
{
	bool is_taken;

	if (!programs_have_line(&is_taken))
		test_skip("no COM2, or the console or export= has it: run-qemu.sh --com2 FILE");
}

void programs_require_host(void)
{
	programs_require_line();
	if (!silicon_is_virtual())
		test_skip("bytes would leave by COM2, to whatever device is there");
}
