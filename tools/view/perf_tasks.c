// SPDX-License-Identifier: MIT
// perf.data: the tasks, the programs that they execute, the files that they have in memory.
#define _GNU_SOURCE
#include "tools/view/perf_file.h"
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

struct perf_task *perf_find_task(struct perf_load *load, uint32_t tid)
{
	struct perf_task key = {.tid = tid}, **found = tfind(&key, &load->tasks, compare_tasks);

	return found ? *found : NULL;
}

struct perf_task *perf_task(struct perf_load *load, uint32_t pid, uint32_t tid)
{
	struct perf_task *task = perf_find_task(load, tid);

	if (task)
		return task;
	task = allocate(1, sizeof(*task));
	task->tid = tid;
	task->cpu = PERF_NOBODY;
	add_program(task, 0, process_of(load, pid)->maps);
	if (!tsearch(task, &load->tasks, compare_tasks))
		fail("no memory for the tasks of %s", load->data->path);
	return task;
}

/* What a task executes now begins; what it had before is forgotten if nothing of it was recorded.
 */
static struct perf_program *begin_program(struct perf_task *task, uint64_t since, struct maps *maps,
					  bool forget)
{
	if (!forget)
		return add_program(task, since, maps);
	task->count = task->begun = 0;
	return add_program(task, since, maps);
}

/* PERF_RECORD_COMM: pid, tid, name. */
struct perf_task *perf_take_name(struct perf_load *load, const struct perf_item *item)
{
	uint32_t pid = (uint32_t)perf_number(item, 0, 4), tid = (uint32_t)perf_number(item, 4, 4);
	struct perf_task *task = perf_task(load, pid, tid);
	struct perf_program *now = &task->executed[task->count - 1];
	bool executes = item->misc & PERF_RECORD_MISC_COMM_EXEC;

	if (executes) {
		process_of(load, pid)->maps = new_maps(load, NULL);
		now = begin_program(task, item->time, process_of(load, pid)->maps,
				    load->attr->enable_on_exec && !load->executed);
		load->executed = true;
	}
	snprintf(now->name, sizeof(now->name), "%s", perf_text(item, 8));
	make_printable(now->name, strlen(now->name));
	return executes ? task : NULL;
}

/* PERF_RECORD_FORK: pid, ppid, tid, ptid. A thread has what its process has, a child a copy. */
void perf_take_fork(struct perf_load *load, const struct perf_item *item)
{
	uint32_t pid = (uint32_t)perf_number(item, 0, 4),
		 parent = (uint32_t)perf_number(item, 4, 4);
	uint32_t tid = (uint32_t)perf_number(item, 8, 4),
		 creator = (uint32_t)perf_number(item, 12, 4);
	const struct perf_task *by = perf_task(load, parent, creator);
	struct perf_task *task;
	struct perf_program *now;

	if (pid != parent)
		process_of(load, pid)->maps = new_maps(load, process_of(load, parent)->maps);
	task = perf_task(load, pid, tid);
	if (task == by)
		return;
	task->ended = false;
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
void perf_take_map(struct perf_load *load, const struct perf_item *item)
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
	load->replaced += maps_has_other(maps, &map);
	if (maps->count >= MAPS_MOST || ++load->all_maps > ALL_MAPS_MOST)
		fail("%s: a task has more than %u files in memory", load->data->path, MAPS_MOST);
	maps_add(maps, map);
}

static void free_task(void *node)
{
	struct perf_task *task = node;

	free(task->executed);
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
}
