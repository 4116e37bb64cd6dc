// SPDX-License-Identifier: MIT
// view check: whether a trace can be what the code did.
#include "tools/view/filter.h"
#include "tools/view/pt.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <stdlib.h>
#include <string.h>

enum claim {
	CLAIM_WAY,	 /* each branch's source follows from the target of the one before */
	CLAIM_TARGET,	 /* a direct branch goes where its instruction says, or is an event */
	CLAIM_BRANCH,	 /* what is no branch instruction has an event's target */
	CLAIM_FLAGS,	 /* no bit but that of the prediction */
	CLAIM_CANONICAL, /* sources are canonical addresses */
	CLAIM_STAMPS,	 /* arrivals and departures alternate */
	CLAIM_TIME,	 /* and their times do not go back */
	CLAIM_GAPS,	 /* nothing is missing */
	CLAIM_DECODED,	 /* of a stream of packets: without an error, by both decoders alike */
	CLAIMS,
};

static const char *const claims[CLAIMS] = {
	[CLAIM_WAY] = "each branch follows from the one before",
	[CLAIM_TARGET] = "direct branches go where the code says",
	[CLAIM_BRANCH] = "other instructions only have events",
	[CLAIM_FLAGS] = "flags have no bit but 4",
	[CLAIM_CANONICAL] = "sources are canonical",
	[CLAIM_STAMPS] = "arrivals and departures alternate",
	[CLAIM_TIME] = "their times do not go back",
	[CLAIM_GAPS] = "nothing is missing",
	[CLAIM_DECODED] = "both decoders find the same branches in the packets",
};

struct check {
	const struct trace *trace;
	const struct trace_stream *stream;
	const struct space *space; /* of the task that runs */
	uint64_t at, at_index;	   /* the last branch's target and index; 0: unknown */
	bool arrived, any_stamp;
	uint64_t time, branches, walked, unknown;
	struct {
		uint64_t wrong, index;
		char first[256];
	} found[CLAIMS];
};

static unsigned claims_on(const struct trace_stream *stream)
{
	return stream->packets.count ? CLAIMS : CLAIM_DECODED;
}

static void wrong(struct check *check, enum claim claim, const struct cursor_item *item,
		  const char *what)
{
	char from[256], to[256];

	if (check->found[claim].wrong++)
		return;
	check->found[claim].index = item->index;
	snprintf(check->found[claim].first, sizeof(check->found[claim].first), "%s: %s -> %s", what,
		 space_describe(check->space, item->record.from, from, 100),
		 space_describe(check->space, item->record.to, to, 100));
}

/* How many of the entries are at or below an address. */
static size_t count_entries(const struct trace *trace, uint64_t address)
{
	return COUNT_FIRST(trace->entry_count, at, trace->entries[at] <= address);
}

static bool is_entry(const struct trace *trace, uint64_t address)
{
	size_t count = count_entries(trace, address);

	return count && trace->entries[count - 1] == address;
}

#define ENTRIES_NEAR 16 /* that are tried: within 256 bytes a sender has no more */

/* Of a view of the kernel alone: the way out to ring 3 and back in by one of the entries. */
static bool is_by_ring_3(const struct check *check, uint64_t from)
{
	const struct trace *trace = check->trace;
	uint64_t count;

	if (check->stream->view != PTRACE_BTS_KERNEL)
		return false;
	for (size_t i = count_entries(trace, from), tried = 0; i-- > 0 && tried < ENTRIES_NEAR;
	     tried++)
		if (from - trace->entries[i] < 256 &&
		    space_walk(check->space, trace->entries[i], from, &count) == WALK_WHOLE)
			return true;
	return false;
}

/*
 * Packets of ring 3 alone do not say that another task runs after a system call or interrupt, or a
 * handler of a signal.
 */
static bool is_by_kernel(const struct check *check)
{
	const struct trace_stream *stream = check->stream;

	return (stream->packets.count || stream->decoded) && stream->view == PTRACE_BTS_USER;
}

/* Linux keeps how the kernel returns to ring 3, also where it leaves its other branches out. */
static bool is_way_back(const struct check *check, const struct cursor_item *item)
{
	return check->stream->view == PTRACE_BTS_USER && item->record.from >> 63;
}

static void check_way(struct check *check, const struct cursor_item *item)
{
	uint64_t count;

	if (!check->at || is_way_back(check, item))
		return;
	switch (space_walk(check->space, check->at, item->record.from, &count)) {
	case WALK_WHOLE:
		check->walked++;
		return;
	case WALK_UNKNOWN:
		check->unknown++;
		return;
	case WALK_BROKEN:
		if (!is_by_ring_3(check, item->record.from) && !is_by_kernel(check))
			wrong(check, CLAIM_WAY, item, "not after the branch before");
	}
}

static bool is_event_target(const struct check *check, const struct trace_record *record)
{
	return is_entry(check->trace, record->to) ||
	       (!check->trace->entry_count && record->to >> 63);
}

static void check_branch(struct check *check, const struct cursor_item *item)
{
	const struct trace_record *record = &item->record;
	struct instruction instruction = space_instruction(check->space, record->from);

	if (instruction.direct && instruction.flow != FLOW_NONE &&
	    instruction.target != record->to && !is_event_target(check, record))
		wrong(check, CLAIM_TARGET, item, "the instruction has another target");
	if ((instruction.flow == FLOW_NONE || instruction.flow == FLOW_REPEAT) &&
	    !is_event_target(check, record))
		wrong(check, CLAIM_BRANCH, item, "the instruction is no branch");
	if (record->flags & ~TRACE_PREDICTED)
		wrong(check, CLAIM_FLAGS, item, "other bits are set");
	if ((uint64_t)((int64_t)(record->from << 7) >> 7) != record->from)
		wrong(check, CLAIM_CANONICAL, item, "not canonical");
}

static void check_stamp(struct check *check, const struct cursor_item *item)
{
	bool arrives = item->qualifier == PTRACE_BTS_TASK_ARRIVES;

	if (check->any_stamp && arrives == check->arrived)
		wrong(check, CLAIM_STAMPS, item, arrives ? "arrives twice" : "departs twice");
	if (item->record.to && item->record.to < check->time)
		wrong(check, CLAIM_TIME, item, "before the stamp before");
	check->any_stamp = true;
	check->arrived = arrives;
	check->time = item->record.to;
	check->at = 0;
}

static void check_item(struct check *check, const struct cursor_item *item)
{
	switch (item->kind) {
	case CURSOR_BRANCH:
		check->branches++;
		check_way(check, item);
		check_branch(check, item);
		check->at = item->record.to;
		return;
	case CURSOR_STAMP:
		check_stamp(check, item);
		return;
	case CURSOR_GAP:
		wrong(check, CLAIM_GAPS, item, "a gap");
		check->at = 0;
		return;
	default:
		return;
	}
}

/* By instructions and by blocks. */
static void check_packets(struct check *check)
{
	struct pt_decoded one = pt_decode(check->stream, PT_INSTRUCTIONS);
	struct pt_decoded two = pt_decode(check->stream, PT_BLOCKS);
	size_t at = 0;

	while (at < one.count && at < two.count &&
	       !memcmp(&one.records[at], &two.records[at], sizeof(*one.records)))
		at++;
	if (one.errors)
		wrong(check, CLAIM_DECODED, &(struct cursor_item){.index = one.error_at},
		      one.error);
	else if (at < one.count || at < two.count || one.instructions != two.instructions)
		wrong(check, CLAIM_DECODED, &(struct cursor_item){.index = at}, "they differ");
	free(one.records);
	free(two.records);
}

/* Prints the results of a stream; the number of those that failed. */
static unsigned print_results(const struct check *check, unsigned *number)
{
	unsigned failed = 0;
	char name[256];

	trace_stream_name(check->stream, name, sizeof(name));
	for (unsigned i = 0; i < claims_on(check->stream); i++) {
		bool bad = check->found[i].wrong;

		printf("%sok %u - %s: %s\n", bad ? "not " : "", ++*number, name, claims[i]);
		if (bad)
			printf("# %llu times, first at record %llu: %s\n",
			       (unsigned long long)check->found[i].wrong,
			       (unsigned long long)check->found[i].index, check->found[i].first);
		failed += bad;
	}
	printf("# %s: %llu branches, %llu ways walked, %llu through code that is not known\n", name,
	       (unsigned long long)check->branches, (unsigned long long)check->walked,
	       (unsigned long long)check->unknown);
	return failed;
}

static unsigned check_stream(const struct filter *filter, const struct trace *trace,
			     const struct trace_stream *stream, unsigned *number)
{
	struct check check = {.trace = trace, .stream = stream, .space = &stream->space};
	struct cursor_item item;
	struct cursor cursor;

	cursor_start(&cursor, trace, stream);
	while (cursor_next(&cursor, &item))
		if (filter_has_item(filter, &item)) {
			check.space = trace_space(stream, item.pid);
			check_item(&check, &item);
		}
	cursor_stop(&cursor);
	if (stream->packets.count)
		check_packets(&check);
	return print_results(&check, number);
}

int view_check(int argc, char **argv)
{
	struct filter filter = {0};
	struct trace *trace;
	unsigned number = 1, results = 1, failed = 0;
	char flaw[256];

	filter_parse(
		&filter, argc, argv,
		"Checks a trace against the code that ran, each pair of branches, and prints "
		"TAP. A code walk notices about three of four lost records; the sequence numbers "
		"and totals of the stream, the first result, all.",
		NULL);
	filter.damaged = true;
	trace = filter_load(&filter);
	for (size_t i = 0; i < trace->stream_count; i++)
		if (filter_has_stream(&filter, &trace->streams[i]))
			results += claims_on(&trace->streams[i]);
	printf("1..%u\n", results);
	if (trace_flaw(trace, flaw, sizeof(flaw))) {
		printf("not ok 1 - the stream is whole\n# %s\n", flaw);
		failed++;
	} else {
		puts("ok 1 - the stream is whole");
	}
	for (size_t i = 0; i < trace->stream_count; i++)
		if (filter_has_stream(&filter, &trace->streams[i]))
			failed += check_stream(&filter, trace, &trace->streams[i], &number);
	trace_free(trace);
	return failed ? EXIT_WRONG : 0;
}
