// SPDX-License-Identifier: MIT
// A process is one page, reached through the direct map. It holds a reference to its task, and is
// held by itself until it ends, by its parent until that has heard of it, and by who looks at it.
#include "kernel/process/process.h"

#include "abi/errno.h"
#include "kernel/export/export.h"
#include "kernel/process/attachment.h"
#include "kernel/process/internal.h"
#include "kernel/process/program.h"
#include "kernel/sched/sched.h"
#include "lib/format.h"
#include "lib/string.h"

/*
 * RLIMIT_MEMLOCK of the kernel's children, in bytes: 87,000 records. A task that branches all the
 * time leaves 1,100 in its time slice of a millisecond on an emulator (bts_bench_slice), and could
 * leave 75,000 where storing a record takes 40 cycles of a 3 GHz processor.
 */
#define MEMLOCK_DEFAULT (2ul << 20)

_Static_assert(sizeof(struct process) <= PAGE_SIZE, "page_alloc() gives one page");

struct spinlock processes_lock;
struct process *processes;
void (*process_forked)(struct process *child);
void (*process_ends)(struct process *process, uint64_t root);
static unsigned count;

/* Frees a process that never ran, or that has only its page and its task left. */
static void free_process(struct process *process)
{
	space_destroy(&process->space);
	if (process->task)
		task_put(process->task);
	page_free((uint64_t)process - DIRECT_MAP);
}

static void discard_new(struct process *process)
{
	if (process->task)
		task_kill(process->task);
	free_process(process);
}

/* With an empty space, and not in the list yet. NULL when memory is out. */
static struct process *create_process(const char *name, const struct process *parent,
				      bool privileged, process_entry *entry)
{
	uint64_t page = page_alloc();
	struct process *process = direct(page);

	if (!page)
		return NULL;
	format(process->name, sizeof(process->name), "%s", name);
	process->privileged = process->account.privileged = privileged;
	process->account.limit = parent ? parent->account.limit : MEMLOCK_DEFAULT;
	process->account_most = parent ? parent->account_most : MEMLOCK_DEFAULT;
	process->task = task_create_stopped(name, entry, process);
	if (!process->task || space_create(&process->space)) {
		discard_new(process);
		return NULL;
	}
	process->pid = process->task->pid;
	process->task->context = &process->context;
	user_context_init(&process->context, process->space.root);
	return process;
}

static int enter_list(struct process *process, struct process *parent)
{
	int error;
	SPIN_GUARD(&processes_lock);

	error = count < PROCESS_MOST ? 0 : -EAGAIN;
	process->references = parent ? 3 : 2;
	if (parent && !error)
		error = attachments_fork(parent, process);
	if (error)
		return error;
	count++;
	process->next = processes;
	processes = process;
	process->parent = parent;
	return 0;
}

/* Into the list and off; with one more reference for the caller. */
static int enter_process(struct process *process, struct process *parent)
{
	int error = enter_list(process, parent);

	if (error)
		return error;
	if (export_wants(EXPORT_PROGRAMS))
		export_task(process->task, EXPORT_PROGRAMS, process->name,
			    program_checksum(process->name));
	if (parent)
		process_forked(process);
	task_start(process->task);
	return 0;
}

int process_start(const char *name, uint64_t argument, struct process *parent, bool privileged,
		  process_entry *entry, struct process **result)
{
	const struct program *program = program_find(name);
	struct process *process;
	int error;

	if (!program)
		return -ENOENT;
	process = create_process(program->name, parent, privileged, entry);
	if (!process)
		return -ENOMEM;
	process->frame.rdi = argument;
	error = program_load(&process->space, program->image, program->size, &process->frame);
	if (!error)
		error = enter_process(process, parent);
	if (error)
		discard_new(process);
	else
		*result = process;
	return error;
}

long process_fork(struct process *parent)
{
	struct process *child =
		create_process(parent->name, parent, parent->privileged, parent->task->entry);
	long result;

	if (!child)
		return -ENOMEM;
	result = space_copy(&child->space, &parent->space);
	if (!result) {
		child->frame = parent->frame;
		child->frame.rax = 0;
		child->blocked = parent->blocked;
		memcpy(child->actions, parent->actions, sizeof(child->actions));
		user_context_copy_fpu(&child->context);
		result = enter_process(child, parent);
	}
	if (result) {
		discard_new(child);
		return result;
	}
	result = child->pid;
	process_put(child);
	return result;
}

struct process *process_find(unsigned pid)
{
	struct process *process;
	SPIN_GUARD(&processes_lock);

	for (process = processes; process; process = process->next)
		/* One that ended without a parent is forgotten. */
		if (process->pid == pid && (process->state != PROCESS_ENDED || process->parent)) {
			process->references++;
			break;
		}
	return process;
}

void process_put(struct process *process)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool last = --process->references == 0;

	if (last) {
		LIST_REMOVE(processes, process, next);
		count--;
	}
	spin_unlock(&processes_lock, flags);
	if (last)
		free_process(process);
}
