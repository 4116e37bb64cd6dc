// SPDX-License-Identifier: MIT
// Counts how often each branch of a program is taken: all of them, not a sample. The program stops
// whenever its buffer is nearly full.
#include "tests/user/lib/ptrace.h"

#define MOST_EDGES 64

/* --- The program that is profiled --- */

static NOINLINE unsigned steps_to_one(unsigned n)
{
	unsigned steps = 0;

	for (; n != 1; steps++)
		n = n % 2 ? 3 * n + 1 : n / 2;
	return steps;
}

static void collatz(uint64_t most)
{
	unsigned longest = 0;

	for (unsigned n = 1; n <= most; n++) {
		unsigned steps = steps_to_one(n);

		longest = steps > longest ? steps : longest;
	}
	CHECK(longest > 0);
}

const struct name names[] = {{steps_to_one, "steps_to_one"}, {collatz, "collatz"}, {NULL, NULL}};

/* --- The tracer --- */

static struct edge {
	uint64_t from, to, count;
} edges[MOST_EDGES];
static unsigned edge_count;
static uint64_t total;

static void count(const struct ptrace_bts_record *record)
{
	struct edge *edge = edges;

	while (edge < edges + edge_count && (edge->from != record->from || edge->to != record->to))
		edge++;
	CHECK(edge < edges + MOST_EDGES);
	if (edge == edges + edge_count)
		edges[edge_count++] = (struct edge){record->from, record->to, 0};
	edge->count++;
	total++;
}

static void drain(long pid)
{
	static struct ptrace_bts_record records[256];
	long n;

	while ((n = ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)records, sizeof(records))) > 0)
		for (long i = 0; i < n; i++)
			count(&records[i]);
	CHECK(n == 0);
}

static void show_calls(void)
{
	for (unsigned i = 0; i < edge_count; i++) {
		if (edges[i].to != (uint64_t)steps_to_one)
			continue;
		say("  ");
		say_number(edges[i].count, 10);
		say(" calls from ");
		say_place(edges[i].from);
		say(" to ");
		say_place(edges[i].to);
		say("\n");
	}
}

int main(uint64_t argument)
{
	long pid = traced_child(collatz, argument);
	uint64_t stops;

	CHECK(trace_branches(pid, 1000, PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL, SIGPROF) > 0);
	stops = run_to_end(pid, EVENT(PTRACE_EVENT_BTS) | WAIT_STOPPED(SIGPROF), drain);
	say_number(total, 10);
	say(" branches, ");
	say_number(stops, 10);
	say(" stops\n");
	show_calls();
	return 0;
}
