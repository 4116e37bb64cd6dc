// SPDX-License-Identifier: MIT
// view diff: the first branch in which two runs of a task differ.
#include "tools/view/follow.h"
#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>

#define CONTEXT 5 /* branches that are shown before the first difference */

/* What a task did, without what interrupted it. */
struct path {
	struct trace_record *branches;
	uint64_t *indices; /* in the stream */
	size_t count, room;
	bool interrupted; /* the branch before was an interrupt's */
	uint64_t gaps, left_out;
};

static const char *first_path;

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	(void)state;
	if (key != ARGP_KEY_ARG || first_path)
		return ARGP_ERR_UNKNOWN;
	first_path = argument;
	return 0;
}

static void branch(void *argument, const struct cursor_item *item, const struct stack *stack,
		   uint64_t position)
{
	struct path *path = argument;
	bool was = path->interrupted;

	(void)position;
	path->interrupted = stack->unasked; /* inside of what the task did not ask for */
	if (was || path->interrupted) {
		path->left_out++;
		return;
	}
	if (path->count == path->room) {
		path->room = path->room ? 2 * path->room : 4096;
		path->branches = reallocate(path->branches, path->room, sizeof(*path->branches));
		path->indices = reallocate(path->indices, path->room, sizeof(*path->indices));
	}
	path->indices[path->count] = item->index;
	path->branches[path->count++] = item->record;
}

static void gap(void *argument, uint64_t missing, uint64_t position)
{
	struct path *path = argument;

	(void)missing;
	(void)position;
	path->gaps++;
	path->interrupted = false;
}

static struct path path_of(const struct filter *filter, struct trace *trace,
			   struct trace_stream *stream)
{
	struct path path = {0};
	const struct follow_events events = {.gap = gap, .branch = branch, .argument = &path};

	follow(filter, trace, stream, &events, NULL);
	return path;
}

static void free_path(struct path *path)
{
	free(path->branches);
	free(path->indices);
}

static const char *name_of(const struct trace_stream *stream)
{
	return stream->name[0] ? stream->name : stream->program;
}

/* A stream, the `nth` of those with its name. */
struct named {
	struct trace_stream *stream;
	size_t nth;
};

static int compare_named(const void *left, const void *right)
{
	const struct named *a = left, *b = right;
	uint32_t kind_a = a->stream->id & (TRACE_STREAM_CPU | TRACE_STREAM_PT);
	uint32_t kind_b = b->stream->id & (TRACE_STREAM_CPU | TRACE_STREAM_PT);
	int names = strcmp(name_of(a->stream), name_of(b->stream));

	if (kind_a != kind_b)
		return kind_a < kind_b ? -1 : 1;
	return names ? names : (a->nth > b->nth) - (a->nth < b->nth);
}

/* The streams of a trace in the order of compare_named(). */
static struct named *names_of(struct trace *trace)
{
	struct named *named = allocate(trace->stream_count, sizeof(*named));
	size_t nth = 0;

	for (size_t i = 0; i < trace->stream_count; i++)
		named[i] = (struct named){&trace->streams[i], i};
	qsort(named, trace->stream_count, sizeof(*named), compare_named);
	for (size_t i = 0; i < trace->stream_count; i++) {
		struct named before = i ? named[i - 1] : named[0];

		before.nth = named[i].nth;
		nth = i && !compare_named(&before, &named[i]) ? nth + 1 : 0;
		named[i].nth = nth;
	}
	return named;
}

static void print_branch(const char *mark, const struct path *path, size_t at,
			 const struct space *space)
{
	char from[256], to[256];

	if (at < path->count)
		printf("%s %9llu: %32s -> %s\n", mark, (unsigned long long)path->indices[at],
		       space_describe(space, path->branches[at].from, from, sizeof(from)),
		       space_describe(space, path->branches[at].to, to, sizeof(to)));
	else
		printf("%s the trace ends\n", mark);
}

/* How many branches from the start are the same. */
static size_t count_common(const struct path *a, const struct path *b)
{
	size_t at = 0;

	while (at < a->count && at < b->count && a->branches[at].from == b->branches[at].from &&
	       a->branches[at].to == b->branches[at].to)
		at++;
	return at;
}

/* True if they are the same. */
static bool compare_paths(const char *name, const struct path *a, const struct path *b,
			  const struct space *space)
{
	size_t common = count_common(a, b);

	if (common == a->count && common == b->count) {
		printf("%s: %zu branches, the same (%llu and %llu of interrupts left out)\n", name,
		       common, (unsigned long long)a->left_out, (unsigned long long)b->left_out);
		return true;
	}
	printf("%s: the first %zu branches are the same, then:\n", name, common);
	for (size_t at = common > CONTEXT ? common - CONTEXT : 0; at < common; at++)
		print_branch(" ", a, at, space);
	print_branch("-", a, common, space);
	print_branch("+", b, common, space);
	if (a->gaps + b->gaps)
		puts("  there are gaps: what is missing there may be the difference");
	return false;
}

/* True if the streams `a` and `b` are the same. */
static bool compare_streams(const struct filter *filter, struct trace *traces[2],
			    struct trace_stream *a, struct trace_stream *b)
{
	struct path paths[2] = {path_of(filter, traces[0], a), path_of(filter, traces[1], b)};
	char name[256];
	bool same = compare_paths(trace_stream_name(a, name, sizeof(name)), &paths[0], &paths[1],
				  &a->space);

	free_path(&paths[0]);
	free_path(&paths[1]);
	return same;
}

static bool compare_traces(const struct filter *filter, struct trace *traces[2])
{
	struct named *mine = names_of(traces[0]), *others = names_of(traces[1]);
	size_t *nth = allocate(traces[0]->stream_count, sizeof(*nth));
	bool same = true;
	char name[256];

	for (size_t i = 0; i < traces[0]->stream_count; i++)
		nth[mine[i].stream - traces[0]->streams] = mine[i].nth;
	for (size_t i = 0; i < traces[0]->stream_count; i++) {
		struct named key = {&traces[0]->streams[i], nth[i]}, *other;

		if (!filter_has_stream(filter, key.stream))
			continue;
		other = bsearch(&key, others, traces[1]->stream_count, sizeof(key), compare_named);
		if (other) {
			same &= compare_streams(filter, traces, key.stream, other->stream);
		} else {
			printf("%s: not in %s\n", trace_stream_name(key.stream, name, sizeof(name)),
			       traces[1]->path);
			same = false;
		}
	}
	free(mine);
	free(others);
	free(nth);
	return same;
}

int view_diff(int argc, char **argv)
{
	struct filter filter = {.option = parse_option}, first;
	struct trace *traces[2];
	bool same;

	filter_parse(
		&filter, argc, argv,
		"FIRST.spt TRACE.spt: prints, for each task, the first branch in which two runs "
		"differ. Tasks are paired by name, in their order. Interrupts and exceptions, with "
		"all that they did, are left out. Leaves with 1 if anything differs.",
		NULL);
	if (!filter.path)
		fail_usage("diff", "diff needs two traces");
	first = filter;
	first.path = first_path;
	traces[0] = filter_load(&first);
	traces[1] = filter_load(&filter);
	same = compare_traces(&filter, traces);
	trace_free(traces[0]);
	trace_free(traces[1]);
	return same ? 0 : EXIT_WRONG;
}
