// SPDX-License-Identifier: MIT
// The memory of traces suffices. argument: 0: for a time slice; 1: one tracee after the
// other.
#include "tests/user/lib/ptrace.h"

static struct ptrace_bts_record records[4096];

static void spin(uint64_t argument)
{
	(void)argument;
	for (;;)
		;
}

static bool is_full(long pid)
{
	struct ptrace_bts_config config;

	CHECK(ptrace(PTRACE_BTS_STATUS, pid, (uint64_t)&config, sizeof(config)) > 0);
	return config.flags & PTRACE_BTS_FULL;
}

static unsigned drain_departures(long pid)
{
	unsigned departures = 0;
	long count;

	while ((count = ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)records, sizeof(records))) > 0)
		for (long i = 0; i < count; i++)
			departures += records[i].qualifier == PTRACE_BTS_TASK_DEPARTS;
	CHECK(count == 0);
	return departures;
}

/* The largest buffer by default is not full when a task that branches all the time has come to the
   ends of some slices; each stop of the tracer's is another departure. */
static void slices(void)
{
	const uint32_t flags =
		PTRACE_BTS_TRACE | PTRACE_BTS_SCHED | PTRACE_BTS_STOP | PTRACE_BTS_CUT_SIZE;
	long pid = traced_child(spin, 0), other = fork();
	unsigned departures = 0, stops = 0;

	if (!other)
		spin(0);
	CHECK(set_affinity(pid, 1) == 0 && set_affinity(other, 1) == 0);
	CHECK(trace_branches(pid, UINT32_MAX / RECORD, flags, 0) > 0);
	do {
		CHECK(go_on(pid, 0) == 0 && sleep_us(10000) == 0);
		CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
		CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)));
		CHECK(!is_full(pid));
		departures += drain_departures(pid);
		stops++;
	} while (departures < stops + 3);
	end_child(pid);
	CHECK(kill(other, SIGKILL) == 0 && wait4(other, NULL, 0) == other);
}

/* Ends as soon as it goes on. */
static void nothing(uint64_t argument)
{
	(void)argument;
}

/* One tracee after the other, more than there is room for at a time, each with nearly half of the
   memory; nothing is detached. The tracer is the parent, or its child. */
static void one_after_another(bool seized)
{
	struct rlimit limit;

	CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	for (unsigned i = 0; i < 80; i++) {
		uint32_t most = (uint32_t)(limit.current / RECORD / (i < 5 ? 2 : 40));
		long pid = seized ? fork() : traced_child(nothing, 0);

		CHECK(pid >= 0);
		if (!pid)
			spin(0);
		if (seized) {
			CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
			CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
			next_stop(pid);
		}
		CHECK(trace_branches(pid, most, PTRACE_BTS_TRACE, 0) > 0);
		CHECK(go_on(pid, seized ? SIGKILL : 0) == 0);
		CHECK(next_stop(pid) == (seized ? WAIT_KILLED(SIGKILL) : WAIT_EXITED(0)));
	}
}

int main(uint64_t argument)
{
	if (argument) {
		one_after_another(false);
		one_after_another(true);
	} else {
		slices();
	}
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}
