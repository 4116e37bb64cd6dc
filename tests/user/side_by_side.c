// SPDX-License-Identifier: MIT
// The same code by both halves of the Debug Store at once: every branch that it takes (BTS), and
// every 32nd of its events with the registers (PEBS). Prints both by function, and finds each
// sample of a taken branch among the branches.
#include "abi/ptrace_pebs.h"
#include "tests/user/lib/ptrace.h"

#define PERIOD	31
#define RECORDS 20000
#define SAMPLES 1000

/* --- The program that is traced --- */

static NOINLINE unsigned steps_to_one(unsigned n)
{
	unsigned steps = 0;

	for (; n != 1; steps++)
		n = n % 2 ? 3 * n + 1 : n / 2;
	return steps;
}

static NOINLINE unsigned common_divisor(unsigned a, unsigned b)
{
	while (a != b)
		if (a > b)
			a -= b;
		else
			b -= a;
	return a;
}

static NOINLINE void work(uint64_t rounds)
{
	unsigned sum = 0;

	for (unsigned i = 1; i <= rounds; i++)
		sum += steps_to_one(i) + common_divisor(i, 7);
	CHECK(sum > 0);
	__asm__ volatile("int3");
}

const struct name names[] = {{steps_to_one, "steps_to_one"},
			     {common_divisor, "common_divisor"},
			     {work, "work"},
			     {NULL, NULL}};

/* --- The tracer --- */

static struct ptrace_bts_record branches[RECORDS];
static struct ptrace_pebs_sample samples[SAMPLES];
static long branch_count, sample_count;

/* Taken branches where the processor has an event of them, branches, or instructions. */
static uint32_t take_samples(long pid)
{
	static const uint32_t events[] = {PTRACE_PEBS_BR_INST_RETIRED_NEAR_TAKEN,
					  PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES,
					  PTRACE_PEBS_INST_RETIRED};
	struct ptrace_pebs_config config = {
		.size = sizeof(samples), .flags = PTRACE_PEBS_STOP, .period = PERIOD};
	long result = -EOPNOTSUPP;

	for (unsigned i = 0; result == -EOPNOTSUPP && i < 3; i++) {
		config.event = events[i];
		result = ptrace(PTRACE_PEBS_CONFIG, pid, (uint64_t)&config, sizeof(config));
	}
	CHECK(result > 0);
	return config.event;
}

static uint64_t place_of(const struct ptrace_pebs_sample *sample)
{
	return sample->has & PTRACE_PEBS_HAS_EVENT_IP ? sample->event_ip : sample->ip;
}

static void show_functions(void)
{
	for (const struct name *name = names; name->start; name++) {
		uint64_t taken = 0, sampled = 0;

		for (long i = 0; i < branch_count; i++)
			taken += find_name(branches[i].from) == name;
		for (long i = 0; i < sample_count; i++)
			sampled += find_name(place_of(&samples[i])) == name;
		say("  ");
		say(name->name);
		say(": ");
		say_number(taken, 10);
		say(" branches, ");
		say_number(sampled, 10);
		say(" samples\n");
	}
}

/* Both ends, as far as the processor says them. */
static bool is_of(const struct ptrace_pebs_sample *sample, const struct ptrace_bts_record *branch)
{
	return (branch->to == sample->ip || !(sample->has & PTRACE_PEBS_HAS_IP)) &&
	       (branch->from == sample->event_ip || !(sample->has & PTRACE_PEBS_HAS_EVENT_IP));
}

/* In order: each is looked for after the one before. */
static uint64_t find_samples(void)
{
	uint64_t found = 0;
	long at = 0;

	for (long i = 0; i < sample_count; i++) {
		long from = at;

		while (at < branch_count && !is_of(&samples[i], &branches[at]))
			at++;
		if (at == branch_count)
			at = from;
		else
			found++;
	}
	return found;
}

int main(uint64_t argument)
{
	long pid = traced_child(work, argument);
	uint32_t event = take_samples(pid);
	uint64_t found;

	CHECK(trace_branches(pid, RECORDS, PTRACE_BTS_TRACE | PTRACE_BTS_STOP, 0) > 0);
	CHECK(go_on(pid, 0) == 0);
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	branch_count = ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)branches, sizeof(branches));
	sample_count = ptrace(PTRACE_PEBS_DRAIN, pid, (uint64_t)samples, sizeof(samples));
	CHECK(branch_count > 0 && sample_count > 0);
	end_child(pid);
	say_number((uint64_t)branch_count, 10);
	say(" branches, ");
	say_number((uint64_t)sample_count, 10);
	say(" samples\n");
	show_functions();
	found = find_samples();
	say_number(found, 10);
	say(" samples are of taken branches\n");
	if (event == PTRACE_PEBS_BR_INST_RETIRED_NEAR_TAKEN)
		CHECK(found == (uint64_t)sample_count);
	return 0;
}
