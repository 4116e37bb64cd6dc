// SPDX-License-Identifier: MIT
/*
 * perf.data as streams of branches: of each task one, and of each program more that it executes
 * another. Packets are decoded where those of a trace stream are, by pt.c.
 */
#include "tools/view/perf_read.h"
#include "tools/view/trace.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <stdlib.h>
#include <string.h>

/* Linux has no such task: as large as its ids may be. */
#define FIRST_OTHER_ID (1u << 29)

/* The first of a task has its id, another one that Linux gives none. */
static void need_stream(struct perf_load *load, struct perf_task *task, size_t at)
{
	struct perf_program *program = &task->executed[at];
	bool own = !task->has_stream && task->tid < FIRST_OTHER_ID;
	struct trace_stream *stream;

	if (program->stream != SIZE_MAX)
		return;
	stream = trace_stream(load->trace, own ? task->tid : FIRST_OTHER_ID + load->other_ids++);
	if (!stream)
		fail("%s: %s", load->data->path, load->trace->wrong);
	task->has_stream = true;
	program->stream = (size_t)(stream - load->trace->streams);
	stream->tid = task->tid;
	snprintf(stream->name, sizeof(stream->name), "%s", program->name);
	stream->view =
		PTRACE_BTS_USER | (load->attr->exclude_kernel ? 0 : (uint32_t)PTRACE_BTS_KERNEL);
	stream->space.maps = program->maps;
	stream->space.kernel = load->kernel;
	stream->trace = load->trace;
	stream->recorded = true;
}

static struct trace_stream *stream_of(const struct perf_load *load, const struct perf_task *task,
				      size_t at)
{
	return &load->trace->streams[task->executed[at].stream];
}

/* Once all streams are there, which do not move any more. */
static const struct trace_program *programs_of(const struct perf_load *load, struct perf_task *task)
{
	if (task->programs)
		return task->programs;
	task->programs = allocate(task->count, sizeof(*task->programs));
	for (size_t i = 0; i < task->count; i++)
		if (task->executed[i].stream != SIZE_MAX)
			task->programs[i] = (struct trace_program){
				stream_of(load, task, i)->id, &stream_of(load, task, i)->space};
	return task->programs;
}

static void add_packets(const struct perf_load *load, const struct perf_piece *piece)
{
	const struct trace_program *programs =
		piece->first < piece->last ? programs_of(load, piece->task) : NULL;

	for (size_t at = piece->first; at <= piece->last; at++) {
		struct trace_stream *stream = stream_of(load, piece->task, at);
		const struct trace_frame header = {.type = TRACE_FRAME_PACKETS,
						   .index = stream->taken.records,
						   .lost = piece->gap && at == piece->first};
		struct trace_part *part;

		trace_add_part(&stream->packets, &header, piece->bytes, piece->size, piece->size);
		part = &stream->packets.part[stream->packets.count - 1];
		part->apart = true;
		part->programs = programs ? programs + piece->first : NULL;
		part->program_count = programs ? piece->last - piece->first + 1 : 0;
		stream->taken.frames++;
		stream->taken.records += piece->size;
		stream->line_bytes += piece->size;
	}
}

/* Whether a branch is the first of `next`, a program that the task of `now` executes. */
static bool begins(const struct space *now, const struct space *next, uint64_t before,
		   const struct trace_record *record)
{
	uint64_t count;

	if (record->from >> 63)
		return space_is_entry(next, record->to);
	if (!maps_find(next->maps, record->from))
		return false;
	if (!maps_find(now->maps, record->from))
		return true;
	if (before && space_walk(now, before, record->from, &count) == WALK_WHOLE)
		return false;
	for (size_t i = 0; i < next->maps->count; i++) {
		const struct code *code = next->maps->map[i].code;

		if (code && space_walk(next, code_entry(code), record->from, &count) == WALK_WHOLE)
			return true;
	}
	return false;
}

/* Records of BTS (SDM volume 3, 18.4.9); Linux fills what a ring has no room for with zeros. */
static void add_branches(const struct perf_load *load, const struct perf_piece *piece)
{
	size_t at = piece->first, count = 0, most = piece->size / sizeof(struct trace_record);
	struct trace_record *records = allocate(most + 1, sizeof(*records));
	uint64_t before = 0;

	if (piece->gap)
		records[count++] =
			(struct trace_record){TRACE_STAMP | PTRACE_BTS_GAP, 0, TRACE_STAMP_FLAG};
	for (size_t i = 0; i < most; i++) {
		struct trace_record record;

		memcpy(&record, piece->bytes + i * sizeof(record), sizeof(record));
		record.flags &= TRACE_PREDICTED;
		if (!record.from && !record.to)
			continue;
		while (at < piece->last &&
		       begins(&stream_of(load, piece->task, at)->space,
			      &stream_of(load, piece->task, at + 1)->space, before, &record)) {
			trace_add_records(stream_of(load, piece->task, at++), records, count);
			count = 0;
		}
		records[count++] = record;
		before = record.to;
	}
	trace_add_records(stream_of(load, piece->task, at), records, count);
	stream_of(load, piece->task, at)->line_bytes += piece->size;
	free(records);
}

static void add_stamp_to(struct perf_load *load, const struct perf_piece *piece)
{
	const struct trace_frame header = {.type = TRACE_FRAME_BRANCHES, .count = 1};
	struct trace_stream *stream;

	if (piece->task->executed[piece->first].stream == SIZE_MAX)
		return; /* none of its bytes are here */
	stream = stream_of(load, piece->task, piece->first);
	if (load->unit == PERF_AUXTRACE_BTS)
		trace_add_records(stream, &piece->stamp, 1);
	else
		trace_add_part(&stream->packets, &header, (const uint8_t *)&piece->stamp,
			       sizeof(piece->stamp), 0);
}

static void make_streams(struct perf_load *load)
{
	for (size_t i = 0; i < load->piece_count; i++) {
		const struct perf_piece *piece = &load->pieces[i];

		for (size_t at = piece->first; !piece->stamp.from && at <= piece->last; at++)
			need_stream(load, piece->task, at);
	}
	for (size_t i = 0; i < load->piece_count; i++) {
		const struct perf_piece *piece = &load->pieces[i];

		if (piece->stamp.from)
			add_stamp_to(load, piece);
		else if (load->unit == PERF_AUXTRACE_PT)
			add_packets(load, piece);
		else
			add_branches(load, piece);
	}
}

/* --- The whole ----------------------------------------------------------------------------------
 */

static uint64_t info(const struct perf_item *item, unsigned number)
{
	return perf_number(item, 8 + 8 * (size_t)number, 8);
}

/* Which unit wrote, and for which event: PERF_AUXTRACE_INFO, type, then numbers of the unit. */
static void take_info(struct perf_load *load, const struct perf_item *item)
{
	static const unsigned snapshot[] = {[PERF_AUXTRACE_PT] = 8, [PERF_AUXTRACE_BTS] = 5};
	const struct perf_data *data = load->data;
	uint64_t unit = perf_number(item, 0, 4);

	if (unit != PERF_AUXTRACE_PT && unit != PERF_AUXTRACE_BTS)
		return;
	load->unit = (unsigned)unit;
	load->snapshot = info(item, snapshot[unit]);
	for (size_t i = 0; i < data->attr_count; i++)
		if (data->attrs[i].type == info(item, 0))
			load->attr = &data->attrs[i];
}

/* Whether the event is of CPUs, whatever runs there: PERF_ID_INDEX, id, index, CPU, task of each.
 */
static bool is_of_cpus(const struct perf_load *load, const struct perf_item *item)
{
	const struct perf_data *data = load->data;
	uint64_t count = perf_number(item, 0, 8);

	for (uint64_t i = 0; i < count && 8 + 32 * (i + 1) <= item->size; i++) {
		uint64_t id = perf_number(item, 8 + 32 * i, 8);

		if (perf_number(item, 8 + 32 * i + 24, 8) != UINT64_MAX)
			continue;
		if (perf_attr(data, id) == load->attr)
			return true;
	}
	return false;
}

static void describe(struct trace *trace, const struct perf_data *data)
{
	snprintf(trace->name, sizeof(trace->name), "Linux %s", data->release);
	snprintf(trace->version, sizeof(trace->version), "perf %.50s", data->version);
	snprintf(trace->silicon, sizeof(trace->silicon), "%s",
		 data->processor[0] ? data->processor : "unknown");
	snprintf(trace->flaw, sizeof(trace->flaw), "%s", data->flaw);
	trace->cpus = data->cpus < TRACE_CPUS_MOST ? data->cpus : TRACE_CPUS_MOST;
	trace->processor = data->signature;
	trace->tsc_hz = 1000000000; /* perf has nanoseconds */
	trace->received.frames = data->count;
	trace->received.line_bytes = data->size;
	trace->greeted = trace->ended = true;
}

void perf_load(struct trace *trace, char *file, size_t size)
{
	struct perf_load *load = allocate(1, sizeof(*load));
	struct perf_data *data = perf_read(trace->path, file, size);
	size_t traces = 0;

	trace->perf = load;
	load->trace = trace;
	load->data = data;
	describe(trace, data);
	for (size_t i = 0; i < data->count; i++)
		if (data->items[i].type == PERF_AUXTRACE_INFO)
			take_info(load, &data->items[i]);
	for (size_t i = 0; i < data->count; i++) {
		traces += data->items[i].type == PERF_AUXTRACE;
		if (load->attr && data->items[i].type == PERF_ID_INDEX &&
		    is_of_cpus(load, &data->items[i]))
			fail("%s: it is of whole CPUs (perf record -a, -C): view reads what perf record has of a program or of tasks (-p, -t)",
			     trace->path);
	}
	if ((!load->attr || !traces) && !data->flaw[0])
		fail("%s: no trace of intel_bts or intel_pt is in it", trace->path);
}

void perf_open_code(struct trace *trace, const char *program, const char *directory)
{
	struct perf_load *load = trace->perf;

	if (!load->attr)
		return;
	perf_take_items(load);
	files_open(trace, load->files, program, directory);
	load->kernel = kernel_open(trace);
	for (size_t i = 0; i < load->maps_count; i++)
		for (size_t at = 0; at < load->maps[i]->count; at++) {
			struct map *map = &load->maps[i]->map[at];

			map->code = file_code(map->file, map->start, map->offset);
		}
	make_streams(load);
	if (load->lost)
		warn("%s: perf lost %llu records: files that tasks had in memory may be unknown",
		     trace->path, (unsigned long long)load->lost);
	if (load->truncated)
		warn("%s: branches were lost %llu times, as perf was too slow: gaps", trace->path,
		     (unsigned long long)load->truncated);
	if (load->unit == PERF_AUXTRACE_PT && !load->attr->exclude_kernel && !load->kernel)
		warn("%s: the kernel was recorded too, and its code is not here: perf record --kcore keeps it, intel_pt//u leaves it out",
		     trace->path);
}

void perf_unload(struct trace *trace)
{
	struct perf_load *load = trace->perf;

	if (!load)
		return;
	perf_free_tasks(load);
	perf_free(load->data);
	files_free(load->files);
	free(load);
}
