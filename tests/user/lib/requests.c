// SPDX-License-Identifier: MIT
// What a debugger asks of the buffers of a stopped child: branches and samples.
#include "abi/ptrace_pebs.h"
#include "tests/user/lib/contents.h"

#define MOST_RECORDS 5000 /* of a buffer that is not to have room for all */
#define MOST_SAMPLES 500

uint64_t random_state;
static struct ptrace_bts_record records[MOST];

uint32_t random(uint32_t below)
{
	return (uint32_t)random_below(&random_state, below);
}

static void ask_size(void)
{
	expect("SIZE", (uint64_t)ptrace(PTRACE_BTS_SIZE, run.pid, 0, 0), contents_count);
}

static void get_one(void)
{
	uint32_t index = random(random(2) ? contents_count + 2 : 3);
	long result = ptrace(PTRACE_BTS_GET, run.pid, (uint64_t)records, index);

	expect("GET", (uint64_t)result, index < contents_count ? RECORD : (uint64_t)-EINVAL);
	if (index < contents_count)
		expect_same("GET", records, &contents[contents_count - 1 - index], index);
}

static void copy_some(const char *what, long request, uint32_t most)
{
	uint32_t count = most < contents_count ? most : contents_count;

	expect(what, (uint64_t)copy_records(request, records, most), count);
	for (uint32_t i = 0; i < count; i++)
		expect_same(what, &records[i], &contents[i], i);
	if (request == PTRACE_BTS_DRAIN)
		contents_drop(count);
}

/* Some, all but one, all, or more than there are. */
static uint32_t some(void)
{
	uint32_t count =
		random(2) ? contents_count + 2 - random(4) : 1 + random(contents_count + 1);

	return count && count <= MOST ? count : 1;
}

/* What is read stays: where it cannot be foretold how much of the buffer is taken, it stays full.
 */
static bool can_drop(void)
{
	return run.exact || run.mode != STOP;
}

static void read_some(void)
{
	copy_some("READ", PTRACE_BTS_READ, some());
}

void read_all(void)
{
	copy_some("READ of all", PTRACE_BTS_READ, MOST);
}

static void drain_some(void)
{
	if (can_drop())
		copy_some("DRAIN", PTRACE_BTS_DRAIN, some());
}

static void drain_all(void)
{
	if (can_drop())
		copy_some("DRAIN of all", PTRACE_BTS_DRAIN, MOST);
}

void drain(bool all)
{
	all ? drain_all() : drain_some();
}

static void clear(void)
{
	if (!can_drop())
		return;
	expect("CLEAR", (uint64_t)ptrace(PTRACE_BTS_CLEAR, run.pid, 0, 0), 0);
	contents_clear();
}

void ask_status(void)
{
	struct ptrace_bts_config config;
	uint32_t states, expected = contents_states(&states);

	expect("STATUS",
	       (uint64_t)ptrace(PTRACE_BTS_STATUS, run.pid, (uint64_t)&config, sizeof(config)),
	       sizeof(config));
	expect("STATUS, size", config.size, run.size * RECORD);
	expect("STATUS, flags", config.flags & PTRACE_BTS_SETTABLE, run.flags);
	expect("STATUS, LOST and others", config.flags & states, expected & states);
}

void configure(void)
{
	struct ptrace_bts_config config = {(uint32_t)(run.size * RECORD + random(RECORD)),
					   run.flags, run.mode == SIGNAL ? SIGUSR2 : 0,
					   random(2) ? RECORD : 0};

	expect("CONFIG",
	       (uint64_t)ptrace(PTRACE_BTS_CONFIG, run.pid, (uint64_t)&config, sizeof(config)),
	       sizeof(config));
}

/* The same size keeps the records, and whether any were lost. */
static void configure_again(void)
{
	if (!random(4))
		run.flags ^= PTRACE_BTS_TRACE;
	if (!random(4))
		run.flags ^= PTRACE_BTS_CUT_SIZE;
	configure();
}

static uint32_t draw_large(void)
{
	uint32_t stamps = run.flags & PTRACE_BTS_SCHED ? MOST_STAMPS : 0;

	if (run.flags & PTRACE_BTS_KERNEL) /* it is drained at each stop */
		return 3000 + random(1000);
	return expected_count() + 340 + stamps + random(200);
}

static uint32_t draw_size(void)
{
	uint32_t size = 1 + random(1u << (1 + random(13)));

	if (run.large)
		return draw_large();
	if (run.flags & PTRACE_BTS_KERNEL && run.mode == SIGNAL)
		size += 600; /* to get from stop to stop: the kernel's way is itself recorded */
	if (run.flags & PTRACE_BTS_SCHED && run.mode == STOP)
		size += 3; /* arrival, gap, departure */
	return size < MOST_RECORDS ? size : MOST_RECORDS;
}

static void configure_anew(void)
{
	uint32_t size = draw_size();

	if (size == run.size)
		return;
	run.size = size;
	configure();
	contents_clear();
}

void use_buffer(uint32_t calls, bool can_configure)
{
	static void (*const requests[])(void) = {
		ask_size,   get_one, get_one,	get_one,    read_some,	     read_all,
		drain_some, clear,   drain_all, ask_status, configure_again, configure_anew};
	const uint32_t kinds = sizeof(requests) / sizeof(requests[0]);

	if (!calls || !run.branches)
		return;
	contents_find();
	while (calls--) {
		requests[random(can_configure ? kinds : kinds - 2)]();
		figures.calls++;
	}
}

void draw_buffer(bool privileged)
{
	static const uint32_t modes[] = {0, PTRACE_BTS_SIGNAL, PTRACE_BTS_STOP};

	run.mode = random(2) ? WRAP : random(3);
	run.flags = PTRACE_BTS_TRACE | modes[run.mode];
	run.flags |= random(4) ? 0u : PTRACE_BTS_SCHED;
	run.flags |= random(4) ? 0u : PTRACE_BTS_CUT_SIZE;
	run.flags |= privileged && !random(3) && (!run.large || run.mode == SIGNAL)
			     ? PTRACE_BTS_KERNEL
			     : 0u;
	run.flags |= !(run.flags & PTRACE_BTS_KERNEL) || random(4) ? PTRACE_BTS_USER : 0u;
	run.exact = !(run.flags & (PTRACE_BTS_SCHED | PTRACE_BTS_KERNEL));
	run.size = draw_size();
}

/* --- Samples --- */

static struct ptrace_pebs_sample samples[MOST_SAMPLES];

static struct {
	uint64_t period; /* 0: none are taken */
	uint64_t count;
	bool are_all;	  /* each branch that is taken is an event */
	uint32_t branch;  /* the number of the one after the newest sample's */
	uint64_t missing; /* what STATUS said of samples that are missing */
} samplings[EXPECTED_PROCESSES];
#define sampling samplings[run.process]

void take_samples(void)
{
	struct ptrace_pebs_config config = {
		.size = sizeof(samples),
		.flags = PTRACE_PEBS_STOP,
		.period = 2 + random(50) + (run.large ? expected_count() / 100 : 0),
		.event = PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES + random(5)};
	long result;

	__builtin_memset(&sampling, 0, sizeof(sampling));
	if (random(2))
		return;
	result = ptrace(PTRACE_PEBS_CONFIG, run.pid, (uint64_t)&config, sizeof(config));
	if (result == -EOPNOTSUPP || result == -EBUSY)
		return; /* no such event, or no PEBS; or it is somebody else's */
	expect("PEBS_CONFIG", (uint64_t)result, sizeof(config));
	sampling.period = config.period;
	sampling.are_all = config.event == PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES ||
			   config.event == PTRACE_PEBS_BR_INST_RETIRED_NEAR_TAKEN;
}

/* It is of an instruction that fell through, or of a branch after those of the samples before. */
static void check_sample(const struct ptrace_pebs_sample *sample)
{
	const uint64_t both = PTRACE_PEBS_HAS_IP | PTRACE_PEBS_HAS_EVENT_IP;
	bool in_kernel =
		sample->event_ip >> 63 || (sample->ip >> 63 && !generated_leaves(sample->ip));
	struct ptrace_bts_record branch;

	if ((sample->has & both) != both || in_kernel || sample->ip == sample->event_ip ||
	    sample->ip == generated_next(sample->event_ip))
		return;
	do {
		if (sampling.branch >= run.taken)
			wrong("a sample of no branch", sample->event_ip, sample->ip);
		branch = expected_branch(sampling.branch++);
	} while (branch.from != sample->event_ip || branch.to != sample->ip);
}

#define LONGEST_SKID 64 /* events; the suite's own, tests/lib/pebs_rig.h */

/* At a stop at which the child has taken run.taken branches. */
void read_samples(void)
{
	const uint64_t missing =
		PTRACE_PEBS_LOST | PTRACE_PEBS_TRUNCATED | PTRACE_PEBS_FULL | PTRACE_PEBS_BLOCKED;
	struct ptrace_pebs_config status;
	uint64_t least;
	long count;

	if (!sampling.period)
		return;
	CHECK(ptrace(PTRACE_PEBS_STATUS, run.pid, (uint64_t)&status, sizeof(status)) > 0);
	sampling.missing |= status.flags & missing;
	count = ptrace(PTRACE_PEBS_DRAIN, run.pid, (uint64_t)samples, sizeof(samples));
	CHECK(count >= 0);
	for (long i = 0; i < count; i++)
		check_sample(&samples[i]);
	figures.samples += (uint64_t)count;
	sampling.count += (uint64_t)count;
	/* A processor arms after a finite delay (SDM Vol 3, 18.9.4.4); one may be about to be
	 * taken. */
	least = run.taken / (sampling.period + 1 + LONGEST_SKID);
	if (sampling.are_all && !(status.flags & missing) && sampling.count + 1 < least)
		wrong("samples are missing", sampling.count, least);
}

void samples_end(void)
{
	if (!sampling.period)
		return;
	read_samples();
	if (sampling.missing & PTRACE_PEBS_BLOCKED)
		mark("samples-blocked", 0);
	else if (sampling.missing)
		mark(sampling.missing & PTRACE_PEBS_FULL ? "samples-full" : "samples-lost", 0);
}
