// SPDX-License-Identifier: MIT
#include "tests/user/lib/ptrace.h"

long ptrace(long request, long pid, uint64_t address, uint64_t data)
{
	return system_call(SYS_ptrace, (uint64_t)request, (uint64_t)pid, address, data);
}

long go_on(long pid, unsigned signal)
{
	return ptrace(PTRACE_CONT, pid, 0, signal);
}

long traced_child(void (*body)(uint64_t argument), uint64_t argument)
{
	long pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
		kill(getpid(), SIGSTOP);
		body(argument);
		exit(0);
	}
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGSTOP));
	return pid;
}

int next_stop(long pid)
{
	int status = -1;

	CHECK(wait4(pid, &status, 0) == pid);
	return status;
}

int peek_stop(long pid)
{
	int status = -1;

	CHECK(wait4(pid, &status, WNOWAIT) == pid);
	return status;
}

long trace_branches(long pid, uint32_t records, uint32_t flags, uint32_t signal)
{
	struct ptrace_bts_config config = {records * RECORD, flags, signal, RECORD};

	return ptrace(PTRACE_BTS_CONFIG, pid, (uint64_t)&config, sizeof(config));
}

void end_child(long pid)
{
	CHECK(ptrace(PTRACE_KILL, pid, 0, 0) == 0);
	CHECK(next_stop(pid) == WAIT_KILLED(SIGKILL));
}

#define LONGEST 4096 /* bytes of a function; what is further from its start is in no function */

const struct name *find_name(uint64_t address)
{
	const struct name *best = NULL;

	for (const struct name *at = names; at->start; at++)
		if ((uint64_t)at->start <= address && address - (uint64_t)at->start < LONGEST &&
		    (!best || at->start > best->start))
			best = at;
	return best;
}

void say_place(uint64_t address)
{
	const struct name *best = find_name(address);

	say(best ? best->name : "");
	say(best ? "+0x" : "0x");
	say_number(best ? address - (uint64_t)best->start : address, 16);
}
