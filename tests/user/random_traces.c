// SPDX-License-Identifier: MIT
// The requests for branches, samples and the newest branches in any order, with arguments that are
// mostly possible, on children that run, move, stop, end and are killed, on CPUs, and on the
// program itself. argument: seed in the low, count in the high 32 bits. Of so many requests it
// makes those that it gets to in 15 seconds, and 30 at least: beside tracers of the kernel one can
// take 0.3 seconds.
#include "abi/ptrace_lbr.h"
#include "abi/ptrace_pebs.h"
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

enum { CHILDREN = 3, LEAST = 30, LONGEST_US = 15000000 };

static uint64_t state;
static long pids[CHILDREN];
static uint8_t buffer[16384];

static uint64_t below(uint64_t most)
{
	return random_below(&state, most);
}

/* One of those that a list has, or anything. */
#define ONE_OF(...)                                                                                \
	({                                                                                         \
		static const uint64_t one_of[] = {__VA_ARGS__};                                    \
		below(60) ? one_of[below(sizeof(one_of) / 8)] : random_next(&state);               \
	})

/* --- The children --- */

static void run(uint64_t seed)
{
	state ^= seed;
	for (uint64_t rounds = below(2) ? below(200) : UINT64_MAX; rounds; rounds--) {
		walk(below(50));
		if (!below(4))
			set_affinity(0, random_next(&state) | 1);
		if (!below(4))
			yield();
		if (!below(20))
			kill(getpid(), SIGPROF);
	}
}

/* Of the program itself, which traces itself as well. */
static void do_nothing(int signal, struct siginfo *info, struct ucontext *context)
{
	(void)signal, (void)info, (void)context;
}

static void start(unsigned i)
{
	uint64_t seed = random_next(&state);

	pids[i] = fork();
	CHECK(pids[i] >= 0);
	if (!pids[i]) {
		set_handlers((signal_handler *)SIG_DFL);
		run(seed);
		exit(0);
	}
	if (below(8) && !ptrace(PTRACE_SEIZE, pids[i], 0, 0)) {
		ptrace(PTRACE_INTERRUPT, pids[i], 0, 0);
		yield();
	}
}

/* One that ended, for whatever reason, has a successor. */
static void replace_ended(unsigned i)
{
	int status = 0;
	long ended = wait4(pids[i], &status, WNOHANG | WUNTRACED);

	if (ended == pids[i] && (status & 0xff) != 0x7f)
		start(i);
}

/* --- The requests --- */

static long random_pid(void)
{
	uint64_t pick = below(24);

	if (pick < 20)
		return pids[pick % CHILDREN];
	if (pick == 23)
		return below(2) ? PTRACE_PEBS_ALL_CPUS : 0;
	return pick == 22 ? getpid() : PTRACE_BTS_CPU(below(4));
}

static uint32_t random_signal(uint64_t flags)
{
	uint32_t signal = (uint32_t)ONE_OF(0, 0, SIGIO, SIGPROF, SIGKILL);

	return flags & PTRACE_BTS_SIGNAL && signal != SIGSEGV ? signal : 0;
}

static void fill_bts(void)
{
	struct ptrace_bts_config *config = (struct ptrace_bts_config *)buffer;

	config->size = ONE_OF(0, 23, 24, 2400, 2400, 24000, 24000, 200000, 1 << 20);
	config->flags = below(8) ? (below(0x10) & ~4ul) | ONE_OF(1, 5, 0x41) : random_next(&state);
	config->signal = random_signal(config->flags);
	config->bts_size = (uint32_t)ONE_OF(0, 24);
}

static void fill_pebs(void)
{
	struct ptrace_pebs_config *config = (struct ptrace_pebs_config *)buffer;

	config->size = ONE_OF(0, 8, 191, 192, 1920, 1920, 19200, 19200, 200000, 1 << 20);
	config->branches = (uint32_t)ONE_OF(0, 0, 1, 3, 32, 100);
	config->kinds = (uint32_t)(config->branches ? ONE_OF(0, 0, 0, 2, 0x7f, 0x80) : 0);
	config->flags =
		ONE_OF(PTRACE_PEBS_STOP, PTRACE_PEBS_STOP, PTRACE_PEBS_SIGNAL, PTRACE_PEBS_SIGNAL,
		       PTRACE_PEBS_STOP | 0xb0, PTRACE_PEBS_SIGNAL | 0x90, 0);
	if (!below(3))
		config->flags |= PTRACE_PEBS_INTERRUPT;
	if (config->branches && !config->kinds && !below(4))
		config->flags |= PTRACE_PEBS_CALL_STACK;
	config->period =
		ONE_OF(0, 2, 20, 20, 100, 100, 2000, 2000, 1000, 100000, 0x7fffffff, 0x80000000);
	config->event = (uint32_t)(below(4) ? 1 + below(2) : below(PTRACE_PEBS_EVENTS + 1));
	config->counter = (uint32_t)(config->flags & PTRACE_PEBS_COUNTER ? below(5) : 0);
	config->signal = random_signal(config->flags);
	config->sample_size = (uint32_t)ONE_OF(0, 192, 192 + 24, 192 + 3 * 24);
	if (!below(3)) {
		config->flags |= PTRACE_PEBS_RAW;
		config->event = (uint32_t)ONE_OF(0xc0, 0xc4, 0x1c0, 0x4c4, 0x3c, 0x10000c4, 0x412e);
	}
	if (!below(4)) {
		config->flags = ONE_OF(PTRACE_PEBS_COUNT, PTRACE_PEBS_COUNT | 0x30) |
				(config->flags & PTRACE_PEBS_RAW);
		config->size = sizeof(uint64_t);
		config->period = config->counter = config->sample_size = config->signal = 0;
		config->branches = (uint32_t)(below(8) ? 0 : 3);
		config->kinds = 0;
	}
}

static void fill_lbr(void)
{
	struct ptrace_lbr_config *config = (struct ptrace_lbr_config *)buffer;

	config->entries = (uint32_t)ONE_OF(0, 1, 4, 32, 32, 100);
	config->flags = ONE_OF(0, 0x10, 0x10, 0x30, 0x20, 0x100, 0x110, 1);
	config->kinds = (uint32_t)(config->flags & 0x100 ? 0 : ONE_OF(0, 0, 0, 2, 0x7f, 0x80));
	config->branch_size = (uint32_t)ONE_OF(0, 32);
}

static uint64_t random_request(void)
{
	static const uint16_t often[] = {
		PTRACE_SEIZE,	    PTRACE_INTERRUPT,	  PTRACE_INTERRUPT,  PTRACE_CONT,
		PTRACE_BTS_CONFIG,  PTRACE_BTS_STATUS,	  PTRACE_BTS_DRAIN,  PTRACE_BTS_READ,
		PTRACE_PEBS_CONFIG, PTRACE_PEBS_STATUS,	  PTRACE_PEBS_DRAIN, PTRACE_PEBS_READ,
		PTRACE_PEBS_CLEAR,  PTRACE_PEBS_SIZE,	  PTRACE_BTS_CONFIG, PTRACE_PEBS_CONFIG,
		PTRACE_LBR_CONFIG,  PTRACE_LBR_STATUS,	  PTRACE_LBR_CLEAR,  PTRACE_LBR_READ,
		PTRACE_FREEZE,	    PTRACE_FREEZE_STATUS,
	};
	uint64_t pick = below(80);

	if (pick)
		return often[pick % (sizeof(often) / sizeof(often[0]))];
	return below(8) ? below(60) : below(8) ? PTRACE_DETACH : random_next(&state);
}

static uint64_t random_data(uint64_t request)
{
	switch (request) {
	case PTRACE_BTS_CONFIG:
	case PTRACE_BTS_STATUS:
		return ONE_OF(24, 24, 24, 0);
	case PTRACE_PEBS_CONFIG:
	case PTRACE_PEBS_STATUS:
		return ONE_OF(72, 80, 80, 24);
	case PTRACE_BTS_DRAIN:
	case PTRACE_BTS_READ:
		return ONE_OF(24, 240, 16368, 25);
	case PTRACE_PEBS_DRAIN:
	case PTRACE_PEBS_READ:
		return ONE_OF(192, 1920, 16320, 193, 8, 264, 15840);
	case PTRACE_LBR_CONFIG:
	case PTRACE_LBR_STATUS:
		return ONE_OF(32, 32, 32, 24);
	case PTRACE_LBR_READ:
		return ONE_OF(32, 320, 1024, 33);
	case PTRACE_FREEZE:
		return ONE_OF(0, 0, 0, 1, 1, 2, 4, 6, 3, 8);
	case PTRACE_FREEZE_STATUS:
		return ONE_OF(256, 1024, 2048, 257);
	case PTRACE_SEIZE:
		return 0;
	default:
		return below(3) ? 0 : below(40);
	}
}

/* A size above the buffer's has an address that cannot be written: the answer would overwrite what
   is after the buffer. */
static uint64_t random_address(uint64_t request, uint64_t data)
{
	if (request == PTRACE_SEIZE || request == PTRACE_FREEZE)
		return 0;
	if (data > sizeof(buffer) - 8)
		return (uint64_t)random_address;
	return ONE_OF((uint64_t)buffer, (uint64_t)buffer, (uint64_t)buffer, (uint64_t)buffer + 8);
}

/* What it takes of itself ends after a walk: a signal for every second instruction would not let it
   get to its end. */
static void trace_itself_no_more(void)
{
	struct ptrace_bts_config branches = {0};
	struct ptrace_pebs_config samples = {0};

	walk(10);
	ptrace(PTRACE_BTS_CONFIG, getpid(), (uint64_t)&branches, sizeof(branches));
	ptrace(PTRACE_PEBS_CONFIG, getpid(), (uint64_t)&samples, sizeof(samples));
}

/* A cycle of virtual silicon is one of the host, and thousands pass before an instruction is done.
   With a signal for each sample the program would not get to its next request. */
static void sample_no_cycles(void)
{
	struct ptrace_pebs_config *config = (struct ptrace_pebs_config *)buffer;

	if (config->flags & PTRACE_PEBS_RAW && (config->event & 0xff) == 0x3c)
		config->event = 0xc0;
}

static bool is_freeze(uint64_t request)
{
	return request == PTRACE_FREEZE || request == PTRACE_FREEZE_STATUS;
}

int main(uint64_t argument)
{
	uint64_t done[4] = {0}, reads = 0, made = 0;
	int64_t end = now_us() + LONGEST_US;

	state = argument & UINT32_MAX;
	set_handlers(do_nothing);
	for (unsigned i = 0; i < CHILDREN; i++)
		start(i);
	for (; made < argument >> 32 && (made < LEAST || now_us() < end); made++) {
		uint64_t request = random_request(), data = random_data(request);
		uint64_t address;
		long result, pid;

		if (request == PTRACE_TRACEME)
			continue;
		if (request == PTRACE_BTS_CONFIG)
			fill_bts();
		if (request == PTRACE_PEBS_CONFIG)
			fill_pebs();
		if (request == PTRACE_LBR_CONFIG)
			fill_lbr();
		address = random_address(request, data);
		pid = is_freeze(request) && below(20) ? 0 : random_pid();
		if (request == PTRACE_PEBS_CONFIG && pid == getpid())
			sample_no_cycles();
		result = ptrace((long)request, pid, address, data);
		if (pid == getpid())
			trace_itself_no_more();
		if (request == PTRACE_INTERRUPT || request == PTRACE_CONT)
			yield(); /* it stops, or gets on */
		done[0] += request == PTRACE_BTS_CONFIG && result == 24;
		done[1] += request == PTRACE_PEBS_CONFIG && result >= 72;
		done[2] += request == PTRACE_LBR_CONFIG && result == 32;
		done[3] += request == PTRACE_FREEZE_STATUS && result > 0;
		reads += request == PTRACE_PEBS_DRAIN && result > 0;
		if (!below(200))
			kill(pids[below(CHILDREN)], SIGKILL);
		replace_ended((unsigned)below(CHILDREN));
	}
	for (unsigned i = 0; i < CHILDREN; i++)
		kill(pids[i], SIGKILL);
	say_number(made, 10);
	say(" requests, ");
	say_number(done[0], 10);
	say(" buffers of branches, ");
	say_number(done[1], 10);
	say(" of samples, ");
	say_number(done[2], 10);
	say(" of the newest, ");
	say_number(done[3], 10);
	say(" frozen, ");
	say_number(reads, 10);
	say(" read\n");
	return 42;
}
