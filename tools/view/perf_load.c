// SPDX-License-Identifier: MIT
// perf.data: which task ran when, and whose the bytes are that the processor wrote.
#define _GNU_SOURCE
#include "tools/view/perf_file.h"
#include "tools/view/view.h"

#include "abi/ptrace_bts.h"

#include <search.h>
#include <stdlib.h>

/* PERF_AUXTRACE: bytes of one ring, from `offset` on. */
struct perf_chunk {
	uint64_t ring, offset, size; /* `ring`: that of a CPU, or of a task */
	uint64_t begin, dropped;     /* bytes before the ring's beginning, in it, are not there */
	const struct perf_item *item;
	struct perf_task *task; /* of a snapshot */
	bool taken;
};

/* --- When a task runs ---------------------------------------------------------------------------
 */

/* What has run on a CPU since its last bytes. */
struct cpu {
	uint32_t number;
	bool busy; /* the last of `stays` runs */
	struct perf_stay *stays;
	size_t count;
};

/* For an array that is as large as the next power of 2 of its elements. */
#define GROW(array, count)                                                                         \
	do {                                                                                       \
		if (!((count) & ((count)-1)))                                                      \
			(array) = reallocate(array, 2 * (count) + 1, sizeof(*(array)));            \
	} while (0)

static int compare_cpus(const void *left, const void *right)
{
	const struct cpu *a = left, *b = right;

	return (a->number > b->number) - (a->number < b->number);
}

static struct cpu *cpu_of(struct perf_load *load, uint32_t number)
{
	struct cpu key = {.number = number}, *cpu, **found = tfind(&key, &load->cpus, compare_cpus);

	if (found)
		return *found;
	cpu = allocate(1, sizeof(*cpu));
	cpu->number = number;
	if (!tsearch(cpu, &load->cpus, compare_cpus))
		fail("no memory for the CPUs of %s", load->data->path);
	return cpu;
}

static void add_stay(struct cpu *cpu, struct perf_stay stay)
{
	GROW(cpu->stays, cpu->count);
	cpu->stays[cpu->count++] = stay;
}

static void add_stamp(struct perf_load *load, struct perf_stay at, unsigned qualifier)
{
	uint64_t cpu = at.task->cpu;

	if (cpu >= TRACE_CPUS_MOST || !at.time)
		return;
	GROW(load->stamps, load->stamp_count);
	load->stamps[load->stamp_count++] = (struct perf_stamp){
		at,
		{TRACE_STAMP | qualifier, at.time, TRACE_STAMP_FLAG | cpu << 32 | at.task->tid}};
}

static void arrive(struct perf_load *load, struct perf_task *task, uint64_t time)
{
	if (!task->running)
		add_stamp(load, (struct perf_stay){task, task->count - 1, time},
			  PTRACE_BTS_TASK_ARRIVES);
	task->running = true;
}

static void depart(struct perf_load *load, struct perf_task *task, size_t program, uint64_t time)
{
	if (task->running)
		add_stamp(load, (struct perf_stay){task, program, time}, PTRACE_BTS_TASK_DEPARTS);
	task->running = false;
}

/* Tasks that perf has not named are none of those that are recorded. */
static void take_switch(struct perf_load *load, const struct perf_item *item)
{
	struct perf_task *task = perf_find_task(load, item->tid);

	load->switches = true;
	if (item->misc & PERF_RECORD_MISC_SWITCH_OUT)
		cpu_of(load, item->cpu)->busy = false;
	if (!task || task->ended)
		return;
	if (item->misc & PERF_RECORD_MISC_SWITCH_OUT) {
		depart(load, task, task->count - 1, item->time);
		return;
	}
	cpu_of(load, item->cpu)->busy = true;
	task->cpu = item->cpu;
	arrive(load, task, item->time);
	add_stay(cpu_of(load, item->cpu), (struct perf_stay){task, task->count - 1, item->time});
}

/* The task of a name that executes the program with it, from now on. */
static void take_name(struct perf_load *load, const struct perf_item *item)
{
	struct perf_task *task = perf_take_name(load, item);

	if (!task || task->count < 2)
		return;
	if (task->running) {
		depart(load, task, task->count - 2, item->time);
		arrive(load, task, item->time);
	}
	if (cpu_of(load, item->cpu)->busy)
		add_stay(cpu_of(load, item->cpu),
			 (struct perf_stay){task, task->count - 1, item->time});
}

/* PERF_RECORD_EXIT: pid, ppid, tid. Its last switch is not of its tid any more. */
static void take_exit(struct perf_load *load, const struct perf_item *item)
{
	struct perf_task *task = perf_find_task(load, (uint32_t)perf_number(item, 8, 4));

	if (!task)
		return;
	depart(load, task, task->count - 1, item->time);
	task->ended = true;
}

/* --- Whose the bytes are ------------------------------------------------------------------------
 */

/* The first chunk of a ring that does not end before `offset`. */
static size_t find_chunk(const struct perf_load *load, uint64_t ring, uint64_t offset)
{
	const struct perf_chunk *chunk = load->chunks;

	return COUNT_FIRST(load->chunk_count, at,
			   chunk[at].ring < ring || (chunk[at].ring == ring &&
						     chunk[at].offset + chunk[at].size <= offset));
}

/* Without records of switches: what the task may have executed since its last bytes. */
static void add_programs(struct perf_load *load, const struct perf_task *task)
{
	for (size_t at = task->begun; at < task->count; at++) {
		GROW(load->stays, load->stay_count);
		load->stays[load->stay_count++] = (struct perf_stay){
			(struct perf_task *)task, at,
			at == task->begun ? task->last : task->executed[at].since};
	}
}

/* What has run on a CPU since its last bytes; the last of that is the task that wrote them. */
static void add_stays(struct perf_load *load, struct cpu *cpu, struct perf_task *task,
		      uint64_t time)
{
	if (!cpu->count || (!load->of_cpus && cpu->stays[cpu->count - 1].task != task))
		add_stay(cpu, (struct perf_stay){task, task->count - 1, task->last});
	for (size_t i = 0; i < cpu->count; i++) {
		const struct perf_stay *stay = &cpu->stays[i];

		/* A task of the kernel has no files, and of ring 3 no bytes. */
		if (load->of_cpus && i + 1 < cpu->count &&
		    !stay->task->executed[stay->program].maps->count)
			continue;
		GROW(load->stays, load->stay_count);
		load->stays[load->stay_count++] = *stay;
	}
	cpu->stays[0] = cpu->stays[cpu->count - 1];
	cpu->stays[0].time = time;
	cpu->count = cpu->busy ? 1 : 0;
}

static void add_piece(struct perf_load *load, struct perf_piece piece)
{
	GROW(load->pieces, load->piece_count);
	load->pieces[load->piece_count++] = piece;
}

/* Which task ran while bytes were written that end at `time`; returns the first of its stays. */
static size_t take_stays(struct perf_load *load, struct perf_task *task, uint64_t ring,
			 uint32_t cpu, uint64_t time)
{
	size_t first = load->stay_count;

	if (load->switches && !(ring & PERF_RING_OF_TASK))
		add_stays(load, cpu_of(load, cpu), task, time);
	else
		add_programs(load, task);
	for (size_t i = first; i < load->stay_count; i++)
		load->stays[i].task->any = true;
	return first;
}

static void end_bytes(struct perf_load *load, struct perf_task *task, uint64_t time)
{
	if (!load->switches)
		arrive(load, task, task->last ? task->last : task->executed[task->begun].since);
	task->begun = task->count - 1;
	task->last = time;
}

/* Bytes of a chunk from one of its places to another, both counted as offsets of the ring. */
static struct perf_piece piece_of(const struct perf_chunk *chunk, uint64_t from, uint64_t to)
{
	uint64_t at = from - chunk->offset - (from >= chunk->begin ? chunk->dropped : 0);
	uint64_t most = at < chunk->item->trace_size ? chunk->item->trace_size - at : 0;

	return (struct perf_piece){.bytes = chunk->item->trace + at,
				   .size = to - from < most ? to - from : most,
				   .ring = chunk->ring,
				   .offset = from};
}

/* PERF_RECORD_AUX: the task of the record wrote so many bytes of its ring from an offset on. */
static void take_bytes(struct perf_load *load, const struct perf_item *item, uint64_t ring,
		       struct perf_task *task)
{
	uint64_t offset = perf_number(item, 0, 8), end = offset + perf_number(item, 8, 8);
	uint64_t flags = perf_number(item, 16, 8);
	size_t stay = take_stays(load, task, ring, item->cpu, item->time);

	for (size_t at = find_chunk(load, ring, offset); at < load->chunk_count && offset < end;
	     at++) {
		struct perf_chunk *chunk = &load->chunks[at];
		uint64_t last = chunk->offset + chunk->size;
		struct perf_piece piece;

		if (chunk->ring != ring || chunk->offset >= end)
			break;
		last = end < last ? end : last;
		piece = piece_of(chunk, chunk->offset > offset ? chunk->offset : offset, last);
		piece.stay = stay;
		piece.stay_count = load->stay_count - stay;
		piece.gap = task->gap || chunk->offset > offset;
		add_piece(load, piece);
		task->gap = false;
		offset = last;
		chunk->taken = true;
	}
	task->gap |= offset < end || flags & (PERF_AUX_FLAG_TRUNCATED | PERF_AUX_FLAG_PARTIAL);
	load->truncated += offset < end || flags & PERF_AUX_FLAG_TRUNCATED;
	end_bytes(load, task, item->time);
}

static void take_aux(struct perf_load *load, const struct perf_item *item)
{
	bool of_cpu = load->chunk_count && load->chunks[0].item->cpu != PERF_NOBODY;
	uint64_t ring = of_cpu ? item->cpu : item->tid | PERF_RING_OF_TASK;
	struct perf_task *task;

	if (item->tid == PERF_NOBODY)
		return;
	task = perf_task(load, item->pid, item->tid);
	if (task->cpu == PERF_NOBODY)
		task->cpu = item->cpu;
	if (!load->snapshot) {
		take_bytes(load, item, ring, task);
		return;
	}
	for (size_t at = find_chunk(load, ring, 0);
	     at < load->chunk_count && load->chunks[at].ring == ring; at++)
		load->chunks[at].task = task;
}

static int compare_chunks(const void *left, const void *right)
{
	const struct perf_chunk *a = left, *b = right;

	if (a->ring != b->ring)
		return a->ring < b->ring ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return (a->item->body > b->item->body) - (a->item->body < b->item->body);
}

static int compare_places(const void *left, const void *right)
{
	const struct perf_chunk *a = left, *b = right;

	return (a->item->body > b->item->body) - (a->item->body < b->item->body);
}

/*
 * perf takes records of BTS as wholes (tools/perf/util/auxtrace.c, __auxtrace_mmap__read()). Of the
 * bytes before the end of a ring it drops those that are none, and the ring's beginning follows at
 * once: offsets go on that much later. The size of a ring is a power of two.
 */
static void find_dropped(struct perf_load *load, const uint64_t *ends)
{
	for (size_t i = 0; i < load->chunk_count; i++) {
		struct perf_chunk *chunk = &load->chunks[i];
		bool more = i + 1 < load->chunk_count && chunk[1].ring == chunk->ring;
		uint64_t end = more ? chunk[1].offset : ends[i];
		uint64_t hole = end - chunk->offset - chunk->size;
		unsigned power = 0;

		if (end <= chunk->offset || hole >= sizeof(struct trace_record))
			continue;
		while (power < 63 && end >> (power + 1) > chunk->offset >> (power + 1))
			power++;
		chunk->begin = end >> power << power;
		if ((chunk->begin - chunk->offset) % sizeof(struct trace_record) == hole)
			chunk->dropped = hole;
		chunk->size += chunk->dropped;
	}
}

/* Up to where records say that bytes of each chunk are. The caller frees them. */
static uint64_t *find_ends(const struct perf_load *load)
{
	uint64_t *ends = allocate(load->chunk_count + 1, sizeof(*ends));

	for (size_t i = 0; i < load->data->count; i++) {
		const struct perf_item *item = &load->data->items[i];
		uint64_t offset = perf_number(item, 0, 8), end = offset + perf_number(item, 8, 8);
		uint64_t ring = item->tid | PERF_RING_OF_TASK;
		size_t at;

		if (item->type != PERF_RECORD_AUX)
			continue;
		at = find_chunk(load, ring, offset);
		/* The last bytes of a chunk may be beyond the end that it has without dropped ones.
		 */
		if (at && (at == load->chunk_count || load->chunks[at].ring != ring) &&
		    load->chunks[at - 1].ring == ring)
			at--;
		if (at < load->chunk_count && load->chunks[at].ring == ring)
			ends[at] = end > ends[at] ? end : ends[at];
	}
	return ends;
}

/* PERF_AUXTRACE: size, offset, reference, index, tid, CPU. */
static void find_chunks(struct perf_load *load)
{
	const struct perf_data *data = load->data;
	size_t count = 0;

	for (size_t i = 0; i < data->count; i++)
		count += data->items[i].type == PERF_AUXTRACE;
	load->chunks = allocate(count, sizeof(*load->chunks));
	for (size_t i = 0; i < data->count; i++) {
		struct perf_item *item = &data->items[i];

		if (item->type != PERF_AUXTRACE)
			continue;
		item->tid = (uint32_t)perf_number(item, 28, 4);
		item->cpu = (uint32_t)perf_number(item, 32, 4);
		load->chunks[load->chunk_count++] = (struct perf_chunk){
			.ring = item->cpu != PERF_NOBODY ? item->cpu
							 : item->tid | PERF_RING_OF_TASK,
			.offset = perf_number(item, 8, 8),
			.size = item->trace_size,
			.item = item};
	}
	if (count)
		qsort(load->chunks, count, sizeof(*load->chunks), compare_chunks);
	/* perf fills each up to a multiple of 8 bytes, and goes on where they end without that. */
	for (size_t i = 1; i < count; i++) {
		struct perf_chunk *before = &load->chunks[i - 1];
		uint64_t size = load->chunks[i].offset - before->offset;

		if (load->chunks[i].ring == before->ring && size && size < before->size)
			before->size = size;
	}
	if (load->unit == PERF_AUXTRACE_BTS && !load->snapshot) {
		uint64_t *ends = find_ends(load);

		find_dropped(load, ends);
		free(ends);
	}
}

/* Bytes that no record is of are those of the ring's task: snapshots, and what perf lost the
 * records of. */
static void take_rest(struct perf_load *load)
{
	if (load->chunk_count)
		qsort(load->chunks, load->chunk_count, sizeof(*load->chunks), compare_places);
	for (size_t i = 0; i < load->chunk_count; i++) {
		const struct perf_item *item = load->chunks[i].item;
		struct perf_task *task = load->chunks[i].task;

		if (load->chunks[i].taken)
			continue;
		if (!task && item->tid != PERF_NOBODY)
			task = perf_task(load, item->tid, item->tid);
		if (!task) {
			load->truncated++;
			continue;
		}
		add_piece(load, (struct perf_piece){
					.stay = take_stays(load, task, PERF_RING_OF_TASK, 0, 0),
					.stay_count = task->count - task->begun,
					.bytes = item->trace,
					.size = load->chunks[i].size - load->chunks[i].dropped,
					.ring = load->chunks[i].ring,
					.offset = load->chunks[i].offset,
					.gap = load->snapshot});
		task->begun = task->count - 1;
	}
}

/* The last record of a task said that branches are missing: a gap that no branch follows. */
static void end_in_gap(struct perf_load *load, struct perf_task *task)
{
	size_t stay = take_stays(load, task, PERF_RING_OF_TASK, 0, 0);
	struct perf_piece piece = {
		.stay = stay, .stay_count = load->stay_count - stay, .gap = true};

	add_piece(load, piece);
}

static void depart_at_end(const void *node, VISIT visit, void *load)
{
	struct perf_task *task = *(struct perf_task *const *)node;

	if (visit != postorder && visit != leaf)
		return;
	if (task->gap && ((struct perf_load *)load)->unit == PERF_AUXTRACE_BTS)
		end_in_gap(load, task);
	depart(load, task, task->count - 1, task->last);
}

/* Bytes are looked for by their ring and offset. */
void perf_take_items(struct perf_load *load)
{
	const struct perf_data *data = load->data;

	find_chunks(load);
	for (size_t i = 0; i < data->count; i++) {
		const struct perf_item *item = &data->items[i];

		switch (item->type) {
		case PERF_RECORD_MMAP:
		case PERF_RECORD_MMAP2:
			perf_take_map(load, item);
			break;
		case PERF_RECORD_COMM:
			take_name(load, item);
			break;
		case PERF_RECORD_FORK:
			perf_take_fork(load, item);
			break;
		case PERF_RECORD_EXIT:
			take_exit(load, item);
			break;
		case PERF_RECORD_LOST:
			load->lost += perf_number(item, 8, 8);
			break;
		case PERF_RECORD_AUX:
			take_aux(load, item);
			break;
		case PERF_RECORD_SWITCH:
		case PERF_RECORD_SWITCH_CPU_WIDE:
			take_switch(load, item);
			break;
		default:
			break;
		}
	}
	take_rest(load);
	twalk_r(load->tasks, depart_at_end, load);
}

static void free_cpu(void *node)
{
	struct cpu *cpu = node;

	free(cpu->stays);
	free(cpu);
}

void perf_free_bytes(struct perf_load *load)
{
	tdestroy(load->cpus, free_cpu);
	free(load->chunks);
	free(load->pieces);
	free(load->stays);
	free(load->stamps);
}
