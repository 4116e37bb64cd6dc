// SPDX-License-Identifier: MIT
// Records what every CPU does, whatever task it runs, and prints the newest of it after an
// incident: here, once a program ran on each. For a process that may see kernel addresses.
#include "tests/user/lib/ptrace.h"

#define MOST 2000

static struct ptrace_bts_record records[MOST];

static _Noreturn void culprit(uint64_t cpu)
{
	CHECK(set_affinity(0, 1ul << cpu) == 0);
	for (;;)
		__asm__ volatile("");
}

const struct name names[] = {{culprit, "culprit"}, {main, "main"}, {NULL, NULL}};

static bool in_culprit(const struct ptrace_bts_record *record)
{
	return record->qualifier == PTRACE_BTS_BRANCH && record->from == record->to &&
	       record->from >= (uint64_t)culprit && record->from < (uint64_t)culprit + 256;
}

/* Between an arrival and a departure runs who arrived: the culprit's branches are in its own. */
static bool stretches_are_right(long n, long pid)
{
	uint64_t here = 0; /* who it is; 0: not known */

	for (long i = 0; i < n; i++)
		if (records[i].qualifier == PTRACE_BTS_TASK_ARRIVES)
			here = (uint32_t)records[i].pid_cpu;
		else if (records[i].qualifier != PTRACE_BTS_BRANCH)
			here = 0;
		else if (here && in_culprit(&records[i]) && here != (uint64_t)pid)
			return false;
	return true;
}

/* Waits until the culprit shows in the newest branches of its CPU. */
static void tell(unsigned cpu, long pid)
{
	long n, stamps = 0;
	unsigned own = 0;

	do {
		sleep_us(1000);
		n = ptrace(PTRACE_BTS_READ, PTRACE_BTS_CPU(cpu), (uint64_t)records,
			   sizeof(records));
		CHECK(n >= 0 && stretches_are_right(n, pid));
		own = 0;
		for (long i = 0; i < n; i++)
			own += in_culprit(&records[i]);
	} while (!own);
	kill(pid, SIGKILL);
	CHECK(wait4(pid, NULL, 0) == pid);
	for (long i = 0; i < n; i++)
		stamps += records[i].qualifier != PTRACE_BTS_BRANCH &&
			  records[i].pid_cpu >> 32 == cpu;
	say("cpu ");
	say_number(cpu, 10);
	say(": ");
	for (long i = 0; i < n; i++)
		if (in_culprit(&records[i])) {
			say_place(records[i].from);
			break;
		}
	say(stamps ? ", switched" : "");
	say("\n");
	CHECK(ptrace(PTRACE_BTS_CLEAR, PTRACE_BTS_CPU(cpu), 0, 0) == 0);
}

/* Every CPU gets a buffer of so many records: how many CPUs there are. */
static unsigned record_all(uint32_t kept)
{
	uint32_t flags = PTRACE_BTS_TRACE | PTRACE_BTS_SCHED | PTRACE_BTS_USER | PTRACE_BTS_KERNEL;
	unsigned cpu = 0;
	long error;

	while ((error = trace_branches(PTRACE_BTS_CPU(cpu), kept, flags, 0)) > 0)
		cpu++;
	CHECK(error == -ESRCH);
	return cpu;
}

int main(uint64_t argument)
{
	unsigned cpus = record_all(MOST);

	(void)argument;
	for (unsigned cpu = 0; cpu < cpus; cpu++) {
		long pid = fork();

		if (!pid)
			culprit(cpu);
		tell(cpu, pid);
	}
	return 0;
}
