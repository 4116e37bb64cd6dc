// SPDX-License-Identifier: MIT
/*
 * view html: one page with everything inside, which a browser opens without a network: page.html,
 * the viewer speedscope, and for each stream its calls. These are numbers of 7 bits a byte, the
 * lowest first, the eighth bit set in all but the last. An entry has 0 for a return, or one more
 * than the place in "frames" of the function that is entered. The instructions since the entry
 * before follow.
 */
#define _GNU_SOURCE
#include "tools/view/follow.h"
#include "tools/view/output.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* The viewer needs some 400 bytes for each, and a browser gives a page 4 GiB. */
#define CALLS_MOST (8u << 20)

/* Stamps and gaps of a page, which its script holds as objects. */
#define EVENTS_MOST (1u << 20)

#define EMBEDDED(name, file)                                                                       \
	extern const char name##_start[] __asm__("_binary_" file "_start");                        \
	extern const char name##_end[] __asm__("_binary_" file "_end")

EMBEDDED(page, "tools_view_page_html");
EMBEDDED(viewer, "third_party_speedscope_speedscope_js");
EMBEDDED(style, "third_party_speedscope_speedscope_css");
EMBEDDED(licence, "third_party_speedscope_LICENSE");

/* The line of page.html that the data take the place of. */
static const char place[] = "<!-- the trace -->\n";

static const char *output = "trace.html";
static FILE *page;
static uint64_t events_shown; /* stamps and gaps */

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	(void)state;
	if (key != 'o')
		return ARGP_ERR_UNKNOWN;
	output = argument;
	return 0;
}

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0, "the file to write (trace.html)", 0},
	{0},
};

/* What is written into it is in the page as gzip in base64. */
struct packed {
	z_stream gzip;
	uint8_t bytes[3 << 14]; /* packed, not in the page yet */
};

static void put_base64(const uint8_t *bytes, size_t count)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < count; i += 3) {
		uint32_t three = (uint32_t)bytes[i] << 16;
		char four[4];

		three |= i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0;
		three |= i + 2 < count ? bytes[i + 2] : 0;
		for (unsigned at = 0; at < 4; at++)
			four[at] = i + at > count ? '=' : digits[three >> (18 - 6 * at) & 63];
		fwrite(four, 1, sizeof(four), page);
	}
}

static void pack(struct packed *packed, int flush)
{
	int code;

	do {
		code = deflate(&packed->gzip, flush);
		if (packed->gzip.avail_out && code != Z_STREAM_END)
			return;
		put_base64(packed->bytes, sizeof(packed->bytes) - packed->gzip.avail_out);
		packed->gzip.next_out = packed->bytes;
		packed->gzip.avail_out = sizeof(packed->bytes);
	} while (code != Z_STREAM_END);
}

static ssize_t write_packed(void *cookie, const char *bytes, size_t count)
{
	struct packed *packed = cookie;

	packed->gzip.next_in = (uint8_t *)bytes;
	packed->gzip.avail_in = (unsigned)count;
	pack(packed, Z_NO_FLUSH);
	return (ssize_t)count;
}

static int close_packed(void *cookie)
{
	struct packed *packed = cookie;

	pack(packed, Z_FINISH);
	deflateEnd(&packed->gzip);
	free(packed);
	return 0;
}

static FILE *open_packed(void)
{
	struct packed *packed = allocate(1, sizeof(*packed));
	FILE *file = fopencookie(
		packed, "w", (cookie_io_functions_t){.write = write_packed, .close = close_packed});

	packed->gzip.next_out = packed->bytes;
	packed->gzip.avail_out = sizeof(packed->bytes);
	if (!file || deflateInit2(&packed->gzip, 6, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY))
		fail("no memory to pack the page");
	return file;
}

/* As a string of JSON, which can be in a script of a page. */
static void put_string(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || strchr("\"\\<>&\x7f", *text))
			fprintf(to, "\\u%04x", (unsigned char)*text);
		else
			fputc(*text, to);
	fputc('"', to);
}

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
	uint64_t end, predicted, calls, missing;
	bool begun; /* a branch was seen */
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

/* `entered`: one more than the number of a frame; 0: a return. */
static void put_event(struct profile *profile, size_t entered, uint64_t position)
{
	put_number(profile->packed, entered);
	put_number(profile->packed, position + profile->shift - profile->end);
	profile->end = position + profile->shift;
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
	/* A double of JavaScript does not hold every stamp: they are strings. */
	fprintf(profile->stamps, ",[\"%llu\",%d,%u,%d,%llu]", (unsigned long long)item->record.to,
		item->cpu, item->pid, item->qualifier == PTRACE_BTS_TASK_ARRIVES,
		(unsigned long long)position);
}

static void branch(void *argument, const struct cursor_item *item, const struct stack *stack,
		   uint64_t position)
{
	struct profile *profile = argument;

	(void)stack;
	(void)position;
	profile->begun = true;
	profile->predicted += !!(item->record.flags & TRACE_PREDICTED);
}

/* As speedscope takes them. */
static void put_frames(const struct profile *profile)
{
	fputs(",\"frames\":[", page);
	for (size_t i = 0; i < profile->frame_count; i++) {
		fprintf(page, "%s\n{\"name\":", i ? "," : "");
		put_string(page, profile->frames[i].name);
		if (profile->frames[i].line.file) {
			fputs(",\"file\":", page);
			put_string(page, profile->frames[i].line.file);
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
	put_counter("branches", counts->branches);
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
	struct profile profile = {.packed = open_packed()};
	struct text stamps, gaps;
	const struct follow_events events = {
		.enter = enter,
		.leave = leave,
		.gap = gap,
		.stamp = stamp,
		.branch = branch,
		.argument = &profile,
	};
	char name[256];

	profile.stamps = open_text(&stamps);
	profile.gaps = open_text(&gaps);
	trace_stream_name(stream, name, sizeof(name));
	fputs("<script type=\"text/plain\" class=\"profile\">", page);
	follow(filter, trace, stream, &events, &profile.counts);
	fclose(profile.packed);
	fputs("</script>\n<script type=\"application/json\" class=\"stream\">{\"name\":", page);
	put_string(page, name);
	fprintf(page, ",\"id\":%u", stream->id);
	put_counters(&profile, stream);
	put_counter("end", profile.end);
	put_frames(&profile);
	put_text("stamps", &stamps);
	put_text("gap_list", &gaps);
	fputs("}</script>\n", page);
	free(profile.frames);
	free(profile.slots);
	*calls += profile.calls;
}

static void put_script(const char *id, const char *start, const char *end)
{
	fprintf(page, "<script type=\"text/plain\" id=\"%s\">", id);
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
		put_string(page, trace_stream_name(&trace->streams[i], name, sizeof(name)));
		fputc(']', page);
		comma = ",";
	}
	fputc(']', page);
}

static void put_about(const struct trace *trace)
{
	char flaw[256];

	fputs("<script type=\"application/json\" id=\"about\">{\"path\":", page);
	put_string(page, trace->path);
	fputs(",\"file\":", page);
	put_string(page, trace->name);
	fputs(",\"version\":", page);
	put_string(page, trace->version);
	fputs(",\"silicon\":", page);
	put_string(page, trace->silicon);
	put_counter("cpus", trace->cpus);
	put_counter("tsc_hz", trace->tsc_hz);
	put_counter("bytes", trace->received.line_bytes);
	fputs(",\"flaw\":", page);
	put_string(page, trace_flaw(trace, flaw, sizeof(flaw)) ? flaw : "");
	put_names(trace);
	fputs("}</script>\n", page);
}

/* Returns how many calls the page has. */
static uint64_t put_page(const struct filter *filter, struct trace *trace)
{
	const char *at = memmem(page_start, (size_t)(page_end - page_start), place, strlen(place));
	uint64_t calls = 0;

	fwrite(page_start, 1, (size_t)(at - page_start), page);
	put_script("viewer", viewer_start, viewer_end);
	put_script("style", style_start, style_end);
	put_script("licence", licence_start, licence_end);
	put_about(trace);
	for (size_t i = 0; i < trace->stream_count; i++)
		if (trace->streams[i].recorded && filter_has_stream(filter, &trace->streams[i]))
			put_stream(filter, trace, &trace->streams[i], &calls);
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
