// SPDX-License-Identifier: MIT
// view stats: how much of what a trace has, and its hottest branches.
#include "tools/view/follow.h"
#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>

/* How often a branch was taken, and how often as predicted. */
struct edge {
	uint64_t from, to, count, predicted;
	const struct space *space;
};

static struct edge *edges;
static size_t edge_count, edge_room;
static unsigned most = 10;

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	if (key != 'n')
		return ARGP_ERR_UNKNOWN;
	most = (unsigned)filter_number(argument, state);
	return 0;
}

static const struct argp_option options[] = {
	{"number", 'n', "NUMBER", 0, "of branches to list, the hottest first (10)", 0},
	{0},
};

static size_t find_slot(const struct edge *table, size_t room, uint64_t from, uint64_t to,
			const struct code *code)
{
	size_t slot = hash_of(from, to) & (room - 1);

	while (table[slot].count && (table[slot].from != from || table[slot].to != to ||
				     space_code(table[slot].space, from) != code))
		slot = (slot + 1) & (room - 1);
	return slot;
}

static void grow(void)
{
	size_t room = edge_room ? 2 * edge_room : 1024;
	struct edge *larger = allocate(room, sizeof(*larger));

	for (size_t i = 0; i < edge_room; i++)
		if (edges[i].count)
			larger[find_slot(larger, room, edges[i].from, edges[i].to,
					 space_code(edges[i].space, edges[i].from))] = edges[i];
	free(edges);
	edges = larger;
	edge_room = room;
}

static void add_edge(const struct trace_stream *stream, const struct trace_record *record)
{
	struct edge *edge;

	if (2 * edge_count >= edge_room)
		grow();
	edge = &edges[find_slot(edges, edge_room, record->from, record->to,
				space_code(&stream->space, record->from))];
	if (!edge->count) {
		*edge = (struct edge){record->from, record->to, 0, 0, &stream->space};
		edge_count++;
	}
	edge->count++;
	edge->predicted += !!(record->flags & TRACE_PREDICTED);
}

static void print_stream(const struct filter *filter, struct trace *trace,
			 struct trace_stream *stream)
{
	const struct follow_events nothing = {.argument = NULL};
	uint64_t branches = 0, predicted = 0, gaps = 0, missing = 0, stamps = 0;
	struct cursor_item item;
	struct cursor cursor;
	char name[256];

	cursor_start(&cursor, trace, stream);
	while (cursor_next(&cursor, &item)) {
		if (!filter_has_item(filter, &item))
			continue;
		gaps += item.kind == CURSOR_GAP;
		missing += item.missing;
		stamps += item.kind == CURSOR_STAMP;
		if (item.kind != CURSOR_BRANCH)
			continue;
		branches++;
		predicted += !!(item.record.flags & TRACE_PREDICTED);
		add_edge(stream, &item.record);
	}
	cursor_stop(&cursor);
	printf("%-24s %9llu branches, %llu instructions, %llu predicted, %llu stamps, %llu gaps (%llu missing), "
	       "%.3f bytes a branch\n",
	       trace_stream_name(stream, name, sizeof(name)), (unsigned long long)branches,
	       (unsigned long long)follow(filter, trace, stream, &nothing, NULL),
	       (unsigned long long)predicted, (unsigned long long)stamps, (unsigned long long)gaps,
	       (unsigned long long)missing,
	       branches ? (double)stream->line_bytes / (double)branches : 0.0);
	if (stream->instructions)
		printf("%-24s %9llu instructions in %llu bytes of packets, %.2f bits each\n", "",
		       (unsigned long long)stream->instructions,
		       (unsigned long long)stream->taken.records,
		       8.0 * (double)stream->taken.records / (double)stream->instructions);
}

static int compare_edges(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;

	if (a->count != b->count)
		return a->count < b->count ? 1 : -1;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return (a->to > b->to) - (a->to < b->to);
}

static void print_edges(void)
{
	char from[256], to[256];

	if (edge_room)
		qsort(edges, edge_room, sizeof(*edges), compare_edges);
	printf("%zu different branches; the hottest:\n", edge_count);
	for (size_t i = 0; i < edge_count && i < most; i++)
		printf("%10llu  %3.0f%% predicted  %32s -> %s\n",
		       (unsigned long long)edges[i].count,
		       100.0 * (double)edges[i].predicted / (double)edges[i].count,
		       space_describe(edges[i].space, edges[i].from, from, sizeof(from)),
		       space_describe(edges[i].space, edges[i].to, to, sizeof(to)));
}

static void print_trace(const struct trace *trace)
{
	const struct stream_received *received = &trace->received;
	uint64_t records = 0;

	for (size_t i = 0; i < trace->stream_count; i++)
		records += trace->streams[i].records;
	printf("%s: %s %s, %s silicon, %u CPUs, time-stamp counter %llu Hz\n", trace->path,
	       trace->name, trace->version, trace->silicon, trace->cpus,
	       (unsigned long long)trace->tsc_hz);
	printf("%llu frames, %llu bytes for %llu records, %.3f each, everything included: 1:%.1f\n",
	       (unsigned long long)received->frames, (unsigned long long)received->line_bytes,
	       (unsigned long long)records,
	       records ? (double)received->line_bytes / (double)records : 0.0,
	       received->line_bytes ? 24.0 * (double)records / (double)received->line_bytes : 0.0);
}

int view_stats(int argc, char **argv)
{
	struct filter filter = {.option = parse_option};
	struct trace *trace;

	filter_parse(&filter, argc, argv,
		     "Prints what a trace has: frames, streams, bytes, losses, and the branches "
		     "that were taken most often.",
		     options);
	trace = filter_load(&filter);
	print_trace(trace);
	for (size_t i = 0; i < trace->stream_count; i++)
		if (filter_has_stream(&filter, &trace->streams[i]))
			print_stream(&filter, trace, &trace->streams[i]);
	print_edges();
	free(edges);
	trace_free(trace);
	return 0;
}
