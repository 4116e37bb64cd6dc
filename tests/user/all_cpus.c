// SPDX-License-Identifier: MIT
// One session on all CPUs at once, of samples and of counts: docs/ptrace-pebs.2, Tracing all CPUs.
// argument: CPUs in the low byte, then how many were left out; bit 16: samples have a TSC; bit 17:
// may see kernel addresses; bits 32 and up: the event.
#include "abi/ptrace_pebs.h"
#include "tests/user/lib/ptrace.h"
#include "tests/user/lib/walk.h"

enum { MOST = 200, CPUS = 8, EACH = 9 };
#define ALL    PTRACE_PEBS_ALL_CPUS
#define SAMPLE sizeof(struct ptrace_pebs_sample)

static struct ptrace_pebs_sample samples[MOST];
static unsigned cpus, left_out;
static uint32_t event;
static bool has_tsc;

static struct ptrace_pebs_config config_of(uint64_t flags)
{
	struct ptrace_pebs_config config = {
		.size = EACH * SAMPLE, .flags = flags, .period = 500, .event = event};

	if (flags & PTRACE_PEBS_COUNT) {
		config.size = sizeof(uint64_t);
		config.period = 0;
	}
	return config;
}

static long configure(long pid, uint64_t flags, char *holder)
{
	struct ptrace_pebs_config config = config_of(flags);
	long result = ptrace(PTRACE_PEBS_CONFIG, pid, (uint64_t)&config, sizeof(config));

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

/* In order of time, or else of CPUs; each CPU is there. */
static void expect_order(long count, uint64_t *seen)
{
	for (long i = 0; i < count; i++) {
		uint64_t cpu = samples[i].pid_cpu >> 32;

		CHECK(cpu < cpus && !(samples[i].has & PTRACE_PEBS_HAS_TSC) == !has_tsc);
		seen[cpu]++;
		if (!i)
			continue;
		CHECK(has_tsc ? samples[i - 1].tsc <= samples[i].tsc
			      : samples[i - 1].pid_cpu >> 32 <= cpu);
	}
}

/* All is as STOP left it: every buffer is full. A few at a time and all at once are the same. */
static void read_all(void)
{
	uint64_t seen[CPUS] = {0}, again[CPUS] = {0};
	struct ptrace_pebs_sample oldest;
	long more;

	while (ptrace(PTRACE_PEBS_SIZE, ALL, 0, 0) < (long)cpus * EACH)
		sleep_us(20000);
	CHECK(ptrace(PTRACE_PEBS_READ, ALL, (uint64_t)samples, sizeof(samples)) == cpus * EACH);
	expect_order(cpus * EACH, seen);
	oldest = samples[7];
	CHECK(ptrace(PTRACE_PEBS_DRAIN, ALL, (uint64_t)samples, 7 * SAMPLE) == 7);
	CHECK(ptrace(PTRACE_PEBS_READ, ALL, (uint64_t)&samples[7], SAMPLE) == 1);
	CHECK(samples[7].tsc == oldest.tsc && samples[7].pid_cpu == oldest.pid_cpu &&
	      samples[7].general[1] == oldest.general[1]);
	CHECK(ptrace(PTRACE_PEBS_DRAIN, ALL, 8, SAMPLE) == -EFAULT);
	more = ptrace(PTRACE_PEBS_DRAIN, ALL, (uint64_t)&samples[7], (MOST - 7) * SAMPLE);
	CHECK(more >= cpus * EACH - 7);
	expect_order(7 + more, again);
	for (unsigned i = 0; i < cpus; i++)
		CHECK(seen[i] == EACH && again[i] >= EACH);
}

static void count_all(void)
{
	uint64_t before[CPUS], after[CPUS];
	unsigned more;

	CHECK(configure(ALL, PTRACE_PEBS_COUNT | PTRACE_PEBS_USER, NULL) > 0);
	CHECK(ptrace(PTRACE_PEBS_SIZE, ALL, 0, 0) == cpus);
	CHECK(ptrace(PTRACE_PEBS_READ, ALL, (uint64_t)before, sizeof(before)) == cpus);
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

static void expect_left_out(const char *left)
{
	unsigned named = left[0] != 0;

	for (; *left; left++)
		named += *left == ',';
	CHECK(named == left_out);
}

int main(uint64_t argument)
{
	char left[PTRACE_PEBS_HOLDER];
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
	CHECK(configure(ALL, flags, left) > 0);
	expect_left_out(left);
	read_all();
	CHECK(end(ALL) > 0);
	CHECK(ptrace(PTRACE_PEBS_SIZE, ALL, 0, 0) == -ENXIO);
	all_or_none(flags);
	count_all();
	for (unsigned i = 0; i < cpus; i++) {
		kill(pids[i], SIGKILL);
		CHECK(wait4(pids[i], NULL, 0) == pids[i]);
	}
	return 0;
}
