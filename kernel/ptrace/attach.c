// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "kernel/process/internal.h"
#include "kernel/ptrace/attachment.h"
#include "kernel/ptrace/internal.h"
#include "kernel/ptrace/ptrace.h"

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
static int refuse(const struct process *tracer, const struct process *tracee, bool exclusive)
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
	int error = refuse(tracer, tracee, at->exclusive);

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

void attachment_unlink(struct attachment *at)
{
	if (at->tracer)
		remove_from_tracer(at);
	if (at->tracee)
		remove_from_tracee(at);
}

void attachment_end(struct attachment *at, unsigned signal)
{
	struct process *tracee = at->tracee;
	uint64_t flags;

	ptrace_bts_free(at);
	flags = spin_lock(&processes_lock);
	attachment_unlink(at);
	if (tracee) {
		at->step = false;
		attachment_finish(at, signal);
	}
	spin_unlock(&processes_lock, flags);
	if (tracee)
		process_put(tracee);
	attachment_free(at);
}

void ptrace_detach(struct attachment *attachment, unsigned signal)
{
	attachment_end(attachment, signal);
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
