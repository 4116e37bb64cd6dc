// SPDX-License-Identifier: MIT
// Traces children with every unit that there is, does what a tracer does in any order, and ends or
// is killed at any moment: whoever started it looks at what is left. Its children go on without it.
// argument: a seed in the low 16 bits, then a byte of this machine: 1: BTS; 2: samples; 4: Intel
// PT; 8: chunks can be many; then the number of CPUs.
#include "abi/insntrace.h"
#include "abi/ptrace_pebs.h"
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

enum { BTS = 1, SAMPLES = 2, PT = 4, MANY_CHUNKS = 8 };
enum { CHILDREN = 3, BUFFERS = 6, STEPS = 60, BRANCH_EN = 1 << 13 };

static uint64_t state, cpus;
static unsigned units;
static long children[CHILDREN];
static bool session;
static uint8_t bytes[4096];

static unsigned random(unsigned below)
{
	return (unsigned)(next_random(&state) >> 32) % below;
}

/* What a traced program does: branches, a child of its own, system calls, and it moves. */
static void work(uint64_t argument)
{
	for (unsigned i = 0; i < 40; i++) {
		walk(5 + (argument + i) % 7);
		run_on(0, (argument + i) % cpus);
		if (i % 8 == argument % 8 && fork() == 0) {
			walk(9);
			exit(0);
		}
		wait4(-1, NULL, WNOHANG);
		sleep_us(100);
	}
}

static long insntrace(unsigned request, uint64_t first, const void *address, uint64_t size)
{
	return system_call(SYS_insntrace, request, first, (uint64_t)address, size);
}

/* Another tracer may have the session, and there may be no memory: it goes on without. */
static void trace_instructions(void)
{
	struct insntrace_config config = {
		.chunks = units & MANY_CHUNKS ? 2 : 1,
		.flags = !(units & MANY_CHUNKS) ? INSNTRACE_INHERIT | INSNTRACE_CIRCULAR
			 : random(2)		? INSNTRACE_INHERIT | INSNTRACE_STREAM
						: INSNTRACE_INHERIT,
		.chunk_order = random(3),
		.control = BRANCH_EN,
	};

	session = insntrace(INSNTRACE_INITIALIZE, INSNTRACE_THREADS, NULL, BUFFERS) == 0;
	for (unsigned n = 0; session && n < BUFFERS; n++)
		if (insntrace(INSNTRACE_ALLOCATE_BUFFER, 0, &config, sizeof(config)) == n &&
		    n < CHILDREN)
			insntrace(INSNTRACE_ASSIGN_THREAD, n, (void *)children[n], 0);
	if (session)
		insntrace(INSNTRACE_START, 0, NULL, 0);
}

static void read_packets(void)
{
	struct insntrace_read read = {0, (uint64_t)bytes, sizeof(bytes)};

	if (session)
		insntrace(random(2) ? INSNTRACE_READ_STREAM : INSNTRACE_READ_BUFFER,
			  random(BUFFERS), &read, sizeof(read));
}

static void change_branches(long pid)
{
	static const uint32_t ways[] = {0, PTRACE_BTS_STOP, PTRACE_BTS_SIGNAL};

	trace_branches(pid, random(4) ? 4 + random(400) : 0,
		       PTRACE_BTS_TRACE | ways[random(3)] | (random(2) ? PTRACE_BTS_SCHED : 0), 0);
}

static void change_samples(long pid)
{
	static const uint32_t ways[] = {0, PTRACE_PEBS_STOP, PTRACE_PEBS_SIGNAL};
	struct ptrace_pebs_config config = {
		.size = random(4) ? (1 + random(50)) * sizeof(struct ptrace_pebs_sample) : 0,
		.flags = ways[random(3)],
		.period = 20 + random(500),
		.event = PTRACE_PEBS_INST_RETIRED,
	};

	ptrace(PTRACE_PEBS_CONFIG, pid, (uint64_t)&config, sizeof(config));
}

/* One thing that a tracer does; most of it is refused while the child runs. */
static void step(void)
{
	long pid = children[random(CHILDREN)];

	switch (random(7)) {
	case 0:
		ptrace(PTRACE_INTERRUPT, pid, 0, 0);
		break;
	case 1:
		if (units & BTS)
			change_branches(pid);
		break;
	case 2:
		if (units & SAMPLES)
			change_samples(pid);
		break;
	case 3:
		ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)bytes, sizeof(bytes) / RECORD * RECORD);
		break;
	case 4:
		read_packets();
		break;
	case 5:
		sleep_us(random(500));
		break;
	default:
		while ((pid = wait4(-1, NULL, WNOHANG)) > 0)
			go_on(pid, 0);
	}
}

int main(uint64_t argument)
{
	state = argument & 0xffff;
	units = argument >> 16 & 0xff;
	cpus = argument >> 24;
	for (unsigned i = 0; i < CHILDREN; i++) {
		children[i] = traced_child(work, i + (argument & 0xff));
		if (units & BTS)
			change_branches(children[i]);
		if (units & SAMPLES)
			change_samples(children[i]);
	}
	if (units & PT)
		trace_instructions();
	for (unsigned i = 0; i < CHILDREN; i++)
		CHECK(go_on(children[i], 0) == 0);
	kill(getpid(), SIGSTOP); /* everything is traced */
	for (unsigned i = random(STEPS); i; i--)
		step();
	return 0;
}
