// SPDX-License-Identifier: MIT
// A tracer attaches to a process, stops it, lets it go on, and detaches.
#include "abi/errno.h"
#include "abi/ptrace.h"
#include "kernel/ptrace/internal.h"
#include "kernel/trace/trace.h"

int ptrace_attach(struct process *tracer, struct process *tracee, bool exclusive,
		  struct attachment **result)
{
	struct attachment *at = attachment_create();
	uint64_t flags;
	int error;

	if (!at)
		return -ENOMEM;
	at->exclusive = exclusive;
	flags = spin_lock(&processes_lock);
	error = attachment_link(at, tracer, tracee);
	if (!error && exclusive) {
		at->due = WAIT_STOPPED(SIGSTOP);
		attachments_look(tracee);
	}
	spin_unlock(&processes_lock, flags);
	if (error)
		attachment_free(at);
	else
		*result = at;
	return error;
}

long ptrace_traceme(struct process *self)
{
	struct attachment *at = attachment_create();
	uint64_t flags;
	int error;

	if (!at)
		return -ENOMEM;
	at->exclusive = true;
	flags = spin_lock(&processes_lock);
	error = self->parent ? attachment_link(at, self->parent, self) : -EPERM;
	spin_unlock(&processes_lock, flags);
	if (error)
		attachment_free(at);
	return error;
}

int ptrace_continue(struct attachment *at, unsigned signal, bool step)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool resume = at->told, resume_samples = at->told_samples;
	int error = 0;

	spin_unlock(&processes_lock, flags);
	if (resume && at->trace)
		trace_resume(at->trace);
	if (resume_samples && at->samples)
		trace_resume(at->samples);
	flags = spin_lock(&processes_lock);
	if (at->stop) {
		at->step = step;
		attachment_finish(at, signal);
	} else {
		error = -ESRCH;
	}
	spin_unlock(&processes_lock, flags);
	return error;
}

int ptrace_interrupt(struct attachment *at)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool ended = at->tracee->state == PROCESS_ENDED;

	if (!ended && !at->stop && !at->due) {
		at->due = PTRACE_EVENT_STOP << 16 | WAIT_STOPPED(SIGTRAP);
		attachments_look(at->tracee);
	}
	spin_unlock(&processes_lock, flags);
	return ended ? -ESRCH : 0;
}

void ptrace_detach(struct attachment *attachment, unsigned signal)
{
	attachment_end(attachment, signal);
}
