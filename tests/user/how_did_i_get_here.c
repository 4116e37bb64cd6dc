// SPDX-License-Identifier: MIT
// A program crashes; its tracer says by which way it came there, newest branch first. The trace
// costs nothing while it runs: the processor itself keeps the newest branches.
#include "tests/user/lib/ptrace.h"

#define SHOWN 12

/* --- The program that crashes: a calculator of sums like 1+22+3 --- */

static const char *text;

/* Returns NULL after the last digit, which nobody expects. */
static NOINLINE const char *skip_digits(const char *at)
{
	while (*at >= '0' && *at <= '9')
		at++;
	return *at ? at : NULL;
}

static NOINLINE unsigned number(const char *at)
{
	unsigned value = 0;

	while (*at >= '0' && *at <= '9')
		value = value * 10 + (unsigned)(*at++ - '0');
	return value;
}

static NOINLINE unsigned sum(void)
{
	unsigned total = 0;

	do {
		total += number(text);
		text = skip_digits(text);
	} while (*text++ == '+');
	return total;
}

static void calculator(uint64_t argument)
{
	(void)argument;
	text = "1+22+333";
	exit((int)sum());
}

/* --- The tracer --- */

const struct name names[] = {
	{skip_digits, "skip_digits"}, {number, "number"}, {sum, "sum"},
	{calculator, "calculator"},   {NULL, NULL},
};

static void show_last_branches(long pid)
{
	struct ptrace_bts_record record;

	for (uint64_t i = 0; i < SHOWN; i++) {
		if (ptrace(PTRACE_BTS_GET, pid, (uint64_t)&record, i) < 0)
			break; /* there are not so many */
		say("  from ");
		say_place(record.from);
		say(" to ");
		say_place(record.to);
		say("\n");
	}
}

int main(uint64_t argument)
{
	long pid = traced_child(calculator, argument);
	struct ptrace_registers registers;

	CHECK(trace_branches(pid, SHOWN, PTRACE_BTS_TRACE, 0) > 0);
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGSEGV));
	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
	say("fault in ");
	say_place(registers.rip);
	say("; before that:\n");
	show_last_branches(pid);
	CHECK(go_on(pid, SIGSEGV) == 0 && next_stop(pid) == WAIT_KILLED(SIGSEGV));
	return 0;
}
