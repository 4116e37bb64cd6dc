// SPDX-License-Identifier: MIT
// Who traces whom.
#include "kernel/process/attachment.h"

#include "abi/errno.h"
#include "abi/ptrace.h"
#include "kernel/process/internal.h"

_Static_assert(sizeof(struct attachment) <= PAGE_SIZE, "page_alloc() gives one page");

struct attachment *attachment_create(void)
{
	uint64_t page = page_alloc();

	return page ? direct(page) : NULL;
}

void attachment_free(struct attachment *at)
{
	page_free((uint64_t)at - DIRECT_MAP);
}

/* The kernel traces whom it likes, as often as it likes. */
static int refuse_attachment(const struct process *tracer, const struct process *tracee,
			     bool exclusive)
{
	if (tracee->state == PROCESS_ENDED)
		return -ESRCH;
	if (tracer && (tracer == tracee || (tracee->privileged && !tracer->privileged)))
		return -EPERM;
	for (const struct attachment *at = tracee->attachments; at; at = at->next_of_tracee)
		if ((exclusive && at->exclusive) || (tracer && at->tracer == tracer))
			return -EPERM;
	return 0;
}

int attachment_link(struct attachment *at, struct process *tracer, struct process *tracee)
{
	int error = refuse_attachment(tracer, tracee, at->exclusive);

	if (error)
		return error;
	at->tracer = tracer;
	at->tracee = tracee;
	at->next_of_tracee = tracee->attachments;
	tracee->attachments = at;
	tracee->references++;
	if (tracer) {
		at->next_of_tracer = tracer->traced;
		tracer->traced = at;
	}
	return 0;
}

static void remove_from_tracer(struct attachment *at)
{
	struct attachment **link = &at->tracer->traced;

	while (*link != at)
		link = &(*link)->next_of_tracer;
	*link = at->next_of_tracer;
}

static void remove_from_tracee(struct attachment *at)
{
	struct attachment **link = &at->tracee->attachments;

	while (*link != at)
		link = &(*link)->next_of_tracee;
	*link = at->next_of_tracee;
}

static void unlink_attachment(struct attachment *at)
{
	if (at->tracer)
		remove_from_tracer(at);
	if (at->tracee)
		remove_from_tracee(at);
}

void attachment_free_trace(struct attachment *at)
{
	uint64_t flags = spin_lock(&processes_lock);
	struct tracer *trace = at->trace;

	at->trace = NULL;
	at->config = (struct ptrace_bts_config){0};
	spin_unlock(&processes_lock, flags);
	if (trace)
		trace_detach(trace);
}

void attachment_free_samples(struct attachment *at)
{
	uint64_t flags = spin_lock(&processes_lock);
	struct tracer *samples = at->samples;

	at->samples = NULL;
	at->samples_config = (struct ptrace_pebs_config){0};
	spin_unlock(&processes_lock, flags);
	if (samples)
		trace_detach(samples);
}

void attachment_end(struct attachment *at, unsigned signal)
{
	struct process *tracee = at->tracee;
	uint64_t flags;

	attachment_free_trace(at);
	attachment_free_samples(at);
	flags = spin_lock(&processes_lock);
	unlink_attachment(at);
	if (tracee) {
		at->step = false;
		attachment_finish(at, signal);
	}
	spin_unlock(&processes_lock, flags);
	if (tracee)
		process_put(tracee);
	attachment_free(at);
}

/* The signal that a stop was for acts as if nobody had traced. */
void attachments_drop(struct process *self)
{
	for (;;) {
		uint64_t flags = spin_lock(&processes_lock);
		struct attachment *at = self->traced;
		unsigned signal = at && at->delivery ? (unsigned)at->stop >> 8 & 0xff : 0;

		spin_unlock(&processes_lock, flags);
		if (!at)
			return;
		attachment_end(at, signal);
	}
}

/* --- Events --- */

static void make_due(struct attachment *at, int event, uint64_t message)
{
	at->due = event << 16 | WAIT_STOPPED(SIGTRAP);
	at->message = message;
}

static int inherit_attachment(const struct attachment *at, struct process *child)
{
	struct attachment *copy = attachment_create();
	int error;

	if (!copy)
		return -ENOMEM;
	copy->exclusive = at->exclusive;
	copy->options = at->options;
	copy->due = WAIT_STOPPED(SIGSTOP);
	error = attachment_link(copy, at->tracer, child);
	if (error)
		attachment_free(copy);
	return error;
}

static void drop_inherited(struct process *child)
{
	while (child->attachments) {
		struct attachment *at = child->attachments;

		unlink_attachment(at);
		child->references--;
		attachment_free(at);
	}
}

int attachments_fork(struct process *parent, struct process *child)
{
	for (struct attachment *at = parent->attachments; at; at = at->next_of_tracee) {
		int error = at->options & PTRACE_O_TRACEFORK ? inherit_attachment(at, child) : 0;

		if (error) {
			drop_inherited(child);
			return error;
		}
	}
	for (struct attachment *at = parent->attachments; at; at = at->next_of_tracee)
		if (at->options & PTRACE_O_TRACEFORK)
			make_due(at, PTRACE_EVENT_FORK, child->pid);
	return 0;
}

void attachments_exit(struct process *self, int status)
{
	for (struct attachment *at = self->attachments; at; at = at->next_of_tracee)
		if (at->options & PTRACE_O_TRACEEXIT)
			make_due(at, PTRACE_EVENT_EXIT, (uint64_t)status);
}
