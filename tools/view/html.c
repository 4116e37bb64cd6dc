// SPDX-License-Identifier: MIT
/*
 * view html: one page with everything inside, which a browser opens without a network: page.html
 * with its scripts, the viewer speedscope, and for each stream its calls, its code and its last
 * branches.
 */
#define _GNU_SOURCE
#include "tools/view/follow.h"
#include "tools/view/last.h"
#include "tools/view/listing.h"
#include "tools/view/output.h"
#include "tools/view/packed.h"
#include "tools/view/profile.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <stdlib.h>
#include <string.h>

/* Signals of a stream, of which the page has the last branches before. */
#define SIGNALS_MOST 16

/* Stamps and gaps of a page, which its script holds as objects. */
#define EVENTS_MOST (1u << 20)

#define EMBEDDED(name, file)                                                                       \
	extern const char name##_start[] __asm__("_binary_" file "_start");                        \
	extern const char name##_end[] __asm__("_binary_" file "_end")

EMBEDDED(page, "tools_view_page_html");
EMBEDDED(script, "tools_view_page_js");
EMBEDDED(calls, "tools_view_calls_js");
EMBEDDED(lanes, "tools_view_lanes_js");
EMBEDDED(viewer, "third_party_speedscope_speedscope_js");
EMBEDDED(style, "third_party_speedscope_speedscope_css");
EMBEDDED(licence, "third_party_speedscope_LICENSE");

/* The line of page.html that the data take the place of. */
static const char place[] = "<!-- the trace -->\n";

/* Branches of a stream: a browser opens them in some seconds. */
#define NEWEST 10000000

static const char *output = "trace.html";
static uint64_t newest = NEWEST;
static FILE *page;
static uint64_t events_shown; /* stamps and gaps */

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	switch (key) {
	case 'o':
		output = argument;
		return 0;
	case 'n':
		newest = filter_number(argument, state);
		if (!newest)
			argp_error(state, "--newest is 1 or more");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0, "the file to write (trace.html)", 0},
	{"newest", 'n', "NUMBER", 0,
	 "of branches of a task or CPU, older ones are left out (10000000)", 0},
	{0},
};

/* A stream on its way into the page. */
struct stream_page {
	struct profile calls;
	FILE *stamps, *gaps, *ends;
	uint64_t predicted, missing, signals;
	uint64_t left_out; /* older branches */
	bool begun;	   /* a branch was seen */
	struct listing *listing;
	struct last all, users; /* branches; those from ring 3 */
	struct stack_counts counts;
};

static void enter(void *argument, const struct frame *frame, unsigned depth, uint64_t position)
{
	struct stream_page *its = argument;

	(void)depth;
	if (!profile_enter(&its->calls, frame, position))
		fail("%s: a browser cannot show so many calls of one stream: --from, --to, --depth, "
		     "--function and --newest leave some out",
		     output);
}

static void leave(void *argument, const struct frame *frame, unsigned depth, uint64_t position)
{
	struct stream_page *its = argument;

	(void)frame;
	(void)depth;
	profile_leave(&its->calls, position);
}

static void count_event(void)
{
	if (events_shown++ == EVENTS_MOST)
		fail("%s: a browser cannot show so many switches and gaps: --from, --to, --cpu and "
		     "--task leave some out",
		     output);
}

/* A gap takes an instruction of the axis for each record; one before all branches takes nothing. */
static void gap(void *argument, uint64_t missing, uint64_t position)
{
	struct stream_page *its = argument;

	count_event();
	its->missing += missing;
	fprintf(its->gaps, ",[%llu,%llu]", (unsigned long long)position,
		(unsigned long long)missing);
	if (!its->begun)
		return;
	profile_gap(&its->calls, missing ? missing : 1, position);
}

static void stamp(void *argument, const struct cursor_item *item, uint64_t position)
{
	struct stream_page *its = argument;

	count_event();
	/* A double of JavaScript does not hold every stamp: they are strings. The last number is
	 * the place on the axis, gaps included. */
	fprintf(its->stamps, ",[\"%llu\",%d,%u,%d,%llu,%llu]", (unsigned long long)item->record.to,
		item->cpu, item->pid, item->qualifier == PTRACE_BTS_TASK_ARRIVES,
		(unsigned long long)position,
		(unsigned long long)profile_place(&its->calls, position));
}

static void branch(void *argument, const struct cursor_item *item, const struct stack *stack,
		   uint64_t position)
{
	struct stream_page *its = argument;

	(void)position;
	its->begun = true;
	last_add(&its->all, stack->space, item->record.from, item->record.to);
	if (!(item->record.from >> 63))
		last_add(&its->users, stack->space, item->record.from, item->record.to);
	its->predicted += !!(item->record.flags & TRACE_PREDICTED);
}

static void block(void *argument, const struct follow_block *block)
{
	struct stream_page *its = argument;

	listing_add(its->listing, block->space, block->at, block->from, block->executed);
	if (block->shown)
		profile_block(&its->calls, block);
}

/* The last branches before `what`, at `position`. */
static void put_end(struct stream_page *its, const struct last *last, const char *what,
		    uint64_t position)
{
	fputs(",{\"what\":", its->ends);
	packed_string(its->ends, what);
	fprintf(its->ends, ",\"position\":%llu,\"branches\":", (unsigned long long)position);
	last_put(last, its->ends);
	fputc('}', its->ends);
}

static void signal_came(void *argument, const struct function *handler, uint64_t position)
{
	struct stream_page *its = argument;
	char what[512];

	if (its->signals++ >= SIGNALS_MOST)
		return;
	snprintf(what, sizeof(what), "the signal that %.400s handles", handler->name);
	put_end(its, &its->users, what, position);
}

static long frame_of(void *argument, const char *name, uint64_t address)
{
	const struct stream_page *its = argument;
	const struct frame outside = {.entered = address};

	return profile_frame(&its->calls, name ? name : frame_name(&outside));
}

static void put_listing(struct stream_page *its)
{
	FILE *packed;

	fputs("<script type=\"text/plain\" class=\"listing\">", page);
	if (!listing_is_empty(its->listing)) {
		packed = packed_open(page);
		listing_put(its->listing, packed, frame_of, its);
		fclose(packed);
	}
	fputs("</script>\n", page);
	listing_free(its->listing);
}

static void put_counter(const char *name, uint64_t value)
{
	fprintf(page, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void put_counters(const struct stream_page *its, const struct trace_stream *stream)
{
	const struct stack_counts *counts = &its->counts;

	put_counter("instructions", its->calls.end - its->calls.shift);
	put_counter("branches", counts->branches - its->left_out);
	put_counter("left_out", its->left_out);
	put_counter("predicted", its->predicted);
	put_counter("calls", its->calls.calls);
	put_counter("events", counts->events);
	put_counter("tail_calls", counts->tail_calls);
	put_counter("unwound", counts->unwound);
	put_counter("unmatched_returns", counts->unmatched_returns);
	put_counter("repairs", counts->repairs);
	put_counter("discontinuities", counts->discontinuities);
	put_counter("gaps", counts->gaps);
	put_counter("missing", its->missing);
	put_counter("bytes", stream->line_bytes);
}

/* Text that stays in memory until it is put into the page. */
struct text {
	char *bytes;
	size_t size;
	FILE *file;
};

static FILE *open_text(struct text *text)
{
	text->file = open_memstream(&text->bytes, &text->size);
	if (!text->file)
		fail("no memory for the page");
	return text->file;
}

/* An array of what was written, each with a comma before it. */
static void put_text(const char *name, struct text *text)
{
	fclose(text->file);
	fprintf(page, ",\"%s\":[%s]", name, text->size ? text->bytes + 1 : "");
	free(text->bytes);
}

static void put_stream(const struct filter *filter, struct trace *trace,
		       struct trace_stream *stream, uint64_t *calls)
{
	struct stream_page its = {.listing = listing_new()};
	struct text stamps, gaps, ends;
	const struct follow_events events = {
		.enter = enter,
		.leave = leave,
		.gap = gap,
		.stamp = stamp,
		.branch = branch,
		.block = block,
		.signal = signal_came,
		.argument = &its,
	};
	struct filter shown = *filter;
	char name[256];

	its.calls.packed = packed_open(page);
	its.left_out = filter_newest(&shown, trace, stream, newest);
	its.calls.cut = its.left_out > 0;
	its.stamps = open_text(&stamps);
	its.gaps = open_text(&gaps);
	its.ends = open_text(&ends);
	trace_stream_name(stream, name, sizeof(name));
	fputs("<script type=\"text/plain\" class=\"profile\">", page);
	follow(&shown, trace, stream, &events, &its.counts);
	fclose(its.calls.packed);
	fputs("</script>\n<script type=\"application/json\" class=\"stream\">{\"name\":", page);
	packed_string(page, name);
	fprintf(page, ",\"id\":%u", stream->id);
	put_counters(&its, stream);
	put_counter("end", its.calls.end);
	profile_put_frames(&its.calls, page);
	put_text("stamps", &stamps);
	put_text("gap_list", &gaps);
	put_end(&its, &its.all, "the end", its.calls.end - its.calls.shift + its.calls.base);
	put_text("ends", &ends);
	put_counter("signals", its.signals);
	fputs("}</script>\n", page);
	put_listing(&its);
	profile_free(&its.calls);
	*calls += its.calls.calls;
	if (its.left_out)
		warn("%s: the newest %llu branches are shown, %llu older ones are not", name,
		     (unsigned long long)newest, (unsigned long long)its.left_out);
}

static void put_script(const char *type, const char *id, const char *start, const char *end)
{
	fprintf(page, "<script type=\"%s\" id=\"%s\">", type, id);
	fwrite(start, 1, (size_t)(end - start), page);
	fputs("</script>\n", page);
}

/* Of all tasks, since those without records of their own run on CPUs. */
static void put_names(const struct trace *trace)
{
	const char *comma = "";
	char name[256];

	fputs(",\"names\":[", page);
	for (size_t i = 0; i < trace->stream_count; i++) {
		if (trace_stream_cpu(&trace->streams[i]) >= 0)
			continue;
		fprintf(page, "%s[%u,", comma, trace->streams[i].id);
		packed_string(page, trace_stream_name(&trace->streams[i], name, sizeof(name)));
		fputc(']', page);
		comma = ",";
	}
	fputc(']', page);
}

static void put_about(const struct trace *trace)
{
	char flaw[256];

	fputs("<script type=\"application/json\" id=\"about\">{\"path\":", page);
	packed_string(page, trace->path);
	fputs(",\"file\":", page);
	packed_string(page, trace->name);
	fputs(",\"version\":", page);
	packed_string(page, trace->version);
	fputs(",\"silicon\":", page);
	packed_string(page, trace->silicon);
	put_counter("cpus", trace->cpus);
	put_counter("tsc_hz", trace->tsc_hz);
	put_counter("bytes", trace->received.line_bytes);
	put_counter("newest", newest);
	fputs(",\"flaw\":", page);
	packed_string(page, trace_flaw(trace, flaw, sizeof(flaw)) ? flaw : "");
	put_names(trace);
	fputs("}</script>\n", page);
}

/* Returns how many calls the page has. */
static uint64_t put_page(const struct filter *filter, struct trace *trace)
{
	const char *at = memmem(page_start, (size_t)(page_end - page_start), place, strlen(place));
	uint64_t calls = 0;

	fwrite(page_start, 1, (size_t)(at - page_start), page);
	put_script("text/plain", "viewer", viewer_start, viewer_end);
	put_script("text/plain", "style", style_start, style_end);
	put_script("text/plain", "licence", licence_start, licence_end);
	put_about(trace);
	for (size_t i = 0; i < trace->stream_count; i++)
		if (trace->streams[i].recorded && filter_has_stream(filter, &trace->streams[i]))
			put_stream(filter, trace, &trace->streams[i], &calls);
	put_script("text/javascript", "page", script_start, script_end);
	put_script("text/javascript", "tree", calls_start, calls_end);
	put_script("text/javascript", "lanes", lanes_start, lanes_end);
	at += strlen(place);
	fwrite(at, 1, (size_t)(page_end - at), page);
	return calls;
}

int view_html(int argc, char **argv)
{
	struct filter filter = {.option = parse_option};
	struct trace *trace;
	uint64_t calls;

	filter_parse(&filter, argc, argv,
		     "Writes one page with everything inside, which a browser opens without a "
		     "network: for each task or CPU its calls in the order of time and as a tree, "
		     "counters, and which task ran where and when.",
		     options);
	trace = filter_load(&filter);
	page = output_open(output, trace);
	calls = put_page(&filter, trace);
	if (!calls)
		fail("%s: no branch of what is meant is in it", trace->path);
	output_keep();
	fprintf(stderr, "view: %s: %llu calls\n", output, (unsigned long long)calls);
	trace_free(trace);
	return 0;
}
