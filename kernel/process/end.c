// SPDX-License-Identifier: MIT
#include "kernel/export/export.h"
#include "kernel/process/attachment.h"
#include "kernel/process/internal.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "kernel/trace/cpu.h"
#include "kernel/trace/pt/insntrace.h"

/* Nobody will wait for them: one that has ended goes at once, the others when they end. */
static void give_up_children(const struct process *self)
{
	for (;;) {
		uint64_t flags = spin_lock(&processes_lock);
		struct process *child = processes;

		while (child && child->parent != self)
			child = child->next;
		if (child)
			child->parent = NULL;
		spin_unlock(&processes_lock, flags);
		if (!child)
			return;
		process_put(child);
	}
}

/* A tracer that asked for it looks at the process as it was when it made the call. */
static void stop_before_end(struct process *self, int status)
{
	uint64_t flags = spin_lock(&processes_lock);

	attachments_exit(self, status);
	attachments_stop(self);
	spin_unlock(&processes_lock, flags);
}

void process_end(struct process *self, int status)
{
	uint64_t flags, root;

	if (status != WAIT_KILLED(SIGKILL))
		stop_before_end(self, status);
	timer_stop(&self->alarm);
	user_context_drop();
	root = space_clear(&self->space);
	give_up_children(self);
	attachments_drop(self);
	insntrace_owner_ended(&self->account);
	if (export_wants(EXPORT_PROGRAMS))
		export_task_end(self->task);
	export_free_root(root);
	trace_task_ended(self->task); /* whoever hears of the end finds all of its trace */
	flags = spin_lock(&processes_lock);
	self->status = status;
	self->state = PROCESS_ENDED;
	self->pending = 0;
	process_changed(self, status);
	attachments_ended(self);
	spin_unlock(&processes_lock, flags);
	process_put(self);
	task_exit();
}

void process_changed(struct process *process, int status)
{
	sched_wake_all(&process->watchers);
	if (process->parent)
		signal_post_child(process->parent, process, status);
}

int process_await(struct process *process, bool stops)
{
	uint64_t flags = spin_lock(&processes_lock);
	int status;

	while (process->state == PROCESS_RUNS || (process->state == PROCESS_STOPPED && !stops))
		sched_wait(&process->watchers, &processes_lock);
	status = process->state == PROCESS_ENDED ? process->status : process->stop_status;
	spin_unlock(&processes_lock, flags);
	return status;
}

/* False: all have ended. */
static bool kill_once(void)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool left = false;

	for (struct process *process = processes; process; process = process->next) {
		left |= process->state != PROCESS_ENDED;
		signal_post(process, SIGKILL, &(struct signal_cause){.code = SI_KERNEL});
	}
	spin_unlock(&processes_lock, flags);
	return left;
}

void process_kill_all(void)
{
	while (kill_once())
		task_sleep(1000);
}
