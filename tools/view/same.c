// SPDX-License-Identifier: MIT
// view same: whether BTS and Processor Trace of one run have the same branches.
#include "tools/view/filter.h"
#include "tools/view/pt.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <stdlib.h>

#define CONTEXT 5 /* branches that are shown before the first difference */
#define OFF_MOST                                                                                   \
	64 /* of BTS while PT is off: PT is switched off last and on first, or the reverse */

struct list {
	struct trace_record *records;
	size_t count, room;
	bool cut_before, cut_after; /* something is missing there */
	size_t holes;		    /* and elsewhere */
};

/* What a CPU recorded of one task, from `time` on. */
struct piece {
	uint64_t time;
	size_t first, count;
};

struct by_bts {
	struct list list;
	struct piece *pieces;
	size_t count, room;
};

static const char *second_path;

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	static const char *first;

	(void)state;
	if (key != ARGP_KEY_ARG || second_path)
		return ARGP_ERR_UNKNOWN;
	if (!first) {
		first = argument;
		return ARGP_ERR_UNKNOWN;
	}
	second_path = argument;
	return 0;
}

static bool is_kernel(const struct trace_record *record)
{
	return (record->from | record->to) >> 63;
}

/* PTRACE_BTS_USER and _KERNEL; a stream that does not say has both. */
static unsigned view_of(const struct trace_stream *stream)
{
	return stream->view ? stream->view : PTRACE_BTS_USER | PTRACE_BTS_KERNEL;
}

/* Whether a record is of what both record: transitions are, if both record both sides. */
static bool is_in_view(const struct trace_record *record, unsigned view)
{
	if (view == (PTRACE_BTS_USER | PTRACE_BTS_KERNEL))
		return true;
	if (view == PTRACE_BTS_KERNEL)
		return record->from >> 63 && record->to >> 63;
	return view == PTRACE_BTS_USER && !is_kernel(record);
}

static void add(struct list *list, const struct trace_record *record)
{
	if (list->count == list->room) {
		list->room = list->room ? 2 * list->room : 4096;
		list->records = reallocate(list->records, list->room, sizeof(*list->records));
	}
	list->records[list->count++] = *record;
	list->holes += list->cut_after;
	list->cut_after = false;
}

static void add_gap(struct list *list)
{
	if (list->count)
		list->cut_after = true;
	else
		list->cut_before = true;
}

/* --- What BTS recorded on a CPU ------------------------------------------------------------------
 */

static struct piece *begin_piece(struct by_bts *bts, uint64_t time)
{
	if (bts->count == bts->room) {
		bts->room = bts->room ? 2 * bts->room : 64;
		bts->pieces = reallocate(bts->pieces, bts->room, sizeof(*bts->pieces));
	}
	bts->pieces[bts->count] = (struct piece){time, bts->list.count, 0};
	return &bts->pieces[bts->count++];
}

/* libipt does not tell a conditional branch to the next instruction from one not taken. */
static bool is_hidden(const struct space *space, const struct trace_record *record)
{
	struct instruction instruction = space_instruction(space, record->from);

	return instruction.flow == FLOW_CONDITIONAL && record->to == instruction.next;
}

static void add_stream(struct by_bts *bts, const struct trace *trace,
		       const struct trace_stream *stream, int cpu, unsigned view)
{
	uint64_t time = 0;
	struct piece *piece = begin_piece(bts, time);
	struct cursor_item item;
	struct cursor cursor;

	cursor_start(&cursor, trace, stream);
	while (cursor_next(&cursor, &item)) {
		if (item.kind == CURSOR_STAMP)
			time = item.record.to;
		if (item.cpu != cpu || item.kind == CURSOR_MARK)
			continue;
		if (item.kind == CURSOR_GAP)
			add_gap(&bts->list);
		if (item.kind != CURSOR_BRANCH) {
			piece = begin_piece(bts, time);
		} else if (is_in_view(&item.record, view) &&
			   !is_hidden(&stream->space, &item.record)) {
			add(&bts->list, &item.record);
			piece->count++;
		}
	}
	cursor_stop(&cursor);
}

static int compare_pieces(const void *left, const void *right)
{
	const struct piece *a = left, *b = right;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a->first > b->first) - (a->first < b->first);
}

/* Puts the records in the order of their pieces. */
static void arrange(struct by_bts *bts)
{
	struct trace_record *records = allocate(bts->list.count, sizeof(*records));
	size_t used = 0;

	qsort(bts->pieces, bts->count, sizeof(*bts->pieces), compare_pieces);
	for (size_t i = 0; i < bts->count; i++) {
		struct piece *piece = &bts->pieces[i];

		for (size_t n = 0; n < piece->count; n++)
			records[used + n] = bts->list.records[piece->first + n];
		piece->first = used;
		used += piece->count;
	}
	free(bts->list.records);
	bts->list.records = records;
}

static struct by_bts collect(const struct filter *filter, const struct trace *trace, int cpu,
			     unsigned view)
{
	struct by_bts bts = {0};

	for (size_t i = 0; i < trace->stream_count; i++)
		if (!trace->streams[i].packets.count &&
		    filter_has_stream(filter, &trace->streams[i]))
			add_stream(&bts, trace, &trace->streams[i], cpu, view);
	arrange(&bts);
	return bts;
}

/* What all streams of BTS record. */
static unsigned view_of_bts(const struct filter *filter, const struct trace *trace)
{
	unsigned view = PTRACE_BTS_USER | PTRACE_BTS_KERNEL;

	for (size_t i = 0; i < trace->stream_count; i++)
		if (!trace->streams[i].packets.count &&
		    filter_has_stream(filter, &trace->streams[i]))
			view &= view_of(&trace->streams[i]);
	return view;
}

/* --- What Processor Trace recorded ---------------------------------------------------------------
 */

static struct list by_pt(const struct pt_decoded *decoded, unsigned view)
{
	struct list list = {0};

	for (size_t i = 0; i < decoded->count; i++)
		if (record_is_gap(&decoded->records[i]))
			add_gap(&list);
		else if (!record_is_stamp(&decoded->records[i]) &&
			 is_in_view(&decoded->records[i], view))
			add(&list, &decoded->records[i]);
	return list;
}

/* --- The comparison ------------------------------------------------------------------------------
 */

static bool are_same(const struct trace_record *a, const struct trace_record *b)
{
	return a->from == b->from && a->to == b->to;
}

static void print_branch(const char *mark, const struct list *list, size_t at,
			 const struct space *space)
{
	char from[256], to[256];

	if (at < list->count)
		printf("%s %9zu: %32s -> %s\n", mark, at,
		       space_describe(space, list->records[at].from, from, sizeof(from)),
		       space_describe(space, list->records[at].to, to, sizeof(to)));
	else
		printf("%s the trace ends\n", mark);
}

static void print_difference(const struct list *bts, size_t at_bts, const struct list *pt,
			     size_t at_pt, const struct space *space)
{
	printf("  BTS's first %zu branches are those of PT, then:\n", at_bts);
	for (size_t at = at_bts > CONTEXT ? at_bts - CONTEXT : 0; at < at_bts; at++)
		print_branch(" ", bts, at, space);
	print_branch("- BTS", bts, at_bts, space);
	print_branch("+ PT ", pt, at_pt, space);
}

/* Two lists, and how much of them was compared. */
struct comparison {
	const struct list *bts, *pt;
	const struct space *space;
	size_t at_bts, at_pt;
	size_t only_bts, only_pt; /* passed over while the other was off */
};

static bool is_same_at(const struct comparison *now, size_t at_bts, size_t at_pt)
{
	return at_bts < now->bts->count && at_pt < now->pt->count &&
	       are_same(&now->bts->records[at_bts], &now->pt->records[at_pt]);
}

/* Whether tracing may have been switched on or off ahead of a record: by WRMSR, in the kernel. */
static bool may_switch(const struct comparison *now, const struct list *list, size_t at)
{
	return !at || (at <= list->count &&
		       space_has_wrmsr(now->space, list->records[at - 1].to,
				       at < list->count ? list->records[at].from : 0));
}

/* Whether both lists go on there, the other one having been switched on. */
static bool is_meeting(const struct comparison *now, size_t more_bts, size_t more_pt)
{
	size_t at_bts = now->at_bts + more_bts, at_pt = now->at_pt + more_pt;

	if (at_bts == now->bts->count && at_pt == now->pt->count)
		return true;
	return is_same_at(now, at_bts, at_pt) &&
	       (is_same_at(now, at_bts + 1, at_pt + 1) || at_bts + 1 == now->bts->count ||
		at_pt + 1 == now->pt->count || may_switch(now, now->bts, at_bts + 1)) &&
	       (!more_bts || may_switch(now, now->bts, at_bts)) &&
	       (!more_pt || may_switch(now, now->pt, at_pt));
}

/* Passes over what one has of the kernel while the other was off. False: that is no explanation. */
static bool meet(struct comparison *now)
{
	if (!may_switch(now, now->bts, now->at_bts) && !may_switch(now, now->pt, now->at_pt))
		return false;
	for (size_t more_pt = 0; now->at_pt + more_pt <= now->pt->count; more_pt++) {
		for (size_t more_bts = 0;
		     more_bts < OFF_MOST && now->at_bts + more_bts <= now->bts->count; more_bts++) {
			if (is_meeting(now, more_bts, more_pt)) {
				now->at_bts += more_bts;
				now->at_pt += more_pt;
				now->only_bts += more_bts;
				now->only_pt += more_pt;
				return true;
			}
			if (now->at_bts + more_bts < now->bts->count &&
			    !is_kernel(&now->bts->records[now->at_bts + more_bts]))
				break;
		}
		if (now->at_pt + more_pt < now->pt->count &&
		    !is_kernel(&now->pt->records[now->at_pt + more_pt]))
			break;
	}
	return false;
}

/* True if the lists are the same but for what one has while the other is off. */
static bool compare(struct comparison *now)
{
	while (now->at_bts < now->bts->count || now->at_pt < now->pt->count) {
		if (is_same_at(now, now->at_bts, now->at_pt)) {
			now->at_bts++;
			now->at_pt++;
		} else if (!meet(now)) {
			print_difference(now->bts, now->at_bts, now->pt, now->at_pt, now->space);
			return false;
		}
	}
	return true;
}

static bool has_kernel(const struct list *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (is_kernel(&list->records[i]))
			return true;
	return false;
}

/* Where one list was cut, what the other has there is left out: `*cut` of them. */
static void cut_alike(struct list *bts, struct list *pt, const char **how, size_t *cut)
{
	struct list *longer = bts->count > pt->count ? bts : pt;
	struct list *shorter = longer == pt ? bts : pt;
	size_t difference = longer->count - shorter->count;

	if (!difference || shorter->cut_before == shorter->cut_after || has_kernel(longer))
		return;
	*how = shorter->cut_before ? "last" : "first";
	*cut = difference;
	if (shorter->cut_before)
		for (size_t i = 0; i < shorter->count; i++)
			longer->records[i] = longer->records[i + difference];
	longer->count = shorter->count;
}

static const char *const decoder_names[] = {
	[PT_INSTRUCTIONS] = "instructions", [PT_BLOCKS] = "blocks"};

/* One of libipt's decoders on the packets of one CPU. */
static bool compare_cpu(const struct filter *filter, const struct trace *trace,
			const struct trace_stream *stream, enum pt_decoder decoder)
{
	unsigned view = view_of(stream) & view_of_bts(filter, trace);
	struct by_bts bts = collect(filter, trace, trace_stream_cpu(stream), view);
	struct pt_decoded decoded = pt_decode(stream, decoder);
	struct list pt = by_pt(&decoded, view);
	struct comparison now = {.bts = &bts.list, .pt = &pt, .space = &stream->space};
	size_t cut = 0;
	const char *how = NULL;
	bool same;

	printf("CPU %d, by %s: ", trace_stream_cpu(stream), decoder_names[decoder]);
	cut_alike(&bts.list, &pt, &how, &cut);
	printf("%zu branches by BTS, %zu by PT, %llu instructions", bts.list.count, pt.count,
	       (unsigned long long)decoded.instructions);
	if (how)
		printf("; the %s of %zu", how, bts.list.count + cut);
	puts("");
	same = compare(&now);
	if (same && now.only_bts + now.only_pt)
		printf("  of the kernel %zu of BTS while PT was off, %zu of PT while BTS was off\n",
		       now.only_bts, now.only_pt);
	if (decoded.errors)
		printf("  libipt, %llu times, first before byte %llu: %s\n",
		       (unsigned long long)decoded.errors, (unsigned long long)decoded.error_at,
		       decoded.error);
	if (pt.holes)
		printf("  PT has %zu gaps\n", pt.holes);
	same &= !decoded.errors && !pt.holes;
	free(decoded.records);
	free(pt.records);
	free(bts.list.records);
	free(bts.pieces);
	return same;
}

static bool compare_traces(const struct filter *filter, const struct trace *bts,
			   const struct trace *pt)
{
	size_t cpus = 0;
	bool same = true;

	for (size_t i = 0; i < pt->stream_count; i++) {
		const struct trace_stream *stream = &pt->streams[i];

		if (!stream->packets.count || !filter_has_stream(filter, stream))
			continue;
		cpus++;
		same &= compare_cpu(filter, bts, stream, PT_INSTRUCTIONS);
		same &= compare_cpu(filter, bts, stream, PT_BLOCKS);
	}
	if (!cpus)
		fail("%s: no packets of Processor Trace are in it", pt->path);
	return same;
}

int view_same(int argc, char **argv)
{
	struct filter filter = {.option = parse_option}, second;
	struct trace *traces[2];
	bool same;

	filter_parse(
		&filter, argc, argv,
		"TRACE.spt [PT.spt]: compares the branches that BTS recorded with those that "
		"libipt finds in the packets of Processor Trace, of the same run or of another "
		"one, CPU by CPU, by both of its decoders. Leaves with 1 if they differ.",
		NULL);
	traces[0] = traces[1] = filter_load(&filter);
	if (second_path) {
		second = filter;
		second.path = second_path;
		traces[1] = filter_load(&second);
	}
	if (traces[0]->perf || traces[1]->perf)
		fail("%s: perf.data has tasks, not CPUs: `view diff` compares two runs of them",
		     filter.path);
	same = compare_traces(&filter, traces[0], traces[1]);
	if (traces[1] != traces[0])
		trace_free(traces[1]);
	trace_free(traces[0]);
	return same ? 0 : EXIT_WRONG;
}
