// SPDX-License-Identifier: MIT
// Children that stop when their traces come to the threshold: none of their branches is lost, none
// comes twice. argument: 0: branches of ring 3; 1: of the kernel too; 2: and each child is a tracer
// itself; 3: each is killed at some time; 4: the buffer's signal is sent to it; << 8: a seed;
// << 32: walks.
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

/* As a tracer: of a child of its own, which is stepped over its end. */
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
	child->reader.rounds = 1 + next_random(&state) % 20;
	child->pid = traced_child(walker, child->reader.rounds);
	child->size =
		2 + (uint32_t)(next_random(&state) % (flags & PTRACE_BTS_KERNEL ? 2000 : 300));
	if (mode == 4)
		flags |= PTRACE_BTS_SIGNAL_TRACEE;
	do
		child->signal = (uint32_t)(next_random(&state) % SIGNALS);
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
	if (mode == 3 && next_random(&state) % 16 == 0)
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

int main(uint64_t argument)
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
