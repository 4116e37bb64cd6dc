// SPDX-License-Identifier: MIT
/*
 * view html: one page with everything inside, which a browser opens without a network: page.html
 * with its scripts, the viewer speedscope, and for each stream its calls, its code and its last
 * branches. The calls are numbers of 7 bits a byte, the
 * lowest first, the eighth bit set in all but the last. An entry has 0 for a return, or one more
 * than the place in "frames" of the function that is entered. The instructions since the entry
 * before follow.
 */
#define _GNU_SOURCE
#include "tools/view/follow.h"
#include "tools/view/last.h"
#include "tools/view/listing.h"
#include "tools/view/output.h"
#include "tools/view/packed.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <stdlib.h>
#include <string.h>

/* The viewer needs some 400 bytes for each, and a browser gives a page 4 GiB. */
#define CALLS_MOST (8u << 20)

/* Signals of a stream, of which the page has the last branches before. */
#define SIGNALS_MOST 16

/* Stamps and gaps of a page, which its script holds as objects. */
#define EVENTS_MOST (1u << 20)

#define EMBEDDED(name, file)                                                                       \
	extern const char name##_start[] __asm__("_binary_" file "_start");                        \
	extern const char name##_end[] __asm__("_binary_" file "_end")

EMBEDDED(page, "tools_view_page_html");
EMBEDDED(script, "tools_view_page_js");
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

/* Frames with the same name at the same address in memory are one. */
struct profile_frame {
	const char *name;
	struct line line;
};

/* A stream on its way into the page. */
struct profile {
	FILE *packed, *stamps, *gaps;
	struct profile_frame *frames;
	size_t frame_count, *slots, slot_count; /* of `frames`, plus one; 0: free */
	uint64_t shift;				/* what gaps take of the axis */
	uint64_t base;				/* the instructions before the axis begins */
	bool based;				/* it is known */
	uint64_t left_out;			/* older branches */
	uint64_t end, predicted, calls, missing;
	bool begun; /* a branch was seen */
	struct listing *listing;
	struct last all, users; /* branches; those from ring 3 */
	FILE *ends;
	uint64_t signals;
	struct stack_counts counts;
};

static size_t *find_slot(const struct profile *profile, const char *name)
{
	size_t slot = ((uintptr_t)name * 0x9e3779b97f4a7c15 >> 32) & (profile->slot_count - 1);

	while (profile->slots[slot] && profile->frames[profile->slots[slot] - 1].name != name)
		slot = (slot + 1) & (profile->slot_count - 1);
	return &profile->slots[slot];
}

static void grow_slots(struct profile *profile)
{
	profile->slot_count = profile->slot_count ? 2 * profile->slot_count : 256;
	free(profile->slots);
	profile->slots = allocate(profile->slot_count, sizeof(*profile->slots));
	for (size_t i = 0; i < profile->frame_count; i++)
		*find_slot(profile, profile->frames[i].name) = i + 1;
}

/* The number of a frame; `frame` NULL: of one that is only a name. */
static size_t frame_number(struct profile *profile, const char *name, const struct frame *frame)
{
	struct line line = {0};

	if (2 * profile->frame_count >= profile->slot_count)
		grow_slots(profile);
	if (*find_slot(profile, name))
		return *find_slot(profile, name) - 1;
	if (frame && frame->function && frame->space)
		line = space_line(frame->space, frame->function->start);
	profile->frames =
		reallocate(profile->frames, profile->frame_count + 1, sizeof(*profile->frames));
	profile->frames[profile->frame_count] = (struct profile_frame){name, line};
	*find_slot(profile, name) = profile->frame_count + 1;
	return profile->frame_count++;
}

static void put_number(FILE *to, uint64_t number)
{
	for (; number >> 7; number >>= 7)
		putc_unlocked((int)(number & 127) | 128, to);
	putc_unlocked((int)number, to);
}

/* The place on the axis. */
static uint64_t place_of(struct profile *profile, uint64_t position)
{
	if (!profile->based)
		profile->base = profile->left_out ? position : 0;
	profile->based = true;
	return position - profile->base + profile->shift;
}

/* `entered`: one more than the number of a frame; 0: a return. */
static void put_event(struct profile *profile, size_t entered, uint64_t position)
{
	uint64_t at = place_of(profile, position);

	put_number(profile->packed, entered);
	put_number(profile->packed, at - profile->end);
	profile->end = at;
}

static void enter(void *argument, const struct frame *frame, unsigned depth, uint64_t position)
{
	struct profile *profile = argument;

	(void)depth;
	if (profile->calls++ == CALLS_MOST)
		fail("%s: a browser cannot show so many calls of one stream: --from, --to, --depth "
		     "and --function leave some out",
		     output);
	put_event(profile, frame_number(profile, frame_name(frame), frame) + 1, position);
}

static void leave(void *argument, const struct frame *frame, unsigned depth, uint64_t position)
{
	(void)frame;
	(void)depth;
	put_event(argument, 0, position);
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
	struct profile *profile = argument;
	static const char name[] = "[gap: as many records as it is wide, or an unknown number]";

	count_event();
	profile->missing += missing;
	fprintf(profile->gaps, ",[%llu,%llu]", (unsigned long long)position,
		(unsigned long long)missing);
	if (!profile->begun)
		return;
	put_event(profile, frame_number(profile, name, NULL) + 1, position);
	profile->shift += missing ? missing : 1;
	put_event(profile, 0, position);
}

static void stamp(void *argument, const struct cursor_item *item, uint64_t position)
{
	struct profile *profile = argument;

	count_event();
	/* A double of JavaScript does not hold every stamp: they are strings. The last number is
	 * the place on the axis, gaps included. */
	fprintf(profile->stamps, ",[\"%llu\",%d,%u,%d,%llu,%llu]",
		(unsigned long long)item->record.to, item->cpu, item->pid,
		item->qualifier == PTRACE_BTS_TASK_ARRIVES, (unsigned long long)position,
		(unsigned long long)place_of(profile, position));
}

static void branch(void *argument, const struct cursor_item *item, const struct stack *stack,
		   uint64_t position)
{
	struct profile *profile = argument;

	(void)position;
	profile->begun = true;
	last_add(&profile->all, stack->space, item->record.from, item->record.to);
	if (!(item->record.from >> 63))
		last_add(&profile->users, stack->space, item->record.from, item->record.to);
	profile->predicted += !!(item->record.flags & TRACE_PREDICTED);
}

static void block(void *argument, const struct space *space, uint64_t at, uint64_t from,
		  bool executed)
{
	struct profile *profile = argument;

	listing_add(profile->listing, space, at, from, executed);
}

/* The last branches before `what`, at `position`. */
static void put_end(struct profile *profile, const struct last *last, const char *what,
		    uint64_t position)
{
	fputs(",{\"what\":", profile->ends);
	packed_string(profile->ends, what);
	fprintf(profile->ends, ",\"position\":%llu,\"branches\":", (unsigned long long)position);
	last_put(last, profile->ends);
	fputc('}', profile->ends);
}

static void signal_came(void *argument, const struct function *handler, uint64_t position)
{
	struct profile *profile = argument;
	char what[512];

	if (profile->signals++ >= SIGNALS_MOST)
		return;
	snprintf(what, sizeof(what), "the signal that %.400s handles", handler->name);
	put_end(profile, &profile->users, what, position);
}

/* The frame that a function is in the page; -1: it is not there. */
static long frame_of(void *argument, const char *name, uint64_t address)
{
	const struct profile *profile = argument;
	const struct frame outside = {.entered = address};

	return profile->slot_count
		       ? (long)*find_slot(profile, name ? name : frame_name(&outside)) - 1
		       : -1;
}

static void put_listing(struct profile *profile)
{
	FILE *packed;

	fputs("<script type=\"text/plain\" class=\"listing\">", page);
	if (!listing_is_empty(profile->listing)) {
		packed = packed_open(page);
		listing_put(profile->listing, packed, frame_of, profile);
		fclose(packed);
	}
	fputs("</script>\n", page);
	listing_free(profile->listing);
}

/* As speedscope takes them. */
static void put_frames(const struct profile *profile)
{
	fputs(",\"frames\":[", page);
	for (size_t i = 0; i < profile->frame_count; i++) {
		fprintf(page, "%s\n{\"name\":", i ? "," : "");
		packed_string(page, profile->frames[i].name);
		if (profile->frames[i].line.file) {
			fputs(",\"file\":", page);
			packed_string(page, profile->frames[i].line.file);
			fprintf(page, ",\"line\":%d", profile->frames[i].line.number);
		}
		fputc('}', page);
	}
	fputc(']', page);
}

static void put_counter(const char *name, uint64_t value)
{
	fprintf(page, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void put_counters(const struct profile *profile, const struct trace_stream *stream)
{
	const struct stack_counts *counts = &profile->counts;

	put_counter("instructions", profile->end - profile->shift);
	put_counter("branches", counts->branches - profile->left_out);
	put_counter("left_out", profile->left_out);
	put_counter("predicted", profile->predicted);
	put_counter("calls", profile->calls);
	put_counter("events", counts->events);
	put_counter("tail_calls", counts->tail_calls);
	put_counter("unwound", counts->unwound);
	put_counter("unmatched_returns", counts->unmatched_returns);
	put_counter("repairs", counts->repairs);
	put_counter("discontinuities", counts->discontinuities);
	put_counter("gaps", counts->gaps);
	put_counter("missing", profile->missing);
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
	struct profile profile = {.packed = packed_open(page), .listing = listing_new()};
	struct text stamps, gaps, ends;
	const struct follow_events events = {
		.enter = enter,
		.leave = leave,
		.gap = gap,
		.stamp = stamp,
		.branch = branch,
		.block = block,
		.signal = signal_came,
		.argument = &profile,
	};
	struct filter shown = *filter;
	char name[256];

	profile.left_out = filter_newest(&shown, trace, stream, newest);
	profile.stamps = open_text(&stamps);
	profile.gaps = open_text(&gaps);
	profile.ends = open_text(&ends);
	trace_stream_name(stream, name, sizeof(name));
	fputs("<script type=\"text/plain\" class=\"profile\">", page);
	follow(&shown, trace, stream, &events, &profile.counts);
	fclose(profile.packed);
	fputs("</script>\n<script type=\"application/json\" class=\"stream\">{\"name\":", page);
	packed_string(page, name);
	fprintf(page, ",\"id\":%u", stream->id);
	put_counters(&profile, stream);
	put_counter("end", profile.end);
	put_frames(&profile);
	put_text("stamps", &stamps);
	put_text("gap_list", &gaps);
	put_end(&profile, &profile.all, "the end", profile.end - profile.shift + profile.base);
	put_text("ends", &ends);
	put_counter("signals", profile.signals);
	fputs("}</script>\n", page);
	put_listing(&profile);
	free(profile.frames);
	free(profile.slots);
	*calls += profile.calls;
	if (profile.left_out)
		warn("%s: the newest %llu branches are shown, %llu older ones are not", name,
		     (unsigned long long)newest, (unsigned long long)profile.left_out);
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
