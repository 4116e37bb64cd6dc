// SPDX-License-Identifier: MIT
// The signal of a buffer, where it is really sent. argument: 0: to the tracee, which it ends; 1: to
// the tracer, which it ends; 2: to a tracer that is traced itself, so that the signal is seen.
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

#define TRACED (PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL)

static volatile uint64_t grandchild, stops;

static void walks(uint64_t count)
{
	while (count--)
		walk(20);
}

/* Lets the signal act. */
static void end_tracee(void)
{
	long pid = traced_child(walks, 100);

	CHECK(trace_branches(pid, 100, TRACED | PTRACE_BTS_SIGNAL_TRACEE, SIGXCPU) > 0);
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGXCPU));
	CHECK(ptrace(PTRACE_BTS_SIZE, pid, 0, 0) >= 50);
	CHECK(go_on(pid, SIGXCPU) == 0 && next_stop(pid) == WAIT_KILLED(SIGXCPU));
}

/* Drains a child's trace at each of its stops, and is sent a signal each time. */
static void tracer(uint64_t argument)
{
	static struct ptrace_bts_record records[200];
	long pid = traced_child(walks, 10);
	int status;

	(void)argument;
	grandchild = (uint64_t)pid;
	CHECK(trace_branches(pid, 100, TRACED | PTRACE_BTS_SIGNAL_TRACER, SIGXCPU) > 0);
	CHECK(go_on(pid, 0) == 0);
	while ((status = next_stop(pid)) != WAIT_EXITED(0)) {
		CHECK(status == (EVENT(PTRACE_EVENT_BTS) | WAIT_STOPPED(SIGXCPU)));
		stops++;
		CHECK(ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)records, sizeof(records)) >= 50);
		CHECK(go_on(pid, 0) == 0);
	}
	__asm__ volatile("int3");
}

static void end_tracer(void)
{
	long pid = fork();

	if (!pid) {
		tracer(0);
		exit(0);
	}
	CHECK(next_stop(pid) == WAIT_KILLED(SIGXCPU));
}

static uint64_t peek(long pid, const volatile uint64_t *at)
{
	uint64_t word = 0;

	CHECK(ptrace(PTRACE_PEEKDATA, pid, (uint64_t)at, (uint64_t)&word) == 0);
	return word;
}

/* Sees every signal that the tracer gets, from whom and why, and averts all. */
static void watch_tracer(void)
{
	long pid = traced_child(tracer, 0);
	struct siginfo info;
	uint64_t seen = 0, children = 0;
	int status;

	CHECK(go_on(pid, 0) == 0);
	while ((status = next_stop(pid)) != WAIT_STOPPED(SIGTRAP)) {
		CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, (uint64_t)&info) == 0);
		CHECK(status == (int)WAIT_STOPPED(info.si_signo));
		if (info.si_signo == SIGXCPU) {
			CHECK(info.si_code == SI_EVENT(PTRACE_EVENT_BTS, SIGXCPU));
			CHECK((uint64_t)info.si_pid == peek(pid, &grandchild));
			seen++;
		} else {
			CHECK(info.si_signo == SIGCHLD && info.si_pid > 0);
			CHECK(info.si_code == CLD_TRAPPED || info.si_code == CLD_EXITED);
			children++;
		}
		CHECK(go_on(pid, 0) == 0);
	}
	CHECK(seen > 0 && seen == peek(pid, &stops) && children > seen);
	end_child(pid);
}

int main(uint64_t argument)
{
	static void (*const subjects[])(void) = {end_tracee, end_tracer, watch_tracer};

	subjects[argument]();
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}
