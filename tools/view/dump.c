// SPDX-License-Identifier: MIT
// view dump: one line a record, or the records as they are.
#include "tools/view/filter.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool raw, addresses;

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	(void)argument;
	(void)state;
	switch (key) {
	case 'r':
		raw = true;
		return 0;
	case 'a':
		addresses = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"raw", 'r', NULL, 0, "the records themselves, 24 bytes each, one stream after the other",
	 0},
	{"addresses", 'a', NULL, 0, "addresses, no names", 0},
	{0},
};

static const char *const flows[] = {
	[FLOW_UNKNOWN] = "?",	      [FLOW_NONE] = "event",
	[FLOW_CONDITIONAL] = "jcc",   [FLOW_JUMP] = "jmp",
	[FLOW_CALL] = "call",	      [FLOW_RETURN] = "return",
	[FLOW_INTERRUPT] = "syscall", [FLOW_INTERRUPT_RETURN] = "iret",
	[FLOW_REPEAT] = "event",
};

static int put_address(char *text, size_t size, const struct space *space, uint64_t address,
		       int width)
{
	char name[256];

	if (addresses)
		return snprintf(text, size, "%016llx", (unsigned long long)address);
	return snprintf(text, size, "%*s", width,
			space_describe(space, address, name, sizeof(name)));
}

/* Task, CPU and index: the same three columns in each line. */
static void print_start(const struct trace_stream *stream, const struct cursor_item *item)
{
	static const struct trace_stream *of;
	static int on = -2;
	static uint32_t pid;
	static char start[64];
	const char *name = stream->name[0] ? stream->name : stream->program;
	uint32_t task = stream->tid ? stream->tid : item->pid;

	if (of != stream || on != item->cpu || pid != task) {
		of = stream;
		on = item->cpu;
		pid = task;
		snprintf(start, sizeof(start), on < 0 ? "%16.16s %6u [-]" : "%16.16s %6u [%03d]",
			 *name ? name : "-", pid, on);
	}
	printf("%s %9llu: ", start, (unsigned long long)item->index);
}

/* What is printed of a branch; most were printed before. */
struct line_text {
	const struct space *space; /* NULL: none */
	struct trace_record record;
	size_t size;
	char text[2 * 256 + 64];
};

static void make_line(struct line_text *line)
{
	const struct space *space = line->space;
	const struct trace_record *record = &line->record;
	size_t room = sizeof(line->text);
	int used = put_address(line->text, room, space, record->from, 32);

	used += snprintf(line->text + used, room - (size_t)used, " -> ");
	used += put_address(line->text + used, room - (size_t)used, space, record->to, -32);
	used += snprintf(line->text + used, room - (size_t)used, " %c%s%s\n",
			 record->flags & TRACE_PREDICTED ? 'P' : '-', addresses ? "" : " ",
			 addresses ? "" : flows[space_instruction(space, record->from).flow]);
	line->size = (size_t)used;
}

static void print_branch(const struct space *space, const struct trace_record *record)
{
	static struct line_text lines[4096];
	struct line_text *line = &lines[(record->from * 31 + record->to) % 4096];

	if (line->space != space || memcmp(&line->record, record, sizeof(*record)) != 0) {
		line->space = space;
		line->record = *record;
		make_line(line);
	}
	fwrite(line->text, 1, line->size, stdout);
}

static void print_item(const struct trace_stream *stream, const struct cursor_item *item)
{
	print_start(stream, item);
	switch (item->kind) {
	case CURSOR_BRANCH:
		print_branch(trace_space(stream, item->pid), &item->record);
		return;
	case CURSOR_STAMP:
		printf("%s task %u tsc %llu\n",
		       item->qualifier == PTRACE_BTS_TASK_ARRIVES   ? "ARRIVES"
		       : item->qualifier == PTRACE_BTS_TASK_DEPARTS ? "DEPARTS"
								    : "STAMP",
		       item->pid, (unsigned long long)item->record.to);
		return;
	case CURSOR_GAP:
		if (item->missing)
			printf("GAP %llu records\n", (unsigned long long)item->missing);
		else
			puts("GAP of unknown length");
		return;
	default:
		printf("MARK %.*s\n", (int)item->text_size, item->text);
	}
}

static bool is_meant(const struct filter *filter, const struct trace_stream *stream,
		     const struct cursor_item *item)
{
	const struct space *space = trace_space(stream, item->pid);

	if (!filter_has_item(filter, item))
		return false;
	return item->kind != CURSOR_BRANCH ||
	       filter_has_address(filter, space, item->record.from) ||
	       filter_has_address(filter, space, item->record.to);
}

static void dump_stream(const struct filter *filter, const struct trace *trace,
			const struct trace_stream *stream)
{
	struct cursor_item item;
	struct cursor cursor;

	cursor_start(&cursor, trace, stream);
	while (cursor_next(&cursor, &item)) {
		if (!is_meant(filter, stream, &item))
			continue;
		if (!raw)
			print_item(stream, &item);
		else if (item.has_record &&
			 fwrite(&item.record, sizeof(item.record), 1, stdout) != 1)
			fail("standard output: %s", strerror(errno));
	}
	cursor_stop(&cursor);
}

int view_dump(int argc, char **argv)
{
	struct filter filter = {.option = parse_option};
	struct trace *trace;

	filter_parse(
		&filter, argc, argv,
		"Prints a trace, a record a line: task, its id, CPU, the record's index in its "
		"stream, from -> to, P if the processor had predicted it, and what kind of "
		"instruction it is from.",
		options);
	trace = filter_load(&filter);
	for (size_t i = 0; i < trace->stream_count; i++)
		if (filter_has_stream(&filter, &trace->streams[i]))
			dump_stream(&filter, trace, &trace->streams[i]);
	trace_free(trace);
	return 0;
}
