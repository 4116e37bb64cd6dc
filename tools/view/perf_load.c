// SPDX-License-Identifier: MIT
// perf.data: tasks with the files that they had in memory, and whose the processor's bytes are.
#define _GNU_SOURCE
#include "tools/view/perf_read.h"
#include "tools/view/trace.h"
#include "tools/view/view.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* More than Linux gives a task, and more than all of a trace may have. */
enum { MAPS_MOST = 1 << 16, ALL_MAPS_MOST = 1 << 22 };

struct process {
	uint32_t pid;
	struct maps *maps;
};

/* PERF_AUXTRACE: bytes of one ring, from `offset` on. */
struct perf_chunk {
	uint64_t ring, offset; /* `ring`: that of a CPU, or of a task */
	const struct perf_item *item;
	struct perf_task *task; /* of a snapshot */
	bool taken;
};

#define RING_OF_TASK (1ull << 32)

/* --- Tasks and what they have in memory ---------------------------------------------------------
 */

static struct maps *new_maps(struct perf_load *load, const struct maps *like)
{
	struct maps *maps = allocate(1, sizeof(*maps));

	if (!(load->maps_count & (load->maps_count - 1)))
		load->maps = reallocate(load->maps, 2 * load->maps_count + 1, sizeof(*load->maps));
	load->maps[load->maps_count++] = maps;
	if (!like || !like->count)
		return maps;
	load->all_maps += like->count;
	if (load->all_maps > ALL_MAPS_MOST)
		fail("%s: its tasks have more than %u files in memory", load->data->path,
		     ALL_MAPS_MOST);
	maps->map = allocate(like->count, sizeof(*maps->map));
	memcpy(maps->map, like->map, like->count * sizeof(*maps->map));
	maps->count = maps->room = like->count;
	return maps;
}

static int compare_processes(const void *left, const void *right)
{
	const struct process *a = left, *b = right;

	return (a->pid > b->pid) - (a->pid < b->pid);
}

static struct process *process_of(struct perf_load *load, uint32_t pid)
{
	struct process key = {.pid = pid}, *process, **found;

	found = tfind(&key, &load->processes, compare_processes);
	if (found)
		return *found;
	process = allocate(1, sizeof(*process));
	*process = (struct process){pid, new_maps(load, NULL)};
	if (!tsearch(process, &load->processes, compare_processes))
		fail("no memory for the tasks of %s", load->data->path);
	return process;
}

static struct perf_program *add_program(struct perf_task *task, uint64_t since, struct maps *maps)
{
	if (!(task->count & (task->count - 1)))
		task->executed =
			reallocate(task->executed, 2 * task->count + 1, sizeof(*task->executed));
	task->executed[task->count] =
		(struct perf_program){.since = since, .maps = maps, .stream = SIZE_MAX};
	if (task->count)
		memcpy(task->executed[task->count].name, task->executed[task->count - 1].name,
		       sizeof(task->executed->name));
	return &task->executed[task->count++];
}

static int compare_tasks(const void *left, const void *right)
{
	const struct perf_task *a = left, *b = right;

	return (a->tid > b->tid) - (a->tid < b->tid);
}

static struct perf_task *task_of(struct perf_load *load, uint32_t pid, uint32_t tid)
{
	struct perf_task key = {.tid = tid}, *task,
			 **found = tfind(&key, &load->tasks, compare_tasks);

	if (found)
		return *found;
	task = allocate(1, sizeof(*task));
	task->tid = tid;
	task->cpu = PERF_NOBODY;
	add_program(task, 0, process_of(load, pid)->maps);
	if (!tsearch(task, &load->tasks, compare_tasks))
		fail("no memory for the tasks of %s", load->data->path);
	return task;
}

/* What a task executes now begins: what it had before is forgotten if none of it was recorded. */
static struct perf_program *begin_program(struct perf_task *task, uint64_t since, struct maps *maps,
					  bool forget)
{
	if (!forget)
		return add_program(task, since, maps);
	task->count = task->begun = 0;
	return add_program(task, since, maps);
}

/* PERF_RECORD_COMM: pid, tid, name. */
static void take_name(struct perf_load *load, const struct perf_item *item)
{
	uint32_t pid = (uint32_t)perf_number(item, 0, 4), tid = (uint32_t)perf_number(item, 4, 4);
	struct perf_task *task = task_of(load, pid, tid);
	struct perf_program *now = &task->executed[task->count - 1];

	if (item->misc & PERF_RECORD_MISC_COMM_EXEC) {
		process_of(load, pid)->maps = new_maps(load, NULL);
		now = begin_program(task, item->time, process_of(load, pid)->maps,
				    !task->any && load->attr->enable_on_exec && !load->executed);
		load->executed = true;
	}
	snprintf(now->name, sizeof(now->name), "%s", perf_text(item, 8));
	make_printable(now->name, strlen(now->name));
}

/* PERF_RECORD_FORK: pid, ppid, tid, ptid. A thread has what its process has, a child a copy. */
static void take_fork(struct perf_load *load, const struct perf_item *item)
{
	uint32_t pid = (uint32_t)perf_number(item, 0, 4),
		 parent = (uint32_t)perf_number(item, 4, 4);
	uint32_t tid = (uint32_t)perf_number(item, 8, 4),
		 creator = (uint32_t)perf_number(item, 12, 4);
	const struct perf_task *by = task_of(load, parent, creator);
	struct perf_task *task;
	struct perf_program *now;

	if (pid != parent)
		process_of(load, pid)->maps = new_maps(load, process_of(load, parent)->maps);
	task = task_of(load, pid, tid);
	if (task == by)
		return;
	now = begin_program(task, item->time, process_of(load, pid)->maps, !task->any);
	memcpy(now->name, by->executed[by->count - 1].name, sizeof(now->name));
}

/* A name that is none of a file has no code, but what the kernel gives each program. */
static const struct mapped_file *file_of(struct perf_load *load, const struct perf_item *item,
					 const char *path)
{
	size_t size;
	const uint8_t *id = perf_build_id(load->data, item, path, &size);

	if ((path[0] != '/' || path[1] == '/') && strcmp(path, "[vdso]") != 0)
		return NULL;
	return files_add(&load->files, path, id, size);
}

/* PERF_RECORD_MMAP and _MMAP2: pid, tid, start, length, offset; of the second more, then the name.
 */
static void take_map(struct perf_load *load, const struct perf_item *item)
{
	bool second = item->type == PERF_RECORD_MMAP2;
	struct maps *maps = process_of(load, (uint32_t)perf_number(item, 0, 4))->maps;
	uint64_t start = perf_number(item, 8, 8), length = perf_number(item, 16, 8);
	struct map map = {start, start + length, perf_number(item, 24, 8), NULL, NULL};

	if (item->size < 64 && second)
		return;
	if ((item->misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER || start >> 63 ||
	    (second ? !(perf_number(item, 56, 4) & 4) : item->misc & PERF_RECORD_MISC_MMAP_DATA) ||
	    !length || length >> 63)
		return;
	map.file = file_of(load, item, perf_text(item, second ? 64 : 32));
	if (maps->count >= MAPS_MOST || ++load->all_maps > ALL_MAPS_MOST)
		fail("%s: a task has more than %u files in memory", load->data->path, MAPS_MOST);
	maps_add(maps, map);
}

/* --- Whose the bytes are ------------------------------------------------------------------------
 */

static void add_piece(struct perf_load *load, struct perf_piece piece)
{
	if (load->piece_count == load->piece_room) {
		load->piece_room = load->piece_room ? 2 * load->piece_room : 1024;
		load->pieces = reallocate(load->pieces, load->piece_room, sizeof(*load->pieces));
	}
	load->pieces[load->piece_count++] = piece;
}

/* Of the program `at` that the task executes. */
static void add_stamp(struct perf_load *load, struct perf_task *task, size_t at, unsigned qualifier,
		      uint64_t time)
{
	uint64_t cpu = task->cpu;

	if (cpu < TRACE_CPUS_MOST)
		add_piece(load,
			  (struct perf_piece){.task = task,
					      .first = at,
					      .last = at,
					      .stamp = {TRACE_STAMP | qualifier, time,
							TRACE_STAMP_FLAG | cpu << 32 | task->tid}});
}

/* A task departs at its next arrival, or at the end: what it ran until then is written later. */
static void leave(struct perf_load *load, struct perf_task *task)
{
	if (task->running)
		add_stamp(load, task, task->begun, PTRACE_BTS_TASK_DEPARTS,
			  task->leaves ? task->left : task->last);
	task->running = task->leaves = false;
}

static void take_switch(struct perf_load *load, const struct perf_item *item)
{
	struct perf_task *task;

	if (item->tid == PERF_NOBODY || !item->tid || item->cpu == PERF_NOBODY)
		return;
	task = task_of(load, item->pid, item->tid);
	if (item->misc & PERF_RECORD_MISC_SWITCH_OUT) {
		task->leaves = true;
		task->left = item->time;
		return;
	}
	leave(load, task);
	task->cpu = item->cpu;
	task->running = true;
	add_stamp(load, task, task->begun, PTRACE_BTS_TASK_ARRIVES, item->time);
}

/* The first chunk of a ring that does not end before `offset`. */
static size_t find_chunk(const struct perf_load *load, uint64_t ring, uint64_t offset)
{
	size_t low = 0, high = load->chunk_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct perf_chunk *chunk = &load->chunks[middle];

		if (chunk->ring < ring ||
		    (chunk->ring == ring && chunk->offset + chunk->item->trace_size <= offset))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Bytes of a task that were written up to `time`; it may have executed programs meanwhile. */
static void add_bytes(struct perf_load *load, struct perf_task *task, const uint8_t *bytes,
		      size_t size, uint64_t time)
{
	size_t first = task->begun, last = task->count - 1;

	if (!task->running && task->cpu != PERF_NOBODY) {
		task->running = true;
		add_stamp(load, task, first, PTRACE_BTS_TASK_ARRIVES,
			  task->any ? task->last : task->executed[first].since);
	}
	for (size_t at = first; at < last; at++)
		add_stamp(load, task, at + 1, PTRACE_BTS_TASK_ARRIVES,
			  task->executed[at + 1].since);
	add_piece(load, (struct perf_piece){.task = task,
					    .first = first,
					    .last = last,
					    .bytes = bytes,
					    .size = size,
					    .gap = task->gap});
	for (size_t at = first; at < last; at++)
		add_stamp(load, task, at, PTRACE_BTS_TASK_DEPARTS, task->executed[at + 1].since);
	task->any = true;
	task->gap = false;
	task->begun = last;
	task->last = time;
}

/* PERF_RECORD_AUX: the task of the record wrote so many bytes of its ring from an offset on. */
static void take_aux(struct perf_load *load, const struct perf_item *item)
{
	uint64_t offset = perf_number(item, 0, 8), end = offset + perf_number(item, 8, 8);
	uint64_t flags = perf_number(item, 16, 8);
	bool of_cpu = load->chunk_count && load->chunks[0].item->cpu != PERF_NOBODY;
	uint64_t ring = of_cpu ? item->cpu : item->tid | RING_OF_TASK;
	struct perf_task *task;

	if (item->tid == PERF_NOBODY)
		return;
	task = task_of(load, item->pid, item->tid);
	if (task->cpu == PERF_NOBODY)
		task->cpu = item->cpu;
	if (load->snapshot) {
		for (size_t at = find_chunk(load, ring, 0);
		     at < load->chunk_count && load->chunks[at].ring == ring; at++)
			load->chunks[at].task = task;
		return;
	}
	for (size_t at = find_chunk(load, ring, offset); at < load->chunk_count && offset < end;
	     at++) {
		struct perf_chunk *chunk = &load->chunks[at];
		uint64_t size = chunk->item->trace_size, skipped;

		if (chunk->ring != ring || chunk->offset >= end)
			break;
		task->gap |= chunk->offset > offset;
		skipped = chunk->offset > offset ? 0 : offset - chunk->offset;
		size = end - chunk->offset < size ? end - chunk->offset : size;
		add_bytes(load, task, chunk->item->trace + skipped, size - skipped, item->time);
		offset = chunk->offset + size;
		chunk->taken = true;
	}
	task->gap |= offset < end || flags & (PERF_AUX_FLAG_TRUNCATED | PERF_AUX_FLAG_PARTIAL);
	load->truncated += offset < end || flags & PERF_AUX_FLAG_TRUNCATED;
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
			.ring = item->cpu != PERF_NOBODY ? item->cpu : item->tid | RING_OF_TASK,
			.offset = perf_number(item, 8, 8),
			.item = item};
	}
	if (count)
		qsort(load->chunks, count, sizeof(*load->chunks), compare_chunks);
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
			task = task_of(load, item->tid, item->tid);
		if (!task) {
			load->truncated++;
			continue;
		}
		task->gap |= load->snapshot;
		add_bytes(load, task, item->trace, item->trace_size, task->last);
	}
}

static void leave_at_end(const void *node, VISIT visit, void *load)
{
	if (visit == postorder || visit == leaf)
		leave(load, *(struct perf_task *const *)node);
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
			take_map(load, item);
			break;
		case PERF_RECORD_COMM:
			take_name(load, item);
			break;
		case PERF_RECORD_FORK:
			take_fork(load, item);
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
	twalk_r(load->tasks, leave_at_end, load);
}

static void free_task(void *node)
{
	struct perf_task *task = node;

	free(task->executed);
	free(task->programs);
	free(task);
}

void perf_free_tasks(struct perf_load *load)
{
	tdestroy(load->processes, free);
	tdestroy(load->tasks, free_task);
	for (size_t i = 0; i < load->maps_count; i++) {
		free(load->maps[i]->map);
		free(load->maps[i]);
	}
	free(load->maps);
	free(load->chunks);
	free(load->pieces);
}
