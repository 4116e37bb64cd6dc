// SPDX-License-Identifier: MIT
// The signal of a buffer, where it is really sent. argument: 0: to the tracee, which it ends; 1: to
// the tracer, which it ends; 2: to a tracer that is traced itself, so that the signal is seen.
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

#define TRACED (PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL)

static volatile uint64_t grandchild, stops;

static void take_walks(uint64_t count)
{
	while (count--)
		walk(20);
}

/* Of a stop, or of the signal that is about to act there. */
static void expect_cause(long pid)
{
	struct siginfo info;

	CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, (uint64_t)&info) == 0);
	CHECK(info.si_signo == SIGXCPU && info.si_pid == pid);
	CHECK(info.si_code == SI_EVENT(PTRACE_EVENT_BTS, SIGXCPU));
}

/* It stops at its threshold; then the signal is sent to it as well, and acts. */
static void end_tracee(void)
{
	long pid = traced_child(take_walks, 100);

	CHECK(trace_branches(pid, 100, TRACED, SIGXCPU) > 0 && go_on(pid, 0) == 0);
	CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_BTS) | WAIT_STOPPED(SIGXCPU)));
	expect_cause(pid);
	CHECK(ptrace(PTRACE_BTS_CLEAR, pid, 0, 0) == 0);
	CHECK(trace_branches(pid, 100, TRACED | PTRACE_BTS_SIGNAL_TRACEE, SIGXCPU) > 0);
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGXCPU));
	expect_cause(pid);
	CHECK(ptrace(PTRACE_BTS_SIZE, pid, 0, 0) >= 50);
	CHECK(go_on(pid, SIGXCPU) == 0 && next_stop(pid) == WAIT_KILLED(SIGXCPU));
}

/* Drains a child's trace at each of its stops, and is sent a signal each time. */
static void tracer(uint64_t argument)
{
	static struct ptrace_bts_record records[200];
	long pid = traced_child(take_walks, 10);
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

MAIN(ptrace_overflow)
{
	static void (*const subjects[])(void) = {end_tracee, end_tracer, watch_tracer};

	subjects[argument]();
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}

// Children that stop when their traces come to the threshold: none of their branches is lost, none
// is read twice. argument: 0: branches of ring 3; 1: of the kernel too; 2: and each child is a
// tracer itself; 3: each is killed at some time; 4: the buffer's signal is sent to it; << 8: a
// seed; << 32: walks.
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

#define CHILDREN 3
#define MOST	 4096

static uint64_t state, mode, walks;
static struct ptrace_bts_record records[MOST];

static struct child {
	long pid;
	uint32_t size, signal; /* of the buffer, in records; told */
	uint64_t stops;
	struct walk_reader reader;
} children[CHILDREN];

/* As a tracer: of a child, which is stepped over its end. */
static void trace_one(void)
{
	long pid = traced_child(walk, 1);

	for (unsigned i = 0; i < 5; i++) {
		CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
		CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	}
	end_child(pid);
}

static void walker(uint64_t rounds)
{
	for (uint64_t i = 0; i < walks; i++) {
		walk(rounds);
		if (mode == 1)
			yield();
		if (mode == 2 && i % 16 == 0)
			trace_one();
	}
}

static void start(struct child *child)
{
	uint32_t flags = PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL;

	if (mode == 1 || mode == 2)
		flags |= PTRACE_BTS_USER | PTRACE_BTS_KERNEL;
	*child = (struct child){0};
	child->reader.rounds = 1 + random_next(&state) % 20;
	child->pid = traced_child(walker, child->reader.rounds);
	/* A threshold below the kernel's way back to ring 3 stops it before the first instruction.
	 */
	child->size = flags & PTRACE_BTS_KERNEL ? 500 + (uint32_t)(random_next(&state) % 1500)
						: 2 + (uint32_t)(random_next(&state) % 300);
	if (mode == 4)
		flags |= PTRACE_BTS_SIGNAL_TRACEE;
	do
		child->signal = (uint32_t)(random_next(&state) % SIGNALS);
	while (child->signal == SIGKILL || child->signal == SIGSTOP);
	CHECK(trace_branches(child->pid, child->size, flags, child->signal) > 0);
	if (!child->signal)
		child->signal = SIGIO;
	CHECK(go_on(child->pid, 0) == 0);
}

static struct child *find(long pid)
{
	for (unsigned i = 0; i < CHILDREN; i++)
		if (children[i].pid == pid)
			return &children[i];
	CHECK(false);
	return NULL;
}

static void drain(struct child *child)
{
	struct ptrace_bts_config config;
	long count;

	CHECK(ptrace(PTRACE_BTS_STATUS, child->pid, (uint64_t)&config, sizeof(config)) > 0);
	CHECK(!(config.flags & (PTRACE_BTS_LOST | PTRACE_BTS_TRUNCATED)));
	while ((count = ptrace(PTRACE_BTS_DRAIN, child->pid, (uint64_t)records, sizeof(records))) >
	       0)
		for (long i = 0; i < count; i++)
			if (!(records[i].from >> 63 | records[i].to >> 63))
				CHECK(walk_feed(&child->reader, &records[i]));
	CHECK(count == 0);
}

/* What the kernel knows of the stop: which trace, and that it was its threshold. */
static void expect_siginfo(const struct child *child)
{
	struct siginfo info;

	if (ptrace(PTRACE_GETSIGINFO, child->pid, 0, (uint64_t)&info) == -ESRCH && mode == 3)
		return; /* it was killed since */
	CHECK(info.si_signo == (int)child->signal && info.si_pid == child->pid);
	CHECK(info.si_code == SI_EVENT(PTRACE_EVENT_BTS, (int)child->signal));
}

static void stopped(struct child *child, int status)
{
	uint32_t threshold = child->size >= 340 ? child->size - 170 : child->size - child->size / 2;
	int event = mode == 4 ? 0 : EVENT(PTRACE_EVENT_BTS);

	if (status >> 16 || mode == 4) {
		CHECK(status == (event | (int)WAIT_STOPPED(child->signal)));
		expect_siginfo(child);
		/* A tracer that gets SIGCHLD has a stop, and is drained, before it hears of this.
		 */
		CHECK(mode == 2 || ptrace(PTRACE_BTS_SIZE, child->pid, 0, 0) >= threshold);
		child->stops++;
	}
	drain(child);
	if (mode == 3 && random_next(&state) % 16 == 0)
		kill(child->pid, SIGKILL);
	CHECK(go_on(child->pid, 0) == 0 || mode == 3);
}

static void ended(struct child *child, int status)
{
	drain(child);
	CHECK(next_stop(child->pid) == status);
	if (mode == 3)
		return;
	CHECK(status == WAIT_EXITED(0) && child->stops > 0);
	CHECK(child->reader.walks == walks && child->reader.place == 0);
}

MAIN(ptrace_signal)
{
	unsigned left = CHILDREN;

	mode = argument & 0xff;
	state = argument >> 8 & 0xffffff;
	walks = mode == 3 ? UINT64_MAX : argument >> 32;
	for (unsigned i = 0; i < CHILDREN; i++)
		start(&children[i]);
	while (left) {
		int status;
		long pid = wait4(-1, &status, WNOWAIT);
		struct child *child = find(pid);

		if ((status & 0xff) == 0x7f) {
			stopped(child, status);
			continue;
		}
		ended(child, status);
		if (mode == 3 && argument >> 32 && (argument -= 1ul << 32) >> 32)
			start(child);
		else
			left--;
	}
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}
