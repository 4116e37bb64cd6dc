// SPDX-License-Identifier: MIT
// Makes calls of SYS_insntrace with arguments that are mostly possible, in any order or one step
// after the other to a trace. Others make them at the same time on other CPUs. Its children make
// them too, end in the middle and are killed. It leaves everything as it is then, with 42 if it had
// a trace at any time. argument: seed in the low 20 bits, CPUs in the next 12, count above.
#include "abi/insntrace.h"
#include "abi/ptrace_pebs.h"
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

enum { OS = 1 << 2, USER = 1 << 3, CR3_FILTER = 1 << 7, BRANCH_EN = 1 << 13, PIDS = 24 };

static uint64_t random_state, cpus, starts;
static uint64_t words[512];

static uint64_t below(uint64_t most)
{
	return random_below(&random_state, most);
}

/* One of those that a list has, or anything. */
#define ONE_OF(...)                                                                                \
	({                                                                                         \
		static const uint64_t one_of[] = {__VA_ARGS__};                                    \
		below(30) ? one_of[below(sizeof(one_of) / 8)] : random_next(&random_state);        \
	})

static uint64_t random_address(void)
{
	switch (below(16)) {
	case 0:
		return 0;
	case 1:
		return (uint64_t)&words[512] - below(64); /* its end is not mapped, or another's */
	case 2:
		return 0xffffffff80000000 + below(1 << 22);
	case 3:
		return 0x00007fffffffffff - below(64);
	case 4:
		return random_next(&random_state);
	default:
		return (uint64_t)words + below(8);
	}
}

static void fill_config(struct insntrace_config *config)
{
	*config = (struct insntrace_config){
		.chunks = (uint32_t)ONE_OF(1, 1, 1, 2, 2, 3, 0, 4096),
		.chunk_order = (uint32_t)ONE_OF(0, 0, 0, 1, 2, 8),
		.flags = (uint32_t)ONE_OF(0, 1, 2, 4, 6, 3, 5),
		.control =
			ONE_OF(USER | BRANCH_EN, USER | BRANCH_EN, OS | USER | BRANCH_EN, BRANCH_EN,
			       USER | BRANCH_EN | CR3_FILTER, USER | BRANCH_EN | 1ul << 32, 0),
	};
	config->address_space = config->control & CR3_FILTER ? below(PIDS) : 0;
	config->range[0].first = ONE_OF(0, 0x400000, 0xffff800000000000, 1ul << 47);
	config->range[0].last = ONE_OF(0x7fffffffffff, 0x400fff, 0xffffffffffffffff);
}

static uint64_t size_of(uint64_t request)
{
	switch (request) {
	case INSNTRACE_ALLOCATE_BUFFER:
	case INSNTRACE_GET_BUFFER_CONFIG:
		return sizeof(struct insntrace_config);
	case INSNTRACE_GET_BUFFER_STATE:
		return sizeof(struct insntrace_state);
	case INSNTRACE_READ_BUFFER:
	case INSNTRACE_READ_STREAM:
	case INSNTRACE_GET_ITEMS:
		return sizeof(struct insntrace_read);
	case INSNTRACE_GET_ALLOCATION:
		return sizeof(struct insntrace_allocation);
	default:
		return 0;
	}
}

static void call(void)
{
	uint64_t request = ONE_OF(
		INSNTRACE_INITIALIZE, INSNTRACE_ALLOCATE_BUFFER, INSNTRACE_ALLOCATE_BUFFER,
		INSNTRACE_START, INSNTRACE_STOP, INSNTRACE_ASSIGN_THREAD, INSNTRACE_ASSIGN_THREAD,
		INSNTRACE_READ_STREAM, INSNTRACE_READ_BUFFER, INSNTRACE_GET_BUFFER_STATE,
		INSNTRACE_RELEASE_THREAD, INSNTRACE_FREE_BUFFER, INSNTRACE_TERMINATE,
		INSNTRACE_GET_ALLOCATION, INSNTRACE_GET_HOLDER, INSNTRACE_GET_ITEMS);
	uint64_t size = below(20) ? size_of(request) : below(200), first = below(4), address;

	address = size ? random_address() : 0;
	if (request == INSNTRACE_INITIALIZE) {
		first = below(2);
		size = below(8) ? first == INSNTRACE_CPUS ? cpus : 4 : below(100);
	} else if (request == INSNTRACE_ASSIGN_THREAD) {
		address = below(3) ? below(PIDS) : (uint64_t)getpid();
	} else if (request == INSNTRACE_ALLOCATE_BUFFER) {
		first = 0;
		fill_config((struct insntrace_config *)words);
	} else if (size == sizeof(struct insntrace_read)) {
		words[0] = ONE_OF(0, 0, 0, 100, 1ul << 63);
		words[1] = random_address();
		words[2] = ONE_OF(0, 1, 100, 2000, 1ul << 40, 1ul << 63);
	} else if (!size && (request == INSNTRACE_START || request == INSNTRACE_STOP)) {
		first = 0;
	}
	starts += system_call(SYS_insntrace, request, first, address, size) >= 0 &&
		  request == INSNTRACE_START;
}

/* The next step to a trace: of all CPUs, where that is allowed, or of this program. */
static void step(void)
{
	static const struct insntrace_config plain = {.chunks = 1, .control = USER | BRANCH_EN};
	static uint64_t mode, next;
	uint64_t traces = mode == INSNTRACE_CPUS ? cpus : 1;
	long result;

	switch (next++) {
	case 0:
		result = system_call(SYS_insntrace, INSNTRACE_INITIALIZE, mode, 0, traces);
		mode = result == -EPERM ? INSNTRACE_THREADS : mode;
		break;
	case 1:
		for (result = 0; result >= 0 && traces; traces--)
			result = system_call(SYS_insntrace, INSNTRACE_ALLOCATE_BUFFER, 0,
					     (uint64_t)&plain, sizeof(plain));
		break;
	case 2:
		result = mode == INSNTRACE_CPUS
				 ? 0
				 : system_call(SYS_insntrace, INSNTRACE_ASSIGN_THREAD, 0,
					       (uint64_t)getpid(), 0);
		break;
	case 3:
		result = system_call(SYS_insntrace, INSNTRACE_START, 0, 0, 0);
		starts += result >= 0;
		break;
	default:
		result = -EBADFD;
		mode = below(2);
	}
	next = result < 0 ? 0 : next;
}

/* A child goes on as its parent does, ends in the middle or is killed. */
static void have_child(uint64_t left)
{
	long child = fork();

	if (child < 0)
		return;
	if (!child) {
		random_state ^= (uint64_t)getpid() << 20;
		for (left = below(left + 1); left; left--)
			call();
		exit(0);
	}
	if (below(2)) {
		call();
		kill(child, SIGKILL);
	}
	CHECK(wait4(child, NULL, 0) == child);
}

MAIN(insntrace_hostile)
{
	random_state = argument & 0xfffff;
	cpus = argument >> 20 & 0xfff;
	for (uint64_t left = argument >> 32; left; left--) {
		if (!below(10))
			set_affinity(0, random_next(&random_state) | 1);
		if (!below(16))
			yield();
		if (below(2))
			step();
		else if (below(12))
			call();
		else
			have_child(8);
	}
	return starts ? 42 : 0;
}

// Traces children with every unit that there is, does what a tracer does in any order, and ends or
// is killed at any moment: its starter looks at what is left. Its children go on without it.
// argument: a seed in the low 16 bits, then a byte of this machine: 1: BTS; 2: samples; 4: Intel
// PT; 8: chunks can be many; then the number of CPUs.

enum { BTS = 1, SAMPLES = 2, PT = 4, MANY_CHUNKS = 8 };
enum { CHILDREN = 3, BUFFERS = 6, STEPS = 60 };

static uint64_t state;
static unsigned units;
static long children[CHILDREN];
static bool session;
static uint8_t bytes[4096];

static unsigned random(unsigned below)
{
	return (unsigned)random_below(&state, below);
}

/* What a traced program does: branches, fork(), other system calls, and it moves. */
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
static void act(void)
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

MAIN(dying_tracer)
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
		act();
	return 0;
}
