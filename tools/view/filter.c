// SPDX-License-Identifier: MIT
#include "tools/view/filter.h"

#include "tools/view/pt.h"
#include "tools/view/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_FROM = 0x100, OPTION_TO, OPTION_DAMAGED, OPTION_PROGRAMS };

static const struct argp_option shared[] = {
	{NULL, 0, NULL, 0, "Files:", 1},
	{"elf", 'e', "FILE", 0, "the kernel that ran (build/spoor.elf)", 1},
	{"program", 'p', "FILE", 0, "the program that ran, for all tasks", 1},
	{"programs", OPTION_PROGRAMS, "DIRECTORY", 0,
	 "where NAME.elf are (build/user); of perf.data: in place of /", 1},
	{"damaged", OPTION_DAMAGED, NULL, 0, "show what is there of a stream with holes", 1},
	{NULL, 0, NULL, 0, "Which records:", 2},
	{"task", 't', "ID|NAME", 0, "of this task", 2},
	{"cpu", 'c', "NUMBER", 0, "on this CPU", 2},
	{"from", OPTION_FROM, "INDEX", 0, "from this record of a stream on; the first is 0", 2},
	{"to", OPTION_TO, "INDEX", 0, "up to this one", 2},
	{"function", 'f', "NAME", 0, "with an end in this function; calls: within it", 2},
	{"depth", 'd', "NUMBER", 0, "calls up to this depth; the outermost is 1", 2},
	{0},
};

uint64_t filter_number(const char *text, struct argp_state *state)
{
	char *end;
	unsigned long long number;

	errno = 0;
	number = strtoull(text, &end, 0);
	if (errno || end == text || *end || *text == '-')
		argp_error(state, "'%s' is no number", text);
	return number;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	struct filter *filter = state->input;

	switch (key) {
	case 'e':
		filter->elf = argument;
		return 0;
	case 'p':
		filter->program = argument;
		return 0;
	case OPTION_PROGRAMS:
		filter->directory = argument;
		return 0;
	case OPTION_DAMAGED:
		filter->damaged = true;
		return 0;
	case 't':
		filter->task = argument;
		return 0;
	case 'c':
		filter->cpu = (int)filter_number(argument, state);
		return 0;
	case OPTION_FROM:
		filter->from = filter_number(argument, state);
		return 0;
	case OPTION_TO:
		filter->to = filter_number(argument, state);
		return 0;
	case 'f':
		filter->function = argument;
		return 0;
	case 'd':
		filter->depth = (unsigned)filter_number(argument, state);
		return 0;
	case ARGP_KEY_ARG:
		if (filter->option && !filter->option(key, argument, state))
			return 0;
		if (filter->path)
			argp_error(state, "one trace at a time, not '%s' too", argument);
		filter->path = argument;
		return 0;
	case ARGP_KEY_END:
		if (!filter->path)
			argp_error(state, "which trace?");
		if (filter->from > filter->to)
			argp_error(state, "--from is after --to");
		return 0;
	default:
		return filter->option ? filter->option(key, argument, state) : ARGP_ERR_UNKNOWN;
	}
}

/* argp gives the options of a child to the child's parser only: so one table. */
static struct argp_option *join_options(const struct argp_option *options)
{
	size_t own = 0, count = sizeof(shared) / sizeof(shared[0]);
	struct argp_option *all;

	while (options && (options[own].name || options[own].doc))
		own++;
	all = allocate(own + count, sizeof(*all));
	if (own)
		memcpy(all, options, own * sizeof(*all));
	memcpy(all + own, shared, sizeof(shared));
	return all;
}

void filter_parse(struct filter *filter, int argc, char **argv, const char *does,
		  const struct argp_option *options)
{
	struct argp_option *all = join_options(options);
	const struct argp argp = {.options = all,
				  .parser = parse_option,
				  .args_doc = "TRACE.spt|perf.data",
				  .doc = does};

	filter->elf = "build/spoor.elf";
	filter->cpu = -1;
	filter->to = UINT64_MAX;
	filter->depth = UINT32_MAX;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, filter);
	free(all);
}

static bool has_function(const struct trace *trace, const char *name)
{
	for (size_t i = 0; i < trace->code_count; i++)
		if (code_symbol(trace->codes[i], name))
			return true;
	return false;
}

struct trace *filter_load(const struct filter *filter)
{
	struct trace *trace = trace_load(filter->path, filter->damaged);
	bool any = false;

	trace_open_code(trace, filter->elf, filter->program, filter->directory);
	pt_decode_trace(trace);
	for (size_t i = 0; i < trace->stream_count; i++)
		any |= filter_has_stream(filter, &trace->streams[i]);
	if (!any && filter->task)
		fail("%s: there is no task '%s' in it", filter->path, filter->task);
	if (trace->cpus && filter->cpu >= (int)trace->cpus)
		fail("%s: there is no CPU %d in it", filter->path, filter->cpu);
	if (filter->function && !has_function(trace, filter->function))
		fail("no file of the code that ran has a function '%s'", filter->function);
	return trace;
}

static bool is_cpu(const struct trace_stream *stream)
{
	return stream->id & TRACE_STREAM_CPU;
}

bool filter_has_stream(const struct filter *filter, const struct trace_stream *stream)
{
	char id[16];

	if (filter->cpu >= 0 && is_cpu(stream) && trace_stream_cpu(stream) != filter->cpu)
		return false;
	snprintf(id, sizeof(id), "%u", stream->tid ? stream->tid : stream->id);
	return !filter->task || is_cpu(stream) || !strcmp(filter->task, id) ||
	       !strcmp(filter->task, stream->name) || !strcmp(filter->task, stream->program);
}

/* What the stream's name was compared with; of a CPU's stream, the task that runs. */
static bool has_task(const struct filter *filter, const struct cursor_item *item)
{
	char *end;
	unsigned long pid;

	if (!filter->task || !item->of_cpu)
		return true;
	pid = strtoul(filter->task, &end, 10);
	return !*end && pid == item->pid;
}

bool filter_has_item(const struct filter *filter, const struct cursor_item *item)
{
	return item->index >= filter->from && item->index <= filter->to &&
	       (filter->cpu < 0 || item->cpu == filter->cpu) && has_task(filter, item);
}

bool filter_has_address(const struct filter *filter, const struct space *space, uint64_t address)
{
	const struct function *function;

	if (!filter->function)
		return true;
	function = space_function(space, address);
	return function && function_is(function, filter->function);
}

uint64_t filter_newest(struct filter *filter, const struct trace *trace,
		       const struct trace_stream *stream, uint64_t newest)
{
	uint64_t records = 0, meant = 0, first = 0;
	struct cursor_item item;
	struct cursor cursor;

	for (size_t i = 0; i < stream->parts.count; i++)
		records += stream->parts.part[i].header.count;
	if (records <= newest)
		return 0;
	for (unsigned pass = 0; pass < 2; pass++) {
		uint64_t count = 0;

		cursor_start(&cursor, trace, stream);
		while (cursor_next(&cursor, &item) && !(pass && count > meant - newest)) {
			if (item.kind != CURSOR_BRANCH || !filter_has_item(filter, &item))
				continue;
			count++;
			first = item.index;
		}
		cursor_stop(&cursor);
		if (!pass && count <= newest)
			return 0;
		meant = pass ? meant : count;
	}
	filter->from = first;
	return meant - newest;
}
