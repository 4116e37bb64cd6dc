// SPDX-License-Identifier: MIT
// view stacks: how often each stack of calls, or of branches, was sampled: one line each, folded.
#include "tools/view/filter.h"
#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>

/* A task's name, the places of a stack and a 0. */
enum { PLACE_BYTES = 256, BRANCHES_MOST = 32, LINE_BYTES = (2 * BRANCHES_MOST + 4) * PLACE_BYTES };

static char **lines;
static size_t line_count, line_room;
static unsigned long long at_interrupts, nowhere, without_stack;

static char line[LINE_BYTES];
static size_t used;

/* A semicolon separates places, and the last space is before the count. */
static void add_place(const char *separator, const char *name)
{
	size_t begin = used + strlen(separator);

	used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%.*s", separator,
				 PLACE_BYTES - 1, name);
	for (char *at = line + begin; *at; at++)
		*at = *at == ';' ? ':' : *at;
}

static const char *function_at(const struct space *space, uint64_t address)
{
	const struct function *function = space_function(space, address);
	static char text[PLACE_BYTES];

	return function ? function->name : space_describe(space, address, text, sizeof(text));
}

/* The outermost caller first. */
static void add_calls(const struct space *space, const struct ptrace_pebs_branch *branch,
		      size_t count, unsigned depth, uint64_t at)
{
	const struct function *newest = NULL;
	size_t places = 0;

	if (count && places++ < depth)
		add_place(";", function_at(space, branch[count - 1].from));
	for (size_t i = count; i; i--) {
		newest = space_function(space, branch[i - 1].to);
		if (places++ < depth)
			add_place(";", function_at(space, branch[i - 1].to));
	}
	if (at && places < depth && (!newest || space_function(space, at) != newest))
		add_place(";", function_at(space, at));
}

/* Where the sample is, and from there back in time. */
static void add_history(const struct space *space, const struct ptrace_pebs_branch *branch,
			size_t count, unsigned depth, uint64_t at)
{
	char text[PLACE_BYTES];

	if (at)
		add_place(";", function_at(space, at));
	for (size_t i = 0; i < count && i < depth; i++) {
		add_place(";", space_describe(space, branch[i].from, text, sizeof(text)));
		add_place("->", space_describe(space, branch[i].to, text, sizeof(text)));
	}
}

static void keep_line(void)
{
	if (line_count == line_room) {
		line_room = line_room ? 2 * line_room : 1024;
		lines = reallocate(lines, line_room, sizeof(*lines));
	}
	lines[line_count] = allocate(used + 1, 1);
	memcpy(lines[line_count++], line, used + 1);
}

static uint64_t address_of(const struct ptrace_pebs_sample *sample)
{
	return sample->has & PTRACE_PEBS_HAS_EVENT_IP ? sample->event_ip
	       : sample->has & PTRACE_PEBS_HAS_IP     ? sample->ip
						      : 0;
}

static void add_sample(const struct filter *filter, const struct trace_stream *stream,
		       const struct ptrace_pebs_sample *sample,
		       const struct ptrace_pebs_branch *branch, size_t room, bool calls)
{
	uint64_t at = address_of(sample);
	const struct space *space = trace_space(stream, (uint32_t)sample->pid_cpu);
	char name[PLACE_BYTES];
	size_t count = 0;

	if ((filter->cpu >= 0 && filter->cpu != (int)(sample->pid_cpu >> 32)) ||
	    !filter_has_address(filter, space, at))
		return;
	while (count < room && count < BRANCHES_MOST && branch[count].from)
		count++;
	at_interrupts += !!(sample->has & PTRACE_PEBS_HAS_SKID);
	nowhere += !at;
	without_stack += !count;
	used = 0;
	add_place("",
		  stream->name[0] ? stream->name : trace_stream_name(stream, name, sizeof(name)));
	(calls ? add_calls : add_history)(space, branch, count, filter->depth, at);
	if (!at && !count)
		add_place(";", "[unknown]");
	keep_line();
}

static void add_frame(const struct filter *filter, const struct trace_stream *stream,
		      const struct trace_part *part)
{
	size_t each = stream_sample_size(&part->header, part->size);
	size_t room =
		(each - sizeof(struct ptrace_pebs_sample)) / sizeof(struct ptrace_pebs_branch);

	for (size_t i = 0; i < part->header.count; i++) {
		struct ptrace_pebs_sample sample;
		struct ptrace_pebs_branch
			branches[TRACE_PAYLOAD_BYTES / sizeof(struct ptrace_pebs_branch)];
		const uint8_t *from = part->payload + i * each;

		if (part->header.index + i < filter->from || part->header.index + i > filter->to)
			continue;
		memcpy(&sample, from, sizeof(sample));
		memcpy(branches, from + sizeof(sample), each - sizeof(sample));
		add_sample(filter, stream, &sample, branches, room,
			   part->header.encoding == TRACE_SAMPLES_CALLS);
	}
}

struct folded {
	const char *text;
	unsigned long long count;
};

static int compare_lines(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

static int compare_folded(const void *left, const void *right)
{
	const struct folded *a = left, *b = right;

	return a->count == b->count ? strcmp(a->text, b->text) : a->count < b->count ? 1 : -1;
}

static void print_folded(void)
{
	struct folded *folded = allocate(line_count, sizeof(*folded));
	size_t count = 0;

	qsort(lines, line_count, sizeof(*lines), compare_lines);
	for (size_t i = 0; i < line_count; i++) {
		if (!count || strcmp(folded[count - 1].text, lines[i]))
			folded[count++].text = lines[i];
		folded[count - 1].count++;
	}
	qsort(folded, count, sizeof(*folded), compare_folded);
	for (size_t i = 0; i < count; i++)
		printf("%s %llu\n", folded[i].text, folded[i].count);
	free(folded);
}

int view_stacks(int argc, char **argv)
{
	struct filter filter = {.path = NULL};
	struct trace *trace;
	bool any = false;

	filter_parse(&filter, argc, argv,
		     "Prints each stack that samples have, and how many have it, the most frequent "
		     "first: what flame graphs are drawn from. Of calls the outermost function is "
		     "first; of the newest branches the place of the sample, then the newest.",
		     NULL);
	trace = filter_load(&filter);
	for (size_t i = 0; i < trace->stream_count; i++) {
		const struct trace_stream *stream = &trace->streams[i];

		any |= stream->samples.count;
		for (size_t n = 0; filter_has_stream(&filter, stream) && n < stream->samples.count;
		     n++)
			add_frame(&filter, stream, &stream->samples.part[n]);
	}
	if (!any)
		fail("%s: there are no samples in it", filter.path);
	print_folded();
	fprintf(stderr,
		"%zu samples, %llu at interrupts; %llu without an address, %llu without a stack\n",
		line_count, at_interrupts, nowhere, without_stack);
	for (size_t i = 0; i < line_count; i++)
		free(lines[i]);
	free(lines);
	trace_free(trace);
	return 0;
}
