// SPDX-License-Identifier: MIT
// One session on all CPUs at once, of samples and of counts: docs/ptrace-pebs.2, Tracing all CPUs.
// argument: CPUs in the low byte, then how many were left out; bit 16: samples have a TSC; bit 17:
// may see kernel addresses; bit 18: samples have branches; bits 32 and up: the event.
#include "abi/ptrace_pebs.h"
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

enum { MOST = 200, CPUS = 8, EACH = 9, NEWEST = 3 };
#define ALL PTRACE_PEBS_ALL_CPUS

struct with_branches {
	struct ptrace_pebs_sample sample;
	struct ptrace_pebs_branch branches[NEWEST];
};

static struct with_branches room[MOST];
static size_t unit = sizeof(struct ptrace_pebs_sample); /* bytes of each sample that is there */
static unsigned cpus, left_out;
static uint32_t event;
static bool has_tsc;

static const struct with_branches *sample_at(long n)
{
	return (const void *)((unsigned char *)room + (size_t)n * unit);
}

static struct ptrace_pebs_config config_of(uint64_t flags)
{
	struct ptrace_pebs_config config = {
		.size = EACH * unit, .flags = flags, .period = 500, .event = event};

	if (unit == sizeof(struct with_branches))
		config.branches = NEWEST;

	if (flags & PTRACE_PEBS_COUNT) {
		config.size = sizeof(uint64_t);
		config.period = 0;
	}
	return config;
}

static long configure(long pid, uint64_t flags, char *holder)
{
	struct ptrace_pebs_config config = config_of(flags);
	size_t bytes = config.branches ? sizeof(config) : PTRACE_PEBS_CONFIG_BYTES_1;
	long result = ptrace(PTRACE_PEBS_CONFIG, pid, (uint64_t)&config, bytes);

	CHECK(result < 0 || (size_t)result == bytes);
	for (unsigned i = 0; holder && i < sizeof(config.holder); i++)
		holder[i] = config.holder[i];
	return result;
}

static long end(long pid)
{
	struct ptrace_pebs_config none = {.size = 0};

	return ptrace(PTRACE_PEBS_CONFIG, pid, (uint64_t)&none, sizeof(none));
}

static void run_there(unsigned cpu, long *pid)
{
	*pid = fork();
	CHECK(*pid >= 0);
	if (*pid)
		return;
	CHECK(set_affinity(0, 1ul << cpu) == 0);
	for (;;)
		walk(100);
}

static void expect_left_out(const char *left)
{
	unsigned named = left[0] != 0;

	for (; *left; left++)
		named += *left == ',';
	CHECK(named == left_out);
}

/* In order of time, or else of CPUs; each CPU is there. */
static void expect_order(long count, uint64_t *seen)
{
	const struct ptrace_pebs_sample *before = NULL;

	for (long i = 0; i < count; i++) {
		const struct ptrace_pebs_sample *sample = &sample_at(i)->sample;
		uint64_t cpu = sample->pid_cpu >> 32;

		CHECK(cpu < cpus && !(sample->has & PTRACE_PEBS_HAS_TSC) == !has_tsc);
		seen[cpu]++;
		if (before)
			CHECK(has_tsc ? before->tsc <= sample->tsc : before->pid_cpu >> 32 <= cpu);
		before = sample;
	}
}

/* From where a branch goes the program goes on to the next one. A switch leaves fewer of them. */
static void expect_branches(long count)
{
	uint64_t whole[CPUS] = {0};

	for (long i = 0; i < count; i++) {
		const struct ptrace_pebs_branch *branch = sample_at(i)->branches;
		unsigned n = 0;

		CHECK(sample_at(i)->sample.has & PTRACE_PEBS_HAS_BRANCHES);
		for (; n < NEWEST && branch[n].from; n++) {
			CHECK(!(branch[n].from >> 63) && !(branch[n].to >> 63));
			CHECK(!n || branch[n - 1].from - branch[n].to < 4096);
		}
		whole[sample_at(i)->sample.pid_cpu >> 32] += n == NEWEST;
		for (; n < NEWEST; n++)
			CHECK(!branch[n].from && !branch[n].to);
	}
	for (unsigned i = 0; i < cpus; i++)
		CHECK(whole[i] > 0);
}

/* All is as STOP left it: every buffer is full. A few at a time and all at once are the same. */
static void read_all(void)
{
	uint64_t seen[CPUS] = {0}, again[CPUS] = {0}, after = (uint64_t)sample_at(7);
	struct with_branches eighth = {.sample = {0}};
	long more;

	while (ptrace(PTRACE_PEBS_SIZE, ALL, 0, 0) < (long)cpus * EACH)
		sleep_us(20000);
	CHECK(ptrace(PTRACE_PEBS_READ, ALL, (uint64_t)room, MOST * unit) == cpus * EACH);
	expect_order(cpus * EACH, seen);
	if (unit == sizeof(struct with_branches))
		expect_branches(cpus * EACH);
	__builtin_memcpy(&eighth, sample_at(7), unit);
	CHECK(ptrace(PTRACE_PEBS_DRAIN, ALL, (uint64_t)room, 7 * unit) == 7);
	CHECK(ptrace(PTRACE_PEBS_READ, ALL, after, unit) == 1);
	for (size_t i = 0; i < unit / sizeof(uint64_t); i++)
		CHECK(((const uint64_t *)&eighth)[i] == ((const uint64_t *)sample_at(7))[i]);
	CHECK(ptrace(PTRACE_PEBS_DRAIN, ALL, 8, unit) == -EFAULT);
	CHECK(ptrace(PTRACE_PEBS_DRAIN, ALL, after, unit - 8) == -EIO);
	more = ptrace(PTRACE_PEBS_DRAIN, ALL, after, (MOST - 7) * unit);
	CHECK(more >= cpus * EACH - 7);
	expect_order(7 + more, again);
	for (unsigned i = 0; i < cpus; i++)
		CHECK(seen[i] == EACH && again[i] >= EACH);
}

static void sample_all(uint64_t flags)
{
	char left[PTRACE_PEBS_HOLDER];

	CHECK(configure(ALL, flags, left) > 0);
	expect_left_out(left);
	read_all();
	CHECK(end(ALL) > 0);
	CHECK(ptrace(PTRACE_PEBS_SIZE, ALL, 0, 0) == -ENXIO);
}

static void count_all(void)
{
	uint64_t before[CPUS], after[CPUS];
	unsigned more;

	CHECK(configure(ALL, PTRACE_PEBS_COUNT | PTRACE_PEBS_USER, NULL) > 0);
	CHECK(ptrace(PTRACE_PEBS_SIZE, ALL, 0, 0) == cpus);
	sleep_us(20000); /* more events than between the next calls: DRAIN leaves them */
	CHECK(ptrace(PTRACE_PEBS_DRAIN, ALL, (uint64_t)before, sizeof(before)) == cpus);
	do {
		CHECK(ptrace(PTRACE_PEBS_READ, ALL, (uint64_t)after, sizeof(after)) == cpus);
		more = 0;
		for (unsigned i = 0; i < cpus; i++) {
			CHECK(after[i] >= before[i]);
			more += after[i] > before[i];
		}
	} while (more < cpus);
	CHECK(ptrace(PTRACE_PEBS_READ, ALL, (uint64_t)after, 7) == -EIO);
	CHECK(end(ALL) > 0);
	CHECK(ptrace(PTRACE_PEBS_SIZE, ALL, 0, 0) == -ENXIO);
}

/* Another has a counter of one CPU: none of the others is left with a part of the session. */
static void all_or_none(uint64_t flags)
{
	struct ptrace_pebs_config config = config_of(flags | PTRACE_PEBS_COUNTER);
	long last = PTRACE_PEBS_CPU(cpus - 1), other = fork();
	int status;

	if (!other) {
		CHECK(ptrace(PTRACE_PEBS_CONFIG, last, (uint64_t)&config, sizeof(config)) > 0);
		kill(getpid(), SIGSTOP);
		exit(0);
	}
	CHECK(wait4(other, &status, WUNTRACED) == other && status == WAIT_STOPPED(SIGSTOP));
	CHECK(ptrace(PTRACE_PEBS_CONFIG, ALL, (uint64_t)&config, sizeof(config)) == -EBUSY);
	for (unsigned i = 0; i < 14; i++)
		CHECK(config.holder[i] == "tracer of CPU "[i]);
	CHECK(ptrace(PTRACE_PEBS_SIZE, ALL, 0, 0) == -ENXIO);
	if (cpus > 1) {
		CHECK(ptrace(PTRACE_PEBS_CONFIG, PTRACE_PEBS_CPU(0), (uint64_t)&config,
			     sizeof(config)) > 0);
		CHECK(end(PTRACE_PEBS_CPU(0)) > 0);
	}
	kill(other, SIGKILL);
	CHECK(wait4(other, NULL, 0) == other);
}

static bool is_any_full(void)
{
	struct ptrace_pebs_config status;

	CHECK(ptrace(PTRACE_PEBS_STATUS, ALL, (uint64_t)&status, sizeof(status)) > 0);
	return status.flags & PTRACE_PEBS_FULL;
}

static void end_those_from(unsigned first, const long pids[])
{
	for (unsigned i = first; i < cpus; i++) {
		kill(pids[i], SIGKILL);
		CHECK(wait4(pids[i], NULL, 0) == pids[i]);
	}
}

/* CPU 0 is the first to have no program, since this one runs on the last: its buffer is never full.
   What was drained does not come back, and no buffer is full then. */
static void fill_but_one(const long pids[], uint64_t flags)
{
	CHECK(set_affinity(0, 1ul << (cpus - 1)) == 0);
	kill(pids[0], SIGKILL);
	CHECK(wait4(pids[0], NULL, 0) == pids[0] && configure(ALL, flags, NULL) > 0);
	while (ptrace(PTRACE_PEBS_SIZE, ALL, 0, 0) < (long)(cpus - 1) * EACH)
		sleep_us(20000);
	CHECK(is_any_full());
	end_those_from(1, pids);
	CHECK(ptrace(PTRACE_PEBS_DRAIN, ALL, (uint64_t)room, MOST * unit) >= (cpus - 1) * EACH);
	CHECK(ptrace(PTRACE_PEBS_SIZE, ALL, 0, 0) < EACH && !is_any_full());
}

int main(uint64_t argument)
{
	uint64_t flags = PTRACE_PEBS_STOP | PTRACE_PEBS_USER;
	long pids[CPUS];

	cpus = argument & 0xff;
	left_out = argument >> 8 & 0xff;
	has_tsc = argument >> 16 & 1;
	event = (uint32_t)(argument >> 32);
	if (!(argument >> 17 & 1)) {
		CHECK(configure(ALL, flags, NULL) == -EPERM);
		return 0;
	}
	CHECK(ptrace(PTRACE_BTS_SIZE, ALL, 0, 0) == -ESRCH);
	for (unsigned i = 0; i < cpus; i++)
		run_there(i, &pids[i]);
	CHECK(configure(ALL, flags | PTRACE_PEBS_CUT_SIZE, NULL) == -EINVAL);
	sample_all(flags);
	if (argument >> 18 & 1) {
		unit = sizeof(struct with_branches);
		sample_all(flags);
		unit = sizeof(struct ptrace_pebs_sample);
	}
	all_or_none(flags);
	count_all();
	if (cpus > 1)
		fill_but_one(pids, flags);
	else
		end_those_from(0, pids);
	return 0;
}
