// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "tools/view/trace.h"

#include "lib/frame.h"
#include "tools/view/perf_file.h"
#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* How many of the streams have a lower id. */
static size_t place_of(const struct trace *trace, uint32_t id)
{
	return COUNT_FIRST(trace->stream_count, at, trace->streams[trace->order[at]].id < id);
}

const struct trace_stream *trace_find(const struct trace *trace, uint32_t id)
{
	size_t place = place_of(trace, id);
	const struct trace_stream *stream =
		place < trace->stream_count ? &trace->streams[trace->order[place]] : NULL;

	return stream && stream->id == id ? stream : NULL;
}

static struct trace_stream *add_stream(struct trace *trace, uint32_t id)
{
	size_t place = place_of(trace, id), count = trace->stream_count;

	if (count == trace->stream_room) {
		trace->stream_room = count ? 2 * count : 16;
		trace->streams =
			reallocate(trace->streams, trace->stream_room, sizeof(*trace->streams));
		trace->order = reallocate(trace->order, trace->stream_room, sizeof(*trace->order));
	}
	memmove(trace->order + place + 1, trace->order + place,
		(count - place) * sizeof(*trace->order));
	trace->order[place] = (uint32_t)count;
	trace->streams[count] = (struct trace_stream){.id = id};
	trace->stream_count++;
	return &trace->streams[count];
}

struct trace_stream *trace_stream(struct trace *trace, uint32_t id)
{
	const struct trace_stream *found = trace_find(trace, id);
	struct trace_stream of = {.id = id};

	if (found)
		return &trace->streams[found - trace->streams];
	if (trace_stream_cpu(&of) >= (int)TRACE_CPUS_MOST)
		trace->wrong = "there is no such CPU: a machine has 512 at most";
	else if (trace->stream_count == TRACE_STREAMS_MOST)
		trace->wrong = "a trace has 65536 streams at most";
	else
		return add_stream(trace, id);
	return NULL;
}

/* As trace_stream(), one that has a total in END. */
static struct trace_stream *recorded_stream(struct trace *trace, uint32_t id)
{
	struct trace_stream *stream = trace_stream(trace, id);

	if (!stream || stream->recorded)
		return stream;
	if (trace->recorded_count == TRACE_TOTALS_MOST) {
		trace->wrong = "more streams have frames than END has room for: 682";
		return NULL;
	}
	trace->recorded_count++;
	stream->recorded = true;
	return stream;
}

int trace_stream_cpu(const struct trace_stream *stream)
{
	if (!(stream->id & TRACE_STREAM_CPU))
		return -1;
	return (int)(stream->id & ~(TRACE_STREAM_CPU | TRACE_STREAM_PT));
}

const char *trace_stream_name(const struct trace_stream *stream, char *text, size_t size)
{
	const char *name = stream->name[0] ? stream->name : stream->program;

	if (stream->id & TRACE_STREAM_CPU)
		snprintf(text, size, stream->id & TRACE_STREAM_PT ? "CPU %d (PT)" : "CPU %d",
			 trace_stream_cpu(stream));
	else
		snprintf(text, size, *name ? "task %u (%s)" : "task %u",
			 stream->tid ? stream->tid : stream->id, name);
	return text;
}

/* Text items become strings of printable characters. */
static void take_text(char *text, size_t room, const uint8_t *payload, size_t size, unsigned tag)
{
	size_t count = 0;
	const uint8_t *item = stream_item(payload, size, tag, &count);

	if (!item)
		return;
	count = count < room ? count : room - 1;
	memcpy(text, item, count);
	make_printable(text, count);
	text[count] = 0;
}

static uint64_t take_number(const uint8_t *payload, size_t size, unsigned tag, size_t bytes)
{
	size_t count = 0;
	const uint8_t *item = stream_item(payload, size, tag, &count);
	uint64_t number = 0;

	if (item && count == bytes)
		memcpy(&number, item, bytes);
	return number;
}

static int compare_numbers(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static size_t without_doubles(uint64_t *numbers, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!i || numbers[i] != numbers[i - 1])
			numbers[kept++] = numbers[i];
	return kept;
}

static void take_entries(struct trace *trace, const uint8_t *payload, size_t size)
{
	size_t count = 0;
	const uint8_t *item = stream_item(payload, size, TRACE_ITEM_ENTRIES, &count);

	free(trace->entries);
	trace->entry_count = count / sizeof(*trace->entries);
	trace->entries = allocate(trace->entry_count, sizeof(*trace->entries));
	if (item)
		memcpy(trace->entries, item, trace->entry_count * sizeof(*trace->entries));
	qsort(trace->entries, trace->entry_count, sizeof(*trace->entries), compare_numbers);
	trace->entry_count = without_doubles(trace->entries, trace->entry_count);
}

static bool take_hello(struct trace *trace, const uint8_t *payload, size_t size)
{
	size_t count = 0;
	const uint8_t *id = stream_item(payload, size, TRACE_ITEM_BUILD_ID, &count);

	trace->greeted = true;
	take_text(trace->name, sizeof(trace->name), payload, size, TRACE_ITEM_NAME);
	take_text(trace->version, sizeof(trace->version), payload, size, TRACE_ITEM_VERSION);
	take_text(trace->silicon, sizeof(trace->silicon), payload, size, TRACE_ITEM_SILICON);
	if (id && count <= sizeof(trace->build_id)) {
		memcpy(trace->build_id, id, count);
		trace->build_id_size = count;
	}
	trace->processor = (uint32_t)take_number(payload, size, TRACE_ITEM_PROCESSOR, 4);
	trace->cpus = (uint32_t)take_number(payload, size, TRACE_ITEM_CPUS, 4);
	trace->tsc_hz = take_number(payload, size, TRACE_ITEM_TSC_HZ, 8);
	take_entries(trace, payload, size);
	if (trace->cpus > TRACE_CPUS_MOST)
		trace->wrong = "HELLO has more CPUs than a machine can have: 512";
	return trace->cpus <= TRACE_CPUS_MOST;
}

static void take_root(struct trace *trace, const struct trace_frame *header, uint64_t cr3)
{
	if (!cr3)
		return;
	if (!(trace->root_count & (trace->root_count - 1)))
		trace->roots =
			reallocate(trace->roots, 2 * trace->root_count + 1, sizeof(*trace->roots));
	trace->roots[trace->root_count++] =
		(struct trace_root){header->sequence, header->stream, cr3};
}

static bool take_stream(struct trace *trace, const struct trace_frame *header,
			const uint8_t *payload, size_t size)
{
	struct trace_stream *stream = trace_stream(trace, header->stream);

	if (!stream)
		return false;
	take_text(stream->name, sizeof(stream->name), payload, size, TRACE_ITEM_NAME);
	take_text(stream->program, sizeof(stream->program), payload, size, TRACE_ITEM_PROGRAM);
	stream->checksum = (uint32_t)take_number(payload, size, TRACE_ITEM_CHECKSUM, 4);
	stream->view = (uint32_t)take_number(payload, size, TRACE_ITEM_VIEW, 4);
	take_root(trace, header, take_number(payload, size, TRACE_ITEM_CR3, 8));
	return true;
}

void trace_add_part(struct trace_parts *parts, const struct trace_frame *header,
		    const uint8_t *payload, size_t size, size_t line_size)
{
	uint8_t *copy = allocate(size, 1);

	if (size)
		memcpy(copy, payload, size);
	if (parts->count == parts->room) {
		parts->room = parts->room ? 2 * parts->room : 16;
		parts->part = reallocate(parts->part, parts->room, sizeof(*parts->part));
	}
	parts->part[parts->count++] = (struct trace_part){
		.header = *header, .payload = copy, .size = size, .line_size = line_size};
}

enum { PART_RECORDS = TRACE_PAYLOAD_BYTES / sizeof(struct trace_record) };

void trace_add_records(struct trace_stream *stream, const struct trace_record *records,
		       size_t count)
{
	for (size_t at = 0; at < count; at += PART_RECORDS) {
		size_t some = count - at < PART_RECORDS ? count - at : PART_RECORDS;
		const struct trace_frame header = {.type = TRACE_FRAME_BRANCHES,
						   .encoding = TRACE_ENCODING_RAW,
						   .count = (uint16_t)some,
						   .index = stream->records};

		trace_add_part(&stream->parts, &header, (const uint8_t *)(records + at),
			       some * sizeof(*records), 0);
		stream->records += some;
	}
}

static bool take_branches(struct trace *trace, const struct trace_frame *header,
			  const uint8_t *payload, size_t size, size_t line_size)
{
	static struct trace_record records[STREAM_RECORDS];
	struct trace_stream *stream = recorded_stream(trace, header->stream);
	size_t count;

	if (!stream)
		return false;
	trace->wrong = stream_records(header, payload, size, records, &count);
	if (trace->wrong)
		return false;
	trace_add_part(&stream->parts, header, payload, size, line_size);
	stream->sum = stream_sum(stream->sum, records, count);
	stream->records += header->count;
	stream->stamps += header->stamps;
	stream->lost += header->lost;
	stream->line_bytes += line_size;
	stream->taken.frames++;
	stream->taken.records += header->count;
	stream->taken.lost += header->lost;
	return true;
}

/* PACKETS or SAMPLES. */
static bool take_bytes(struct trace *trace, const struct trace_frame *header,
		       const uint8_t *payload, size_t size, size_t line_size)
{
	struct trace_stream *stream = recorded_stream(trace, header->stream);
	bool samples = header->type == TRACE_FRAME_SAMPLES;

	if (!stream)
		return false;
	if (samples ? !stream_sample_size(header, size) : header->encoding != TRACE_ENCODING_RAW) {
		trace->wrong = "a frame has an encoding that this program does not know";
		return false;
	}
	trace_add_part(samples ? &stream->samples : &stream->packets, header, payload, size,
		       line_size);
	stream->line_bytes += line_size;
	stream->taken.frames++;
	stream->taken.records += samples ? header->count : size;
	stream->taken.lost += header->lost;
	return true;
}

static bool take_end(struct trace *trace, const struct trace_frame *header, const uint8_t *payload,
		     size_t size)
{
	struct trace_total total;

	if (size != header->count * sizeof(total)) {
		trace->wrong = "the frame END has another number of totals than it says";
		return false;
	}
	for (size_t at = 0; at < size; at += sizeof(total)) {
		struct trace_stream *stream;

		memcpy(&total, payload + at, sizeof(total));
		stream = recorded_stream(trace, total.stream);
		if (!stream)
			return false;
		stream->total = total;
		stream->totalled = true;
	}
	trace->untraced = header->lost;
	trace->ended = true;
	return true;
}

static bool take_sum(struct trace *trace, const struct trace_frame *header, const uint8_t *payload,
		     size_t size)
{
	struct trace_stream *stream = recorded_stream(trace, header->stream);

	if (!stream)
		return false;
	if (size != sizeof(stream->sum_sent)) {
		trace->wrong = "a frame SUM is not of four bytes";
		return false;
	}
	memcpy(&stream->sum_sent, payload, size);
	stream->summed = true;
	return true;
}

static bool take_mark(struct trace *trace, const struct trace_frame *header, const uint8_t *payload,
		      size_t size, size_t line_size)
{
	struct trace_stream *stream = recorded_stream(trace, header->stream);

	if (!stream)
		return false;
	trace_add_part(&stream->parts, header, payload, size, line_size);
	make_printable((char *)stream->parts.part[stream->parts.count - 1].payload, size);
	return true;
}

bool trace_take(struct trace *trace, const struct trace_frame *header, const uint8_t *payload,
		size_t size, size_t line_size)
{
	switch (header->type) {
	case TRACE_FRAME_HELLO:
		return take_hello(trace, payload, size);
	case TRACE_FRAME_STREAM:
		return take_stream(trace, header, payload, size);
	case TRACE_FRAME_BRANCHES:
		return take_branches(trace, header, payload, size, line_size);
	case TRACE_FRAME_MARK:
		return take_mark(trace, header, payload, size, line_size);
	case TRACE_FRAME_PACKETS:
	case TRACE_FRAME_SAMPLES:
		return take_bytes(trace, header, payload, size, line_size);
	case TRACE_FRAME_SUM:
		return take_sum(trace, header, payload, size);
	case TRACE_FRAME_END:
		return take_end(trace, header, payload, size);
	default:
		return true;
	}
}

/* Records, or bytes of packets, and frames of a stream against what END says was sent. */
static const char *stream_flaw(const struct trace_stream *stream, char *text, size_t size)
{
	const struct trace_total *taken = &stream->taken, *total = &stream->total;
	const char *unit = stream->packets.count ? "bytes" : "records";
	char name[256];

	trace_stream_name(stream, name, sizeof(name));
	if (!stream->totalled && taken->frames)
		snprintf(text, size, "the frame END does not have %s", name);
	else if (stream->totalled &&
		 (total->frames != taken->frames || total->records != taken->records ||
		  total->lost != taken->lost))
		snprintf(text, size, "%s: %u frames with %llu %s were sent, %u with %llu are here",
			 name, total->frames, (unsigned long long)total->records, unit,
			 taken->frames, (unsigned long long)taken->records);
	else if (stream->summed && stream->sum != stream->sum_sent)
		snprintf(text, size,
			 "%s: the records are not those that were sent: CRC32C %08x, not %08x",
			 name, stream->sum, stream->sum_sent);
	else
		return NULL;
	return text;
}

const char *trace_flaw(const struct trace *trace, char *text, size_t size)
{
	const struct stream_received *received = &trace->received;

	if (trace->perf && !trace->flaw[0])
		return NULL;
	if (trace->flaw[0])
		snprintf(text, size, "%s", trace->flaw);
	else if (received->damaged || received->missing || received->backward)
		snprintf(text, size, "%llu frames are damaged, %llu missing, %llu out of order",
			 (unsigned long long)received->damaged,
			 (unsigned long long)received->missing,
			 (unsigned long long)received->backward);
	else if (!trace->greeted)
		snprintf(text, size, "there is no frame HELLO");
	else if (!trace->ended)
		snprintf(text, size, "there is no frame END: the stream was cut");
	else {
		for (size_t i = 0; i < trace->stream_count; i++)
			if (stream_flaw(&trace->streams[i], text, size))
				return text;
		if (!trace->untraced)
			return NULL;
		snprintf(text, size, "%llu tasks or CPUs could not be traced",
			 (unsigned long long)trace->untraced);
	}
	return text;
}

static void load_frame(void *argument, const struct trace_frame *header, const uint8_t *payload,
		       size_t size, const uint8_t *line, size_t line_size)
{
	struct trace *trace = argument;

	(void)line;
	if (!trace_take(trace, header, payload, size, line_size + 2))
		fail("%s: frame %u: %s", trace->path, header->sequence, trace->wrong);
}

struct trace *trace_load(const char *path, bool damaged)
{
	struct trace *trace = allocate(1, sizeof(*trace));
	struct receiver *receiver = allocate(1, sizeof(*receiver));
	char flaw[256], *file;
	struct stat is;
	size_t size;

	if (!stat(path, &is) && S_ISDIR(is.st_mode)) {
		if (asprintf(&trace->inside, "%s/data", path) < 0)
			fail("no memory for the name of a file");
		path = trace->inside;
	}
	file = read_file(path, &size);
	trace->path = path;
	if (perf_is_data(file, size)) {
		perf_load(trace, file, size);
		if (trace_flaw(trace, flaw, sizeof(flaw)) && !damaged)
			fail("%s: %s (--damaged: show what is there)", path, flaw);
		return trace;
	}
	receiver_init(receiver);
	receiver->frame = load_frame;
	receiver->argument = trace;
	receiver_feed(receiver, (uint8_t *)file, size);
	receiver_end(receiver);
	trace->received = receiver->received;
	free(file);
	free(receiver);
	if (trace->received.foreign)
		fail("%s: %llu frames are of a version of the format that this program does not know",
		     path, (unsigned long long)trace->received.foreign);
	if (!trace->received.frames)
		fail("%s: no frame of a trace stream is in it", path);
	if (trace_flaw(trace, flaw, sizeof(flaw)) && !damaged)
		fail("%s: %s (--damaged: show what is there)", path, flaw);
	return trace;
}

static void free_parts(struct trace_parts *parts)
{
	for (size_t i = 0; i < parts->count; i++)
		free((void *)parts->part[i].payload);
	free(parts->part);
}

void trace_free(struct trace *trace)
{
	for (size_t i = 0; i < trace->stream_count; i++) {
		free_parts(&trace->streams[i].parts);
		free_parts(&trace->streams[i].packets);
		free_parts(&trace->streams[i].samples);
	}
	for (size_t i = 0; i < trace->code_count; i++)
		code_close(trace->codes[i]);
	free(trace->codes);
	free(trace->streams);
	free(trace->order);
	free(trace->entries);
	free(trace->roots);
	free(trace->root_sequences);
	perf_unload(trace);
	free(trace->inside);
	free(trace);
}
