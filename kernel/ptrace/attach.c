// SPDX-License-Identifier: MIT
// A tracer attaches to a process, stops it, lets it go on, and detaches.
#include "abi/errno.h"
#include "abi/ptrace.h"
#include "kernel/ptrace/internal.h"
#include "kernel/trace/trace.h"

int ptrace_attach(struct process *tracer, struct process *tracee, bool exclusive,
		  struct attachment **result)
{
	int error;
	SPIN_GUARD(&processes_lock);

	error = attachment_link(tracer, tracee, exclusive, result);
	if (!error && exclusive) {
		(*result)->due = WAIT_STOPPED(SIGSTOP);
		attachments_look(tracee);
	}
	return error;
}

long ptrace_traceme(const struct ptrace_call *call)
{
	struct process *self = call->self;
	struct attachment *at;
	SPIN_GUARD(&processes_lock);

	/* The kernel's own child has none to trace it: nobody traces itself. */
	return attachment_link(self->parent ? self->parent : self, self, true, &at);
}

int ptrace_continue(struct attachment *at, unsigned signal, bool step)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool resume = at->told, resume_samples = at->told_samples;

	spin_unlock(&processes_lock, flags);
	if (resume && at->trace)
		trace_resume(at->trace);
	if (resume_samples && at->samples)
		trace_resume(at->samples);
	SPIN_GUARD(&processes_lock);
	if (!at->stop)
		return -ESRCH;
	at->step = step;
	attachment_finish(at, signal);
	return 0;
}

int ptrace_interrupt(struct attachment *at)
{
	SPIN_GUARD(&processes_lock);

	if (at->tracee->state == PROCESS_ENDED)
		return -ESRCH;
	if (!at->stop && !at->due) {
		at->due = PTRACE_EVENT_STOP << 16 | WAIT_STOPPED(SIGTRAP);
		attachments_look(at->tracee);
	}
	return 0;
}

void ptrace_detach(struct attachment *attachment, unsigned signal)
{
	attachment_end(attachment, signal);
}
