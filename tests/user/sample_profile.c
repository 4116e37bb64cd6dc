// SPDX-License-Identifier: MIT
// A profiler that takes samples: every 500th instruction of another program says in which function
// it is. Prints the functions by their share. The program is slowed down by its samples only.
#include "abi/ptrace_pebs.h"
#include "tests/user/lib/ptrace.h"

#define PERIOD	499
#define SAMPLES 256 /* of a buffer */

/* --- The program that is profiled --- */

static NOINLINE unsigned sum_up_to(unsigned n)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++)
		__asm__ volatile("add %1, %0" : "+r"(sum) : "r"(i));
	return sum;
}

static NOINLINE unsigned largest_divisor(unsigned n)
{
	unsigned divisor = n - 1;

	while (n % divisor)
		divisor--;
	return divisor;
}

static NOINLINE unsigned count_ones(unsigned n)
{
	unsigned ones = 0;

	for (; n; n &= n - 1)
		ones++;
	return ones;
}

static NOINLINE void work(uint64_t rounds)
{
	unsigned total = 0;

	for (unsigned i = 0; i < rounds; i++)
		total += sum_up_to(600) + largest_divisor(211) + count_ones(0xffff);
	CHECK(total > 0);
}

const struct name names[] = {{sum_up_to, "sum_up_to"},
			     {largest_divisor, "largest_divisor"},
			     {count_ones, "count_ones"},
			     {work, "work"},
			     {NULL, NULL}};

/* --- The profiler --- */

enum { FUNCTIONS = 4 };

static uint64_t counts[FUNCTIONS], total;

static void count(const struct ptrace_pebs_sample *sample)
{
	bool has = sample->has & PTRACE_PEBS_HAS_EVENT_IP;
	const struct name *name = find_name(has ? sample->event_ip : sample->ip);

	total++;
	if (name)
		counts[name - names]++;
}

static void drain(long pid)
{
	static struct ptrace_pebs_sample samples[SAMPLES];
	long n;

	while ((n = ptrace(PTRACE_PEBS_DRAIN, pid, (uint64_t)samples, sizeof(samples))) > 0)
		for (long i = 0; i < n; i++)
			count(&samples[i]);
	CHECK(n == 0);
}

static void show_functions(void)
{
	for (unsigned shown = 0; shown < FUNCTIONS; shown++) {
		unsigned most = 0;

		for (unsigned i = 0; i < FUNCTIONS; i++)
			if (counts[i] > counts[most])
				most = i;
		say("  ");
		say_number(counts[most] * 100 / total, 10);
		say(" % ");
		say(names[most].name);
		say("\n");
		counts[most] = 0;
	}
}

int main(uint64_t argument)
{
	long pid = traced_child(work, argument);
	struct ptrace_pebs_config config = {.size = SAMPLES * sizeof(struct ptrace_pebs_sample),
					    .flags = PTRACE_PEBS_SIGNAL,
					    .period = PERIOD,
					    .event = PTRACE_PEBS_INST_RETIRED};

	CHECK(ptrace(PTRACE_PEBS_CONFIG, pid, (uint64_t)&config, sizeof(config)) > 0);
	run_to_end(pid, EVENT(PTRACE_EVENT_PEBS) | WAIT_STOPPED(SIGPROF), drain);
	say_number(total, 10);
	say(" samples\n");
	show_functions();
	return 0;
}
