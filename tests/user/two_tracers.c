// SPDX-License-Identifier: MIT
// Two processes trace a third at the same time, each in its own way: one gets a stop whenever its
// small buffer is nearly full and reads everything, one keeps the newest. Neither disturbs the
// other: not by the system calls, which go on in the kernel while the first holds its trace,
// either. Argument: walks of the third process; 0: it makes system calls, and both see the kernel.
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

#define KEPT  100
#define CALLS 3
#define PAGES                                                                                      \
	41 /* of each call: the kernel has a loop over them, and no other of as many turns         \
	    */
#define ROOM  80000
#define PAIRS 1021

#define EVERYTHING (PTRACE_BTS_USER | PTRACE_BTS_KERNEL)

static struct ptrace_bts_record newest[KEPT]; /* in a ring */
static uint64_t total;

static void work(uint64_t argument)
{
	for (uint64_t i = 0; i < argument; i++)
		walk(7 + i);
	__asm__ volatile("int3"); /* a stop for both */
}

static void map_and_unmap(uint64_t argument)
{
	(void)argument;
	for (unsigned i = 0; i < CALLS; i++) {
		long at = map(PAGES * 4096, PROT_READ | PROT_WRITE);

		CHECK(at > 0 && unmap(at, PAGES * 4096) == 0);
	}
	__asm__ volatile("int3");
}

/* How often each branch was taken since ring 3 was left, and how often one was in all pages. */
static uint16_t taken[PAIRS];
static unsigned whole_calls;

static void count_calls(const struct ptrace_bts_record *record)
{
	bool whole = false;

	if (record->qualifier != PTRACE_BTS_BRANCH || !(record->from >> 63))
		return;
	if (record->to >> 63) {
		taken[(record->from * 31 + record->to) % PAIRS]++;
		return;
	}
	for (unsigned i = 0; i < PAIRS; i++) {
		whole |= taken[i] == PAGES;
		taken[i] = 0;
	}
	whole_calls += whole;
}

/* Sees everything, and reads it at the end. */
static _Noreturn void viewer(long pid)
{
	static struct ptrace_bts_record records[500];
	long count;

	CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 && ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
	CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)));
	CHECK(trace_branches(pid, ROOM, PTRACE_BTS_TRACE | EVERYTHING, 0) > 0);
	CHECK(go_on(pid, 0) == 0);
	kill(getpid(), SIGSTOP); /* ready */
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	while ((count = ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)records, sizeof(records))) > 0)
		for (long i = 0; i < count; i++)
			count_calls(&records[i]);
	CHECK(count == 0);
	say_number(whole_calls, 10);
	say(" whole calls\n");
	/* A loop of an interrupt's may have as many turns by chance. */
	exit(whole_calls >= 2 * CALLS ? 0 : EXIT_FAILED);
}

static void say_newest(const char *who)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < KEPT; i++) {
		const struct ptrace_bts_record *record = &newest[(total + i) % KEPT];

		sum = (sum + record->from) * 31 + record->to;
	}
	say("the newest of ");
	say(who);
	say(": ");
	say_number(sum, 16);
	say("\n");
}

static void read_all(long pid)
{
	struct ptrace_bts_record record;

	while (ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)&record, RECORD) == 1)
		newest[total++ % KEPT] = record;
}

/*
 * Reads everything, as it arrives. The kernel's own way from a stop to the next instruction of the
 * tracee has to fit below the threshold, or it never gets there: 130 records do not do for a kernel
 * that UBSan checks.
 */
static void reader(long pid, uint32_t flags)
{
	int status;

	CHECK(trace_branches(pid, 400, PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL | flags, 0) > 0);
	do {
		CHECK(go_on(pid, 0) == 0);
		status = next_stop(pid);
		read_all(pid);
	} while (status >> 16 == PTRACE_EVENT_BTS);
	CHECK(status == WAIT_STOPPED(SIGTRAP));
	say_newest("the reader");
	say_number(total, 10);
	say(" branches in all\n");
}

/* Keeps the newest, and clears its buffer when it begins. */
static _Noreturn void keeper(long pid)
{
	CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 && ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
	CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)));
	CHECK(trace_branches(pid, KEPT, PTRACE_BTS_TRACE, 0) > 0);
	CHECK(ptrace(PTRACE_BTS_CLEAR, pid, 0, 0) == 0 && go_on(pid, 0) == 0);
	kill(getpid(), SIGSTOP); /* ready */
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	CHECK(ptrace(PTRACE_BTS_READ, pid, (uint64_t)newest, sizeof(newest)) == KEPT);
	say_newest("the keeper");
	exit(0); /* detaches */
}

int main(uint64_t argument)
{
	long pid = traced_child(argument ? work : map_and_unmap, argument), other = fork();
	int status;

	if (!other && argument)
		keeper(pid);
	if (!other)
		viewer(pid);
	CHECK(wait4(other, NULL, WUNTRACED) == other && kill(other, SIGCONT) == 0);
	reader(pid, argument ? 0 : EVERYTHING);
	CHECK(next_stop(other) == WAIT_EXITED(0));
	do { /* the threshold may have been reached at that very stop, which came first */
		CHECK(go_on(pid, 0) == 0);
		status = next_stop(pid);
	} while (status >> 16 == PTRACE_EVENT_BTS);
	CHECK(status == WAIT_EXITED(0));
	return 0;
}
