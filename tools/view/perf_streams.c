// SPDX-License-Identifier: MIT
/*
 * perf.data as streams of branches: of each task one, and of each program more that it executes
 * another. Packets are decoded where those of a trace stream are, by pt.c.
 */
#include "tools/view/perf_file.h"
#include "tools/view/pt.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <stdlib.h>
#include <string.h>

/* Linux has no such task: as large as its ids may be. */
#define FIRST_OTHER_ID (1u << 29)

/* The first of a task has its id, another one that Linux gives none. */
static void need_stream(struct perf_load *load, const struct perf_stay *stay)
{
	struct perf_task *task = stay->task;
	struct perf_program *program = &task->executed[stay->program];
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
	stream->decoded = load->unit == PERF_AUXTRACE_PT;
}

static size_t stream_of(const struct perf_stay *stay)
{
	return stay->task->executed[stay->program].stream;
}

static const struct perf_stay *stay_of(const struct perf_load *load, const struct perf_piece *piece,
				       size_t number)
{
	return &load->stays[piece->stay + number];
}

/* --- Records of a stream, from a time on --------------------------------------------------------
 */

static const struct trace_record gap = {TRACE_STAMP | PTRACE_BTS_GAP, 0, TRACE_STAMP_FLAG};

static void add_run(struct perf_load *load, const struct perf_stay *stay,
		    const struct trace_record *records, size_t count)
{
	if (!(load->run_count & (load->run_count - 1)))
		load->runs = reallocate(load->runs, 2 * load->run_count + 1, sizeof(*load->runs));
	load->runs[load->run_count] =
		(struct perf_run){stream_of(stay), stay->time, load->run_count, records, count};
	load->run_count++;
}

/* Of one time those that were added first. */
static int compare_runs(const void *left, const void *right)
{
	const struct perf_run *a = left, *b = right;

	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a->place > b->place) - (a->place < b->place);
}

/* Until the streams are made. */
static void keep(struct perf_load *load, void *memory)
{
	if (!(load->kept_count & (load->kept_count - 1)))
		load->kept = reallocate(load->kept, 2 * load->kept_count + 1, sizeof(*load->kept));
	load->kept[load->kept_count++] = memory;
}

/* --- Packets: decoded ring by ring, since a task goes on in the packets of the one before
 * ---------
 */

static int compare_offsets(const void *left, const void *right)
{
	const struct perf_piece *const *a = left, *const *b = right;

	if ((*a)->ring != (*b)->ring)
		return (*a)->ring < (*b)->ring ? -1 : 1;
	if ((*a)->offset != (*b)->offset)
		return (*a)->offset < (*b)->offset ? -1 : 1;
	return (*a > *b) - (*a < *b);
}

/* Of perf's time: linux/perf_event.h, struct perf_event_mmap_page, time_zero. */
static uint64_t tsc_of(const struct perf_load *load, uint64_t time)
{
	if (!time || !load->time_mult)
		return 0;
	return (uint64_t)(((__uint128_t)(time - load->time_zero) << load->time_shift) /
			  load->time_mult);
}

static const struct trace_program *programs_of(struct perf_load *load,
					       const struct perf_piece *piece)
{
	struct trace_program *programs = allocate(piece->stay_count, sizeof(*programs));

	keep(load, programs);
	for (size_t i = 0; i < piece->stay_count; i++) {
		const struct perf_stay *stay = stay_of(load, piece, i);
		size_t stream = stream_of(stay);

		programs[i] = (struct trace_program){stream, &load->trace->streams[stream].space,
						     tsc_of(load, stay->time)};
	}
	return programs;
}

/* Each piece is a part of a stream of packets, which is that of the ring. */
static struct trace_stream ring_of(struct perf_load *load, struct perf_piece **pieces, size_t count)
{
	struct trace_stream ring = {.trace = load->trace,
				    .view = PTRACE_BTS_USER | PTRACE_BTS_KERNEL,
				    .space.kernel = load->kernel};
	uint64_t next = 0;

	ring.packets.part = allocate(count, sizeof(*ring.packets.part));
	ring.packets.count = count;
	keep(load, ring.packets.part);
	for (size_t i = 0; i < count; i++) {
		struct perf_piece *piece = pieces[i];

		piece->gap |= i && piece->offset != next;
		next = piece->offset + piece->size;
		ring.packets.part[i] =
			(struct trace_part){.header = {.index = piece->offset, .lost = piece->gap},
					    .payload = piece->bytes,
					    .size = piece->size,
					    .programs = programs_of(load, piece),
					    .program_count = piece->stay_count};
		ring.taken.records += piece->size;
	}
	return ring;
}

static void decode_ring(struct perf_load *load, struct perf_piece **pieces, size_t count)
{
	struct trace_stream ring = ring_of(load, pieces, count);
	struct pt_decoded decoded = pt_decode(&ring, PT_BLOCKS);

	keep(load, decoded.records);
	for (size_t i = 0; i < count; i++) {
		load->trace->streams[stream_of(stay_of(load, pieces[i], 0))].line_bytes +=
			pieces[i]->size;
		if (pieces[i]->gap)
			add_run(load, stay_of(load, pieces[i], 0), &gap, 1);
	}
	for (size_t i = 0; i < decoded.cut_count; i++) {
		const struct pt_cut *cut = &decoded.cuts[i];
		size_t end = i + 1 < decoded.cut_count ? cut[1].at : decoded.count;

		if (cut->at < end)
			add_run(load,
				stay_of(load, pieces[cut->part - ring.packets.part], cut->program),
				decoded.records + cut->at, end - cut->at);
	}
	free(decoded.cuts);
	if (decoded.errors)
		warn("%s: %s %u: %llu errors of decoding, the first before byte %llu: %s",
		     load->trace->path, pieces[0]->ring & PERF_RING_OF_TASK ? "task" : "CPU",
		     (unsigned)pieces[0]->ring, (unsigned long long)decoded.errors,
		     (unsigned long long)decoded.error_at, decoded.error);
}

static void decode_packets(struct perf_load *load)
{
	struct perf_piece **pieces = allocate(load->piece_count, sizeof(*pieces));
	size_t count = 0, next;

	for (size_t i = 0; i < load->piece_count; i++)
		if (load->pieces[i].size)
			pieces[count++] = &load->pieces[i];
	if (count)
		qsort(pieces, count, sizeof(struct perf_piece *), compare_offsets);
	for (size_t at = 0; at < count; at = next) {
		for (next = at; next < count && pieces[next]->ring == pieces[at]->ring; next++)
			;
		decode_ring(load, pieces + at, next - at);
	}
	free(pieces);
}

/* --- Branches of BTS ----------------------------------------------------------------------------
 */

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

static const struct space *space_of(const struct perf_load *load, const struct perf_stay *stay)
{
	return &load->trace->streams[stream_of(stay)].space;
}

/* Records of BTS (SDM volume 3, 18.4.9); Linux fills what a ring has no room for with zeros. */
static void add_branches(struct perf_load *load, const struct perf_piece *piece)
{
	size_t at = 0, first = 0, count = 0, most = piece->size / sizeof(struct trace_record);
	struct trace_record *records = allocate(most + 1, sizeof(*records)), record;
	const struct perf_stay *stay = stay_of(load, piece, 0);
	uint64_t before = 0;

	keep(load, records);
	if (piece->gap)
		records[count++] = gap;
	for (size_t i = 0; i < most; i++) {
		memcpy(&record, piece->bytes + i * sizeof(record), sizeof(record));
		record.flags &= TRACE_PREDICTED;
		if (!record.from && !record.to)
			continue;
		while (at + 1 < piece->stay_count &&
		       begins(space_of(load, stay), space_of(load, stay + 1), before, &record)) {
			add_run(load, stay++, records + first, count - first);
			first = count;
			at++;
		}
		records[count++] = record;
		before = record.to;
	}
	add_run(load, stay, records + first, count - first);
	load->trace->streams[stream_of(stay)].line_bytes += piece->size;
}

static void make_streams(struct perf_load *load)
{
	for (size_t i = 0; i < load->stay_count; i++)
		need_stream(load, &load->stays[i]);
	for (size_t i = 0; i < load->stamp_count; i++)
		if (stream_of(&load->stamps[i].at) != SIZE_MAX)
			add_run(load, &load->stamps[i].at, &load->stamps[i].record, 1);
	if (load->unit == PERF_AUXTRACE_PT)
		decode_packets(load);
	for (size_t i = 0; load->unit == PERF_AUXTRACE_BTS && i < load->piece_count; i++)
		add_branches(load, &load->pieces[i]);
	if (load->run_count)
		qsort(load->runs, load->run_count, sizeof(*load->runs), compare_runs);
	for (size_t i = 0; i < load->run_count; i++)
		trace_add_records(&load->trace->streams[load->runs[i].stream],
				  load->runs[i].records, load->runs[i].count);
	for (size_t i = 0; i < load->trace->stream_count; i++)
		load->trace->streams[i].recorded = load->trace->streams[i].records;
	for (size_t i = 0; i < load->kept_count; i++)
		free(load->kept[i]);
	free(load->kept);
	free(load->runs);
}

/* --- The whole ----------------------------------------------------------------------------------
 */

static uint64_t info(const struct perf_item *item, unsigned number)
{
	return perf_number(item, 8 + 8 * (size_t)number, 8);
}

/* What libipt needs to tell the time by MTC and CYC: the period is in bits of the event's `config`.
 */
static void take_timing(struct perf_load *load, const struct perf_item *item)
{
	struct trace *trace = load->trace;
	uint64_t periods = info(item, 11);

	if (load->attr->config & info(item, 10) && periods)
		trace->mtc_period =
			(uint8_t)((load->attr->config & periods) >> __builtin_ctzll(periods));
	load->timed = load->attr->config & (info(item, 10) | info(item, 14));
	trace->tsc_ratio[0] = (uint32_t)info(item, 13);
	trace->tsc_ratio[1] = (uint32_t)info(item, 12);
	trace->nominal_ratio = (uint8_t)info(item, 15);
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
	load->time_shift = (unsigned)info(item, 1) & 63;
	load->time_mult = info(item, 4) ? info(item, 2) : 0;
	load->time_zero = info(item, 3);
	for (size_t i = 0; i < data->attr_count; i++)
		if (data->attrs[i].type == info(item, 0))
			load->attr = &data->attrs[i];
	if (unit == PERF_AUXTRACE_PT && load->attr)
		take_timing(load, item);
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
	snprintf(trace->name, sizeof(trace->name), "Linux %s",
		 data->release[0] ? data->release : "(unknown)");
	snprintf(trace->version, sizeof(trace->version), "perf %.50s",
		 data->version[0] ? data->version : "(unknown)");
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
			load->of_cpus = true;
	}
	if (load->of_cpus && (!load->timed || !load->attr->exclude_kernel))
		fail("%s: it is of whole CPUs (perf record -a, -C): view reads that of ring 3 alone with time stamps (-e intel_pt/cyc=1/u), or what perf record has of a program or of tasks (-p, -t)",
		     trace->path);
	if ((!load->attr || !traces) && !data->flaw[0])
		fail("%s: no trace of intel_bts or intel_pt is in it", trace->path);
}

/* Nothing of it is asked for once the streams are there. */
static void free_file(struct perf_load *load)
{
	perf_free_bytes(load);
	perf_free(load->data);
	load->data = NULL;
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
	if (load->replaced)
		warn("%s: %zu times a task had a file in memory where it had another before: the branches in that are shown as in the last one",
		     trace->path, load->replaced);
	if (load->truncated)
		warn("%s: branches were lost %llu times, as perf was too slow: gaps", trace->path,
		     (unsigned long long)load->truncated);
	if (load->unit == PERF_AUXTRACE_PT && !load->attr->exclude_kernel && !load->kernel)
		warn("%s: the kernel was recorded too, and its code is not here: perf record --kcore keeps it, intel_pt//u leaves it out",
		     trace->path);
	free_file(load);
}

void perf_unload(struct trace *trace)
{
	struct perf_load *load = trace->perf;

	if (!load)
		return;
	if (load->data)
		free_file(load);
	perf_free_tasks(load);
	files_free(load->files);
	free(load);
}
