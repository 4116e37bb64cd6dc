// SPDX-License-Identifier: MIT
// A program trusts the length in a message and overwrites its own return address. It ends at an
// address that is no code, and its stack says nothing any more: only the branches that the
// processor kept say by which way it went there. `make demo` runs this and adds lines of this file
// to them.
#include "tests/user/lib/ptrace.h"

#define SHOWN	12
#define NOWHERE 0x616161616161 /* "aaaaaa" */

/* --- The program that crashes: a server of messages --- */

struct message {
	unsigned length; /* words */
	uint64_t text[16];
};

static const struct message messages[] = {
	{2, {1, 2}},
	{16, {[0 ... 15] = NOWHERE}},
};

static NOINLINE uint64_t checksum(const uint64_t *words, unsigned length)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < length; i++)
		sum += words[i];
	return sum;
}

/* Has room for eight words, and does not ask whether there are more. */
static NOINLINE uint64_t handle(const struct message *message)
{
	volatile uint64_t copy[8];

	for (unsigned i = 0; i < message->length; i++)
		copy[i] = message->text[i];
	return copy[0];
}

static NOINLINE void serve(uint64_t argument)
{
	uint64_t sum = 0;

	(void)argument;
	for (unsigned i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		sum += checksum(messages[i].text, messages[i].length);
		sum += handle(&messages[i]);
	}
	exit((int)sum);
}

const struct name names[] = {
	{checksum, "checksum"}, {handle, "handle"}, {serve, "serve"}, {NULL, NULL}};

/* --- The tracer --- */

#include "abi/ptrace_lbr.h"

#define ENTRIES 32 /* of an LBR stack, at most */

/* The argument: 0: they are read out of a buffer of BTS; 1: out of the LBR stack. */
static bool by_stack;

static long keep_branches(long pid)
{
	struct ptrace_lbr_config config = {.entries = ENTRIES};

	return by_stack ? ptrace(PTRACE_LBR_CONFIG, pid, (uint64_t)&config, sizeof(config))
			: trace_branches(pid, 100, PTRACE_BTS_TRACE, 0);
}

/* The branch before the `n` newest. Returns false if there is none. */
static bool get_branch(long pid, uint64_t n, struct ptrace_bts_record *record)
{
	static struct ptrace_lbr_branch branches[ENTRIES];
	long count;

	if (!by_stack)
		return ptrace(PTRACE_BTS_GET, pid, (uint64_t)record, n) > 0;
	count = ptrace(PTRACE_LBR_READ, pid, (uint64_t)branches, sizeof(branches));
	if (count <= (long)n)
		return false;
	record->from = branches[n].from;
	record->to = branches[n].to;
	return true;
}

/* Newest first; a branch that was taken several times in a row is one line. */
static void show_last_branches(long pid)
{
	struct ptrace_bts_record record, next;
	bool more = get_branch(pid, 0, &record);

	CHECK(more);
	for (uint64_t shown = 0, i = 1; shown < SHOWN && more; shown++) {
		unsigned times = 1;

		while ((more = get_branch(pid, i++, &next)) && next.from == record.from &&
		       next.to == record.to)
			times++;
		say("  ");
		say_place(record.from);
		say(" -> ");
		say_place(record.to);
		if (times > 1) {
			say(", times ");
			say_number(times, 10);
		}
		say("\n");
		record = next;
	}
	if (!more)
		say("  older ones were not kept\n");
}

int main(uint64_t argument)
{
	long pid = traced_child(serve, argument);
	struct ptrace_registers registers;

	by_stack = argument;
	CHECK(keep_branches(pid) > 0);
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGSEGV));
	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
	say("SIGSEGV at ");
	say_place(registers.rip);
	say("; last branches, newest first:\n");
	show_last_branches(pid);
	CHECK(go_on(pid, SIGSEGV) == 0 && next_stop(pid) == WAIT_KILLED(SIGSEGV));
	return 0;
}
