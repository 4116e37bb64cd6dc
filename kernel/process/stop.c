// SPDX-License-Identifier: MIT
// A stopped process cannot leave its stop while the lock is held: whoever looks at it does so then.
#include "abi/errno.h"
#include "kernel/process/internal.h"
#include "kernel/sched/sched.h"

void process_changed(struct process *process)
{
	sched_wake_all(&process->watchers);
	if (!process->parent)
		return;
	signal_post(process->parent, SIGCHLD);
}

unsigned stop_here(struct process *self, unsigned signal)
{
	if (self->pending & 1u << SIGKILL)
		return 0;
	self->state = PROCESS_STOPPED;
	self->stop_signal = signal;
	self->resume_signal = 0;
	self->stop_seen = false;
	process_changed(self);
	while (self->state == PROCESS_STOPPED)
		sched_wait(&self->waiting, &processes_lock);
	return self->resume_signal;
}

unsigned process_stop(struct process *self, unsigned signal)
{
	uint64_t flags = spin_lock(&processes_lock);

	signal = stop_here(self, signal);
	spin_unlock(&processes_lock, flags);
	return signal;
}

static void go_on(struct process *process, unsigned signal)
{
	process->resume_signal = signal;
	process->state = PROCESS_RUNS;
	sched_wake_all(&process->waiting);
}

int process_continue(struct process *process, unsigned signal)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool stopped = process->state == PROCESS_STOPPED;

	if (stopped)
		go_on(process, signal);
	spin_unlock(&processes_lock, flags);
	return stopped ? 0 : -ESRCH;
}

void process_trace(struct process *process)
{
	uint64_t flags = spin_lock(&processes_lock);

	process->tracers++;
	spin_unlock(&processes_lock, flags);
}

void process_untrace(struct process *process)
{
	uint64_t flags = spin_lock(&processes_lock);

	if (--process->tracers == 0) {
		process->single_step = false;
		if (process->state == PROCESS_STOPPED)
			go_on(process, 0);
	}
	spin_unlock(&processes_lock, flags);
}

int process_get_registers(struct process *process, struct trap_frame *frame)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool stopped = process->state == PROCESS_STOPPED;

	if (stopped)
		*frame = process->frame;
	spin_unlock(&processes_lock, flags);
	return stopped ? 0 : -ESRCH;
}

/* SYSRET could not give it an RCX and R11 of its own: it goes on as from an interrupt. */
int process_set_registers(struct process *process, const struct trap_frame *frame)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool stopped = process->state == PROCESS_STOPPED;

	if (stopped) {
		process->frame = *frame;
		process->frame.vector = VECTOR_KICK;
	}
	spin_unlock(&processes_lock, flags);
	return stopped ? 0 : -ESRCH;
}

int process_single_step(struct process *process, bool on)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool stopped = process->state == PROCESS_STOPPED;

	if (stopped)
		process->single_step = on;
	spin_unlock(&processes_lock, flags);
	return stopped ? 0 : -ESRCH;
}

int process_peek(struct process *process, uint64_t address, void *buffer, size_t bytes)
{
	uint64_t flags = spin_lock(&processes_lock);
	int error = -ESRCH;

	if (process->state == PROCESS_STOPPED)
		error = space_read(&process->space, address, buffer, bytes) ? -EIO : 0;
	spin_unlock(&processes_lock, flags);
	return error;
}

int process_poke(struct process *process, uint64_t address, const void *buffer, size_t bytes)
{
	uint64_t flags = spin_lock(&processes_lock);
	int error = -ESRCH;

	if (process->state == PROCESS_STOPPED)
		error = space_write(&process->space, address, buffer, bytes) ? -EIO : 0;
	spin_unlock(&processes_lock, flags);
	return error;
}
