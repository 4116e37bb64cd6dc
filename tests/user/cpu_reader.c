// SPDX-License-Identifier: MIT
// Reads the trace of a CPU on which two programs take turns, while they do: between an arrival and
// a departure are branches of the process that arrived, and of no other. For a process that may see
// kernel addresses; argument: reads that are made. 0: of one program, reads that take all in one
// call.
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

#define MOST 2000
#define CPU  1

static struct ptrace_bts_record records[MOST];

struct program {
	const char *start, *end;
	long pid;
};

extern const char work_a[], end_a[], work_b[], end_b[];

/* Fifty turns, and the other's turn. */
#define PROGRAM(name)                                                                              \
	__asm__(".pushsection .text." #name ", \"ax\"\nwork_" #name ":\n\t"                        \
		"mov $50, %ecx\n1:\tdec %ecx\n\tjnz 1b\n\t"                                        \
		"mov %rdi, %rax\n\tsyscall\n\tjmp work_" #name "\nend_" #name ":\n\t.popsection")
PROGRAM(a);
PROGRAM(b);

static struct program programs[] = {{work_a, end_a, 0}, {work_b, end_b, 0}};

static long start(const struct program *program)
{
	long pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		CHECK(set_affinity(0, 1ul << CPU) == 0);
		((void (*)(uint64_t))(uint64_t)program->start)(SYS_sched_yield);
	}
	return pid;
}

/* The state of the CPU, as far as it is known, at a place in its trace. */
static struct {
	uint64_t pid; /* of the process that runs there; 0: none, or not known */
	uint64_t stretches, gaps, branches, wrong;
} now;

static void feed(const struct ptrace_bts_record *record)
{
	switch (record->qualifier) {
	case PTRACE_BTS_TASK_ARRIVES:
		now.wrong += now.pid != 0;
		now.pid = (uint32_t)record->pid_cpu;
		break;
	case PTRACE_BTS_TASK_DEPARTS:
		now.wrong += now.pid && now.pid != (uint32_t)record->pid_cpu;
		now.stretches += now.pid != 0;
		now.pid = 0;
		break;
	case PTRACE_BTS_GAP:
		now.gaps++;
		now.pid = 0;
		break;
	default:
		for (unsigned i = 0; i < 2; i++)
			if (now.pid && record->from >= (uint64_t)programs[i].start &&
			    record->from < (uint64_t)programs[i].end) {
				now.branches++;
				now.wrong += now.pid != (uint64_t)programs[i].pid;
			}
	}
}

static void read(long request, long cpu)
{
	long count = ptrace(request, cpu, (uint64_t)records, sizeof(records));

	CHECK(count >= 0);
	if (request == PTRACE_BTS_READ)
		now.pid = 0; /* from the oldest: what was there before is gone */
	for (long i = 0; i < count; i++)
		feed(&records[i]);
}

static bool lost(long cpu)
{
	struct ptrace_bts_config config;

	CHECK(ptrace(PTRACE_BTS_STATUS, cpu, (uint64_t)&config, sizeof(config)) == sizeof(config));
	return config.flags & PTRACE_BTS_LOST;
}

/* --- Whole reads --- */

/* Ring 3's branches follow each other but after a gap. `whole`: without one, and with a walk. */
static void follow(long count, bool whole)
{
	struct walk_reader reader = {.rounds = 100};
	bool known = false; /* where in its walks the CPU is */

	for (long i = 0; i < count; i++) {
		if (records[i].qualifier == PTRACE_BTS_GAP) {
			CHECK(!whole || i == 0);
			known = false;
			reader = (struct walk_reader){.rounds = 100};
		} else if (records[i].qualifier == PTRACE_BTS_BRANCH) {
			known |= records[i].to == (uint64_t)walk;
			CHECK(!known || walk_feed(&reader, &records[i]));
		}
	}
	CHECK(!whole || reader.walks > 0);
}

/* The newest records of a CPU that goes on, in one call. */
static void reads_whole(void)
{
	const uint32_t flags[] = {PTRACE_BTS_TRACE, PTRACE_BTS_TRACE | PTRACE_BTS_SCHED};
	long cpu = PTRACE_BTS_CPU(CPU), pid = fork();

	if (!pid) {
		CHECK(set_affinity(0, 1ul << CPU) == 0);
		for (;;)
			walk(100);
	}
	CHECK(set_affinity(0, 1) == 0);
	for (uint32_t i = 0; i < 8; i++) {
		long request = i & 2 ? PTRACE_BTS_DRAIN : PTRACE_BTS_READ;
		uint32_t size = MOST - 1 - i;

		CHECK(trace_branches(cpu, size, flags[i & 1], 0) > 0); /* a new one */
		while (!lost(cpu))
			sleep_us(1000);
		CHECK(ptrace(request, cpu, (uint64_t)records, sizeof(records)) == size + (i & 1));
		follow(size + (i & 1), true);
		if (i & 1) /* the next read reports what was missed meanwhile */
			follow(ptrace(request, cpu, (uint64_t)records, sizeof(records)), false);
	}
	CHECK(trace_branches(cpu, 0, 0, 0) > 0);
	kill(pid, SIGKILL);
	CHECK(wait4(pid, NULL, 0) == pid);
}

static void reads_of_turns(uint64_t reads)
{
	long cpu = PTRACE_BTS_CPU(CPU);
	struct ptrace_bts_record newest;

	CHECK(set_affinity(0, 1) == 0);
	CHECK(trace_branches(cpu, MOST, PTRACE_BTS_TRACE | PTRACE_BTS_SCHED, 0) > 0);
	for (unsigned i = 0; i < 2; i++)
		programs[i].pid = start(&programs[i]);
	while (now.stretches < reads) {
		read(PTRACE_BTS_DRAIN, cpu);
		CHECK(ptrace(PTRACE_BTS_SIZE, cpu, 0, 0) >= 0);
		ptrace(PTRACE_BTS_GET, cpu, (uint64_t)&newest, 0);
	}
	CHECK(!now.gaps || lost(cpu));
	for (unsigned i = 0; i < 20; i++)
		read(PTRACE_BTS_READ, cpu);
	say_number(now.stretches, 10);
	say(" stretches, ");
	say_number(now.branches, 10);
	say(" branches, ");
	say_number(now.gaps, 10);
	say(" gaps, ");
	say_number(now.wrong, 10);
	say(" wrong\n");
	CHECK(!now.wrong && now.branches > now.stretches);
	for (unsigned i = 0; i < 2; i++) {
		kill(programs[i].pid, SIGKILL);
		CHECK(wait4(programs[i].pid, NULL, 0) == programs[i].pid);
	}
}

int main(uint64_t reads)
{
	if (reads)
		reads_of_turns(reads);
	else
		reads_whole();
	return 0;
}
