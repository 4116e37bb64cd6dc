// SPDX-License-Identifier: MIT
/*
 * view perfetto: a trace for ui.perfetto.dev, as protos/perfetto/trace/trace.proto of Perfetto has
 * it: a track for each stream, its calls as slices that nest. One instruction is one nanosecond.
 * By the stamps of the scheduler, a track for each CPU with the tasks on it, in real time.
 */
#define _GNU_SOURCE
#include "tools/view/follow.h"
#include "tools/view/output.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Fields, by number. */
enum { TRACE_PACKET = 1 };
enum {
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,
};
enum { EVENT_TYPE = 9, EVENT_NAME_ID = 10, EVENT_TRACK = 11, EVENT_NAME = 23 };
enum { EVENT_BEGIN = 1, EVENT_END = 2, EVENT_INSTANT = 3 };
enum { INTERNED_NAMES = 2, NAME_ID = 1, NAME_TEXT = 2, TRACK_UUID = 1, TRACK_NAME = 2 };
enum { STATE_CLEARED = 1, STATE_NEEDED = 2 };

static const char *output = "trace.perfetto";
static FILE *out;
static uint64_t slices, first_stamp; /* calls that were sent; the first stamp's time */

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	(void)state;
	if (key != 'o')
		return ARGP_ERR_UNKNOWN;
	output = argument;
	return 0;
}

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0, "the file to write (trace.perfetto)", 0},
	{0},
};

#define LONGEST_TEXT 300

/* One message: nothing of ours is longer. */
struct message {
	uint8_t bytes[1024];
	size_t used;
};

static void add_varint(struct message *message, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		message->bytes[message->used++] = (uint8_t)(value | 0x80);
	message->bytes[message->used++] = (uint8_t)value;
}

static void add_number(struct message *message, unsigned field, uint64_t value)
{
	add_varint(message, field << 3);
	add_varint(message, value);
}

static void add_bytes(struct message *message, unsigned field, const void *bytes, size_t size)
{
	add_varint(message, field << 3 | 2);
	add_varint(message, size);
	memcpy(message->bytes + message->used, bytes, size);
	message->used += size;
}

static void add_text(struct message *message, unsigned field, const char *text)
{
	size_t size = strlen(text);

	add_bytes(message, field, text, size < LONGEST_TEXT ? size : LONGEST_TEXT);
}

static void add_message(struct message *message, unsigned field, const struct message *inner)
{
	add_bytes(message, field, inner->bytes, inner->used);
}

static void send_packet(const struct message *packet)
{
	struct message start = {.used = 0};

	add_varint(&start, TRACE_PACKET << 3 | 2);
	add_varint(&start, packet->used);
	fwrite(start.bytes, 1, start.used, out);
	fwrite(packet->bytes, 1, packet->used, out);
}

#define REAL_TIME (1u << 16) /* and a CPU's index: its track of tasks */

/* A stream's track, and the names that it has sent. */
struct track {
	uint64_t id;
	const struct trace *trace;
	void *names; /* the root of tsearch(), by address */
	size_t name_count;
	uint64_t time; /* of the last event */
};

struct name {
	const char *text;
	uint64_t id;
};

static int compare_names(const void *left, const void *right)
{
	uintptr_t a = (uintptr_t)((const struct name *)left)->text;
	uintptr_t b = (uintptr_t)((const struct name *)right)->text;

	return (a > b) - (a < b);
}

/* The number of a name; `*fresh` if the track has not sent it. Functions share their strings. */
static uint64_t name_id(struct track *track, const char *name, bool *fresh)
{
	struct name key = {name, 0}, *made, **found = tfind(&key, &track->names, compare_names);

	*fresh = !found;
	if (found)
		return (*found)->id;
	made = allocate(1, sizeof(*made));
	*made = (struct name){name, ++track->name_count};
	if (!tsearch(made, &track->names, compare_names))
		fail("no memory for the names of a track");
	return made->id;
}

static struct message packet_at(struct track *track, uint64_t position)
{
	struct message packet = {.used = 0};

	track->time = position > track->time ? position : track->time;
	add_number(&packet, PACKET_TIMESTAMP, track->time);
	add_number(&packet, PACKET_SEQUENCE, track->id);
	add_number(&packet, PACKET_FLAGS, STATE_NEEDED);
	return packet;
}

static void enter(void *argument, const struct frame *frame, unsigned depth, uint64_t position)
{
	struct track *track = argument;
	struct message packet = packet_at(track, position), event = {.used = 0};
	bool fresh;
	uint64_t id = name_id(track, frame_name(frame), &fresh);

	(void)depth;
	if (fresh) {
		struct message name = {.used = 0}, interned = {.used = 0};

		add_number(&name, NAME_ID, id);
		add_text(&name, NAME_TEXT, frame_name(frame));
		add_message(&interned, INTERNED_NAMES, &name);
		add_message(&packet, PACKET_INTERNED, &interned);
	}
	add_number(&event, EVENT_TYPE, EVENT_BEGIN);
	add_number(&event, EVENT_NAME_ID, id);
	add_number(&event, EVENT_TRACK, track->id);
	add_message(&packet, PACKET_EVENT, &event);
	send_packet(&packet);
	slices++;
}

static void leave(void *argument, const struct frame *frame, unsigned depth, uint64_t position)
{
	struct track *track = argument;
	struct message packet = packet_at(track, position), event = {.used = 0};

	(void)frame;
	(void)depth;
	add_number(&event, EVENT_TYPE, EVENT_END);
	add_number(&event, EVENT_TRACK, track->id);
	add_message(&packet, PACKET_EVENT, &event);
	send_packet(&packet);
}

static void gap(void *argument, uint64_t missing, uint64_t position)
{
	struct track *track = argument;
	struct message packet = packet_at(track, position), event = {.used = 0};
	char text[64] = "gap of unknown length";

	if (missing)
		snprintf(text, sizeof(text), "gap: %llu records", (unsigned long long)missing);
	add_number(&event, EVENT_TYPE, EVENT_INSTANT);
	add_text(&event, EVENT_NAME, text);
	add_number(&event, EVENT_TRACK, track->id);
	add_message(&packet, PACKET_EVENT, &event);
	send_packet(&packet);
}

static void send_track(uint64_t id, const char *name)
{
	struct message packet = {.used = 0}, descriptor = {.used = 0};

	add_number(&descriptor, TRACK_UUID, id);
	add_text(&descriptor, TRACK_NAME, name);
	add_number(&packet, PACKET_SEQUENCE, id);
	add_number(&packet, PACKET_FLAGS, STATE_CLEARED);
	add_message(&packet, PACKET_TRACK, &descriptor);
	send_packet(&packet);
}

/* Of all stamps the earliest; UINT64_MAX: there is none. */
static uint64_t find_start(const struct trace *trace)
{
	uint64_t start = UINT64_MAX;

	for (size_t i = 0; i < trace->stream_count; i++) {
		struct cursor_item item;
		struct cursor cursor;

		cursor_start(&cursor, trace, &trace->streams[i]);
		while (cursor_next(&cursor, &item))
			if (item.kind == CURSOR_STAMP && item.record.to && item.record.to < start)
				start = item.record.to;
		cursor_stop(&cursor);
	}
	return start;
}

static void name_task(const struct trace *trace, uint32_t pid, char *name, size_t size)
{
	const struct trace_stream *stream = trace_find(trace, pid);

	if (stream)
		trace_stream_name(stream, name, size);
	else
		snprintf(name, size, "task %u", pid);
}

/* The first time that a CPU is seen, its track. */
static void send_processor(unsigned cpu)
{
	static bool sent[TRACE_CPUS_MOST];
	char name[64];

	if (sent[cpu])
		return;
	sent[cpu] = true;
	snprintf(name, sizeof(name), "CPU %u, real time", cpu);
	send_track(REAL_TIME + cpu, name);
}

static void stamp(void *argument, const struct cursor_item *item, uint64_t position)
{
	struct track *track = argument;
	struct message packet = {.used = 0}, event = {.used = 0};
	bool arrives = item->qualifier == PTRACE_BTS_TASK_ARRIVES;
	double ticks = (double)(item->record.to - first_stamp);
	char name[256];

	(void)position;
	if (!track->trace->tsc_hz || item->cpu < 0)
		return;
	send_processor((unsigned)item->cpu);
	add_number(&packet, PACKET_TIMESTAMP,
		   (uint64_t)(ticks * 1e9 / (double)track->trace->tsc_hz));
	add_number(&packet, PACKET_SEQUENCE, REAL_TIME + (unsigned)item->cpu);
	add_number(&packet, PACKET_FLAGS, STATE_NEEDED);
	add_number(&event, EVENT_TYPE, arrives ? EVENT_BEGIN : EVENT_END);
	add_number(&event, EVENT_TRACK, REAL_TIME + (unsigned)item->cpu);
	if (arrives) {
		name_task(track->trace, item->pid, name, sizeof(name));
		add_text(&event, EVENT_NAME, name);
	}
	add_message(&packet, PACKET_EVENT, &event);
	send_packet(&packet);
}

static void send_stream(const struct filter *filter, struct trace *trace,
			struct trace_stream *stream, uint64_t id)
{
	struct track track = {.id = id, .trace = trace};
	const struct follow_events events = {
		.enter = enter, .leave = leave, .gap = gap, .stamp = stamp, .argument = &track};
	char name[256];

	send_track(id, trace_stream_name(stream, name, sizeof(name)));
	follow(filter, trace, stream, &events, NULL);
	tdestroy(track.names, free);
}

int view_perfetto(int argc, char **argv)
{
	struct filter filter = {.option = parse_option};
	struct trace *trace;

	filter_parse(
		&filter, argc, argv,
		"Writes a trace for ui.perfetto.dev: a track for each task or CPU with its calls, "
		"one instruction being one nanosecond; and one for each CPU with its tasks, in real "
		"time.",
		options);
	trace = filter_load(&filter);
	first_stamp = find_start(trace);
	out = output_open(output, trace);
	for (size_t i = 0; i < trace->stream_count; i++)
		if (filter_has_stream(&filter, &trace->streams[i]))
			send_stream(&filter, trace, &trace->streams[i], i + 1);
	output_keep();
	fprintf(stderr, "view: %s: %llu calls\n", output, (unsigned long long)slices);
	trace_free(trace);
	return 0;
}
