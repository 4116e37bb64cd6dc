// SPDX-License-Identifier: MIT
// view calls: the calls of each task, one line for each stay in a function.
#include "tools/view/follow.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#define DEEPEST_INDENT 60

static bool strict;

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	(void)argument;
	(void)state;
	if (key != 's')
		return ARGP_ERR_UNKNOWN;
	strict = true;
	return 0;
}

static const struct argp_option options[] = {
	{"strict", 's', NULL, 0, "leave with 1 if anything was repaired or is missing", 0},
	{0},
};

/* A stay: the instructions from one change of the innermost frame to the next. */
struct stay {
	const struct space *space;
	struct frame frames[DEEPEST_INDENT + 1]; /* that are shown */
	unsigned depth;				 /* of all that are shown */
	uint64_t began;				 /* the first instruction of this stay */
	int first_line, last_line;
	bool fresh; /* the frame was entered, not returned to */
	uint64_t repairs;
	char mark;
};

static const char *const kinds[] = {
	[FRAME_ROOT] = " [from before]",
	[FRAME_CALL] = "",
	[FRAME_UNSEEN] = " [call not recorded]",
	[FRAME_TAIL] = " [jump]",
	[FRAME_EVENT] = " [event]",
};

static void print_lines(const struct stay *stay, const struct frame *frame)
{
	struct line line = space_line(stay->space, frame->entered);

	if (!line.file || !stay->first_line)
		return;
	printf("  %s:%d", line.file, stay->first_line);
	if (stay->last_line != stay->first_line)
		printf(",%d", stay->last_line);
}

/* What is known of code without a file is that it was entered. */
static void print_instructions(const struct stay *stay, uint64_t position)
{
	if (position > stay->began)
		printf("%c %10llu,%-10llu", stay->mark, (unsigned long long)stay->began + 1,
		       (unsigned long long)position);
	else
		printf("%c %10s,%-10s", stay->mark, "-", "-");
}

/* Prints the stay that ends at `position`, if it had an instruction. */
static void end_stay(struct stay *stay, uint64_t position)
{
	unsigned shown = stay->depth < DEEPEST_INDENT ? stay->depth : DEEPEST_INDENT;
	const struct frame *frame = &stay->frames[shown ? shown - 1 : 0];

	if (stay->depth &&
	    (position > stay->began || (stay->fresh && frame->kind == FRAME_EVENT))) {
		print_instructions(stay, position);
		printf(" %*s%s%s", (int)(2 * (shown - 1)), "", frame_name(frame),
		       stay->fresh ? kinds[frame->kind] : "");
		print_lines(stay, frame);
		putchar('\n');
		stay->mark = ' ';
	}
	stay->began = position;
	stay->first_line = stay->last_line = 0;
	stay->fresh = false;
}

static void enter(void *argument, const struct frame *frame, unsigned depth, uint64_t position)
{
	struct stay *stay = argument;

	end_stay(stay, position);
	if (depth < DEEPEST_INDENT)
		stay->frames[depth] = *frame;
	else
		stay->frames[DEEPEST_INDENT - 1] = *frame;
	stay->depth = depth + 1;
	stay->fresh = true;
}

static void leave(void *argument, const struct frame *frame, unsigned depth, uint64_t position)
{
	struct stay *stay = argument;

	(void)frame;
	end_stay(stay, position);
	stay->depth = depth;
}

/* Lines of the function that is shown, not of deeper calls that are not. */
static void add_line(struct stay *stay, uint64_t address)
{
	int number = space_line(stay->space, address).number;
	unsigned shown = stay->depth < DEEPEST_INDENT ? stay->depth : DEEPEST_INDENT;

	if (!number || !shown ||
	    space_function(stay->space, address) != stay->frames[shown - 1].function)
		return;
	if (!stay->first_line || number < stay->first_line)
		stay->first_line = number;
	if (number > stay->last_line)
		stay->last_line = number;
}

static void branch(void *argument, const struct cursor_item *item, const struct stack *stack,
		   uint64_t position)
{
	struct stay *stay = argument;

	(void)position;
	stay->space = stack->space;
	if (stack->counts.repairs + stack->counts.discontinuities != stay->repairs)
		stay->mark = '!';
	stay->repairs = stack->counts.repairs + stack->counts.discontinuities;
	add_line(stay, item->record.to);
}

static void gap(void *argument, uint64_t missing, uint64_t position)
{
	struct stay *stay = argument;

	end_stay(stay, position);
	if (missing)
		printf("* gap: %llu records are missing\n", (unsigned long long)missing);
	else
		puts("* gap: an unknown number of records is missing");
}

static void stamp(void *argument, const struct cursor_item *item, uint64_t position)
{
	end_stay(argument, position);
	printf("- task %u %s CPU %d, tsc %llu\n", item->pid,
	       item->qualifier == PTRACE_BTS_TASK_ARRIVES ? "arrives on" : "departs from",
	       item->cpu, (unsigned long long)item->record.to);
}

static void mark(void *argument, const struct cursor_item *item, uint64_t position)
{
	end_stay(argument, position);
	printf("- mark: %.*s\n", (int)item->text_size, item->text);
}

static void print_stream(const struct filter *filter, struct trace *trace,
			 struct trace_stream *stream, struct stack_counts *counts)
{
	struct stay stay = {.space = &stream->space, .mark = ' '};
	const struct follow_events events = {enter,  leave, gap,  stamp, mark,
					     branch, NULL,  NULL, &stay};
	char name[256];

	printf("%s: instructions, calls, lines\n", trace_stream_name(stream, name, sizeof(name)));
	follow(filter, trace, stream, &events, counts);
}

int view_calls(int argc, char **argv)
{
	struct filter filter = {.option = parse_option};
	struct stack_counts counts = {0};
	struct trace *trace;

	filter_parse(
		&filter, argc, argv,
		"Prints the calls of each stream, indented: a line for each stay in a function, "
		"with the instructions of the stream that it executed and the source lines that it "
		"touched. In the first column * is a gap, ! a place that the code does not "
		"explain and that was repaired, - a switch or a mark.",
		options);
	trace = filter_load(&filter);
	for (size_t i = 0; i < trace->stream_count; i++)
		if (filter_has_stream(&filter, &trace->streams[i]))
			print_stream(&filter, trace, &trace->streams[i], &counts);
	printf("%llu branches: %llu events, %llu tail calls, %llu unwound, %llu unmatched returns, %llu gaps, %llu repairs, %llu discontinuities\n",
	       (unsigned long long)counts.branches, (unsigned long long)counts.events,
	       (unsigned long long)counts.tail_calls, (unsigned long long)counts.unwound,
	       (unsigned long long)counts.unmatched_returns, (unsigned long long)counts.gaps,
	       (unsigned long long)counts.repairs, (unsigned long long)counts.discontinuities);
	trace_free(trace);
	return strict && (counts.repairs || counts.discontinuities || counts.gaps) ? EXIT_WRONG : 0;
}
