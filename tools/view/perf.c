// SPDX-License-Identifier: MIT
/*
 * view perf: perf.data that `perf script`, `perf report` and `perf annotate` read without options.
 * Two flavours: samples of branch stacks with call chains, or records as an AUX area of intel_bts.
 */
#include "tools/view/follow.h"
#include "tools/view/perf_file.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <stdlib.h>
#include <string.h>

#define PAGE	     4096ull
#define MOST_STACK   32	 /* branches of a sample */
#define MOST_CHAIN   127 /* callers of a sample */
#define TYPE_BTS     42	 /* whatever a machine gave to intel_bts; nothing reads it */
#define AUXTRACE_BTS 2	 /* PERF_AUXTRACE_INTEL_BTS */

/* tools/perf: user types. */
enum { RECORD_AUXTRACE_INFO = 70, RECORD_AUXTRACE = 71, RECORD_FINISHED_ROUND = 68 };

static const char *output = "perf.data";
static bool aux;

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
	(void)state;
	switch (key) {
	case 'o':
		output = argument;
		return 0;
	case 'a':
		aux = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0, "the file to write (perf.data)", 0},
	{"aux", 'a', NULL, 0,
	 "records of intel_bts in an AUX area: perf script --itrace=be; without it, samples of "
	 "branch stacks, with call chains",
	 0},
	{0},
};

struct perf {
	struct trace *trace;
	struct trace_stream *stream;
	struct buffer data;
	uint64_t time;
	int cpu;
	uint32_t tid;
	/* Branches since the last sample or buffer. */
	struct trace_record *records;
	size_t count, room;
	size_t since; /* of them, those that were in no sample yet */
	unsigned traces;
	uint64_t branches;
};

static uint64_t branch_types(void)
{
	return PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL | PERF_SAMPLE_BRANCH_ANY;
}

static struct perf_event_attr attributes(void)
{
	struct perf_event_attr attr = {
		.type = aux ? TYPE_BTS : PERF_TYPE_HARDWARE,
		.size = PERF_ATTR_SIZE_VER5,
		.config = aux ? 0 : PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_IDENTIFIER,
		.sample_id_all = 1,
		.context_switch = 1,
	};

	if (aux)
		attr.sample_type |= PERF_SAMPLE_ADDR;
	else
		attr.sample_type |=
			PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_CPU | PERF_SAMPLE_BRANCH_STACK;
	if (!aux)
		attr.branch_sample_type = branch_types();
	return attr;
}

/* What every record but a sample ends with: sample_id_all. */
static void put_id(struct perf *perf)
{
	put32(&perf->data, perf->tid);
	put32(&perf->data, perf->tid);
	put64(&perf->data, perf->time);
	if (!aux)
		put64(&perf->data, perf->cpu < 0 ? 0 : (uint64_t)perf->cpu);
	put64(&perf->data, PERF_ID);
}

/* Whole pages of a file. */
static void put_map(struct perf *perf, const struct code *code, const struct map *map, uint32_t pid)
{
	bool kernel = map->start >> 63;
	size_t record = begin_record(&perf->data, PERF_RECORD_MMAP,
				     kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);
	char *path = realpath(code_path(code), NULL);

	put32(&perf->data, kernel ? UINT32_MAX : pid);
	put32(&perf->data, kernel ? 0 : pid);
	put64(&perf->data, map->start);
	put64(&perf->data, map->end - map->start);
	put64(&perf->data, map->offset);
	put_text(&perf->data, path ? path : code_path(code), 8);
	put_id(perf);
	end_record(&perf->data, record);
	free(path);
}

static void put_maps(struct perf *perf, const struct code *code, bool upper, uint32_t pid)
{
	struct segment segment;

	for (unsigned i = 0; code && code_segment(code, i, &segment); i++)
		if (segment.executable && (segment.address >> 63 != 0) == upper) {
			const struct map map = {
				.start = segment.address & ~(PAGE - 1),
				.end = (segment.address + segment.memory_size + PAGE - 1) &
				       ~(PAGE - 1),
				.offset = segment.offset & ~(PAGE - 1)};

			put_map(perf, code, &map, pid);
		}
}

static void put_task(struct perf *perf, const struct trace_stream *stream)
{
	const char *name = stream->name[0] ? stream->name : stream->program;
	char text[64];
	size_t record = begin_record(&perf->data, PERF_RECORD_COMM, 0);

	snprintf(text, sizeof(text), "%.15s", *name ? name : "task");
	put32(&perf->data, stream->id);
	put32(&perf->data, stream->id);
	put_text(&perf->data, text, 8);
	put_id(perf);
	end_record(&perf->data, record);
	put_maps(perf, stream->space.program, false, stream->id);
	for (size_t i = 0; stream->space.maps && i < stream->space.maps->count; i++)
		if (stream->space.maps->map[i].code)
			put_map(perf, stream->space.maps->map[i].code, &stream->space.maps->map[i],
				stream->id);
}

/* Of a time-stamp counter; nanoseconds where its frequency is known. */
static uint64_t time_of(const struct trace *trace, uint64_t tsc)
{
	return trace->tsc_hz ? (uint64_t)((__uint128_t)tsc * 1000000000 / trace->tsc_hz) : tsc;
}

static void put_switch(struct perf *perf, bool out)
{
	size_t record = begin_record(&perf->data, PERF_RECORD_SWITCH,
				     out ? PERF_RECORD_MISC_SWITCH_OUT : 0);

	put_id(perf);
	end_record(&perf->data, record);
}

static void put_chain(struct perf *perf, const struct stack *stack, uint64_t ip)
{
	size_t counter = perf->data.used;
	uint64_t count = 0, context = 0;

	put64(&perf->data, 0);
	for (size_t i = 0; i <= stack->depth && count < MOST_CHAIN; i++) {
		uint64_t address = i ? stack->frames[stack->depth - i].resume : ip;
		uint64_t wanted = address >> 63 ? PERF_CONTEXT_KERNEL : PERF_CONTEXT_USER;

		if (!address)
			continue;
		if (wanted != context) {
			put64(&perf->data, context = wanted);
			count++;
		}
		put64(&perf->data, address);
		count++;
	}
	memcpy(perf->data.bytes + counter, &count, sizeof(count));
}

/* The branches, the newest first: linux/perf_event.h, struct perf_branch_entry. */
static void put_branches(struct perf *perf)
{
	put64(&perf->data, perf->count);
	for (size_t i = perf->count; i-- > 0;) {
		const struct trace_record *record = &perf->records[i];

		put64(&perf->data, record->from);
		put64(&perf->data, record->to);
		put64(&perf->data, record->flags & TRACE_PREDICTED ? 2 : 1);
	}
}

/* One branch stays: the block across the cut is in the next sample. */
static void put_sample(struct perf *perf, const struct stack *stack)
{
	uint64_t ip = perf->records[perf->count - 1].to;
	size_t record = begin_record(&perf->data, PERF_RECORD_SAMPLE,
				     ip >> 63 ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);

	put64(&perf->data, PERF_ID);
	put64(&perf->data, ip);
	put32(&perf->data, perf->tid);
	put32(&perf->data, perf->tid);
	put64(&perf->data, ++perf->time);
	put64(&perf->data, perf->cpu < 0 ? 0 : (uint64_t)perf->cpu);
	put_chain(perf, stack, ip);
	put_branches(perf);
	end_record(&perf->data, record);
	perf->records[0] = perf->records[perf->count - 1];
	perf->count = 1;
	perf->since = 0;
}

/* AUX: a buffer for each stay on a CPU; its first and last record are its edges. */
static void put_aux(struct perf *perf)
{
	size_t record, size = (perf->count + 2) * 24;

	if (!perf->count)
		return;
	record = begin_record(&perf->data, RECORD_AUXTRACE, 0);
	put64(&perf->data, size);
	put64(&perf->data, 0);
	put64(&perf->data, perf->time + 1);
	put32(&perf->data, perf->traces++);
	put32(&perf->data, perf->tid);
	put32(&perf->data, perf->cpu < 0 ? 0 : (uint32_t)perf->cpu);
	put32(&perf->data, 0);
	end_record(&perf->data, record);
	put64(&perf->data, perf->records[0].from);
	put64(&perf->data, 0);
	put64(&perf->data, 0);
	put(&perf->data, perf->records, perf->count * sizeof(*perf->records));
	put64(&perf->data, perf->records[perf->count - 1].to);
	put64(&perf->data, 0);
	put64(&perf->data, 0);
	perf->count = 0;
}

static void put_lost(struct perf *perf)
{
	size_t record = begin_record(&perf->data, PERF_RECORD_AUX, 0);

	put64(&perf->data, 0);
	put64(&perf->data, 0);
	put64(&perf->data, PERF_AUX_FLAG_TRUNCATED);
	put_id(perf);
	end_record(&perf->data, record);
}

static void branch(void *argument, const struct cursor_item *item, const struct stack *stack,
		   uint64_t position)
{
	struct perf *perf = argument;

	(void)position;
	perf->branches++;
	perf->cpu = item->cpu;
	perf->tid = item->pid;
	if (perf->count == perf->room) {
		perf->room = perf->room ? 2 * perf->room : 1024;
		perf->records = reallocate(perf->records, perf->room, sizeof(*perf->records));
	}
	perf->records[perf->count++] = item->record;
	perf->since++;
	if (!aux && perf->count == MOST_STACK)
		put_sample(perf, stack);
}

static void cut(struct perf *perf)
{
	static const struct stack none;

	if (aux)
		put_aux(perf);
	else if (perf->since)
		put_sample(perf, &none);
	perf->count = perf->since = 0;
}

static void stamp(void *argument, const struct cursor_item *item, uint64_t position)
{
	struct perf *perf = argument;
	uint64_t now = time_of(perf->trace, item->record.to);

	(void)position;
	cut(perf);
	perf->cpu = item->cpu;
	perf->tid = item->pid;
	perf->time = now > perf->time ? now : perf->time + 1;
	put_switch(perf, item->qualifier == PTRACE_BTS_TASK_DEPARTS);
}

static void gap(void *argument, uint64_t missing, uint64_t position)
{
	struct perf *perf = argument;

	(void)missing;
	(void)position;
	cut(perf);
	if (aux)
		put_lost(perf);
}

static void put_start(struct perf *perf)
{
	struct trace *trace = perf->trace;
	size_t record;

	if (aux) {
		/* of intel_bts: type, PMU, time_shift, time_mult, time_zero, cap, snapshot */
		static const uint64_t info[] = {TYPE_BTS, 0, 1, 0, 0, 0};

		record = begin_record(&perf->data, RECORD_AUXTRACE_INFO, 0);
		put32(&perf->data, AUXTRACE_BTS);
		put32(&perf->data, 0);
		put(&perf->data, info, sizeof(info));
		end_record(&perf->data, record);
	}
	for (size_t i = 0; i < trace->stream_count; i++)
		if (trace->streams[i].space.kernel) {
			put_maps(perf, trace->streams[i].space.kernel, true, 0);
			break;
		}
	for (size_t i = 0; i < trace->stream_count; i++)
		if (!(trace->streams[i].id & TRACE_STREAM_CPU))
			put_task(perf, &trace->streams[i]);
}

int view_perf(int argc, char **argv)
{
	struct filter filter = {.option = parse_option};
	struct perf perf = {.cpu = -1};
	struct perf_event_attr attr;
	const struct follow_events events = {
		.gap = gap, .stamp = stamp, .branch = branch, .argument = &perf};

	filter_parse(&filter, argc, argv,
		     "Writes perf.data for linux-perf: perf script -F +brstackinsn, perf report "
		     "--branch-history, perf annotate. With --aux: perf script --itrace=be.",
		     options);
	perf.trace = filter_load(&filter);
	put_start(&perf);
	for (size_t i = 0; i < perf.trace->stream_count; i++) {
		perf.stream = &perf.trace->streams[i];
		if (!filter_has_stream(&filter, perf.stream))
			continue;
		follow(&filter, perf.trace, perf.stream, &events, NULL);
		cut(&perf);
	}
	if (!perf.branches)
		fail("%s: no branch of it is meant: nothing to write", filter.path);
	attr = attributes();
	perf_write(output, perf.trace, &attr, aux ? "intel_bts//" : "branches", &perf.data);
	fprintf(stderr, "view: %s: %llu branches\n", output, (unsigned long long)perf.branches);
	free(perf.records);
	free(perf.data.bytes);
	trace_free(perf.trace);
	return 0;
}
