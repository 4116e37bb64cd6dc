// SPDX-License-Identifier: MIT
// A buffer that wraps holds the newest of what a long one holds, whatever its size and whatever
// stopped the tracee, down to a single record.
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

#define MOST 8000

static struct ptrace_bts_record all[MOST], newest[MOST];

static _Noreturn void stop_by_signal(void)
{
	kill(getpid(), SIGSTOP);
	exit(0);
}

/* INTERRUPT follows INT3, with no branch between: on the way into the call, or in it. */
static _Noreturn void stop_in_call(void)
{
	static const int64_t long_time[2] = {1000000, 0};

	__asm__ volatile("int3\n\tsyscall"
			 :
			 : "a"((long)SYS_nanosleep), "D"(long_time), "S"(0ul)
			 : "rcx", "r11", "memory");
	for (;;)
		;
}

static _Noreturn void stop_by_breakpoint(void)
{
	for (;;)
		__asm__ volatile("int3");
}

static _Noreturn void stop_by_fault(void)
{
	for (;;)
		__asm__ volatile("movb $0, (%0)" : : "r"(16ul) : "memory");
}

static _Noreturn void end(void)
{
	exit(0);
}

static const struct kind {
	void (*stop)(void);
	int status;
} kinds[] = {
	{stop_by_signal, WAIT_STOPPED(SIGSTOP)},
	{stop_in_call, EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)},
	{stop_by_breakpoint, WAIT_STOPPED(SIGTRAP)},
	{stop_by_fault, WAIT_STOPPED(SIGSEGV)},
	{end, WAIT_EXITED(0)},
};

static uint64_t rounds; /* of the walk: 3 or 4 branches each */

static void body(uint64_t kind)
{
	walk(rounds);
	kinds[kind].stop();
}

/* The records of a buffer of `size` at that stop. */
static long run(uint64_t kind, uint32_t size, uint32_t flags, struct ptrace_bts_record *records)
{
	long pid = traced_child(body, kind), count;
	struct ptrace_bts_config config;

	CHECK(trace_branches(pid, size, PTRACE_BTS_TRACE | flags, 0) > 0);
	CHECK(go_on(pid, 0) == 0);
	if (kinds[kind].stop == stop_in_call) {
		CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
		CHECK(go_on(pid, 0) == 0 && ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
	}
	if (kinds[kind].stop == end) { /* to be read before it is waited for */
		int status = -1;

		CHECK(wait4(pid, &status, WNOWAIT) == pid && status == kinds[kind].status);
	} else {
		CHECK(next_stop(pid) == kinds[kind].status);
	}
	count = ptrace(PTRACE_BTS_SIZE, pid, 0, 0);
	CHECK(ptrace(PTRACE_BTS_READ, pid, (uint64_t)records, MOST * RECORD) == count);
	CHECK(ptrace(PTRACE_BTS_STATUS, pid, (uint64_t)&config, sizeof(config)) == sizeof(config));
	CHECK(!(config.flags & PTRACE_BTS_LOST) == (flags & PTRACE_BTS_STOP || count < size));
	if (kinds[kind].stop == end)
		CHECK(next_stop(pid) == kinds[kind].status);
	else
		end_child(pid);
	return count;
}

static void compare(uint64_t kind, uint32_t size, long count)
{
	long first = count - size, got = run(kind, size, 0, newest);

	if (got != size)
		say_number((uint64_t)got, 10);
	CHECK(got == size);
	for (long i = 0; i < size; i++)
		CHECK(newest[i].from == all[first + i].from && newest[i].to == all[first + i].to);
}

/* Each size up to `largest`, after a walk that is longer. */
static void compare_up_to(uint64_t kind, uint32_t largest, const uint32_t *sizes, unsigned number)
{
	long count;

	rounds = largest / 3 + 1;
	count = run(kind, MOST, PTRACE_BTS_STOP, all);
	CHECK(count > (long)largest && count < MOST);
	for (unsigned i = 0; i < number; i++)
		compare(kind, sizes[i], count);
}

int main(uint64_t argument)
{
	static const uint32_t small[] = {1, 2, 3, 20, 50, 100, 200}, large[] = {1000, 5000};

	for (uint64_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		compare_up_to(kind, 200, small, sizeof(small) / sizeof(small[0]));
		compare_up_to(kind, 5000, large, sizeof(large) / sizeof(large[0]));
	}
	(void)argument;
	return 0;
}
