// SPDX-License-Identifier: MIT
// Which tracer traces which tracee.
#include "kernel/process/attachment.h"

#include "abi/errno.h"
#include "abi/ptrace.h"

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

/* A kernel tracer (NULL) needs no permission, and may attach more than once. */
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

int attachment_link(struct process *tracer, struct process *tracee, bool exclusive,
		    struct attachment **result)
{
	struct attachment *at = attachment_create();
	int error;

	if (!at)
		return -ENOMEM;
	error = refuse_attachment(tracer, tracee, exclusive);
	if (error) {
		attachment_free(at);
		return error;
	}
	*result = at;
	at->exclusive = exclusive;
	at->tracer = tracer;
	at->tracee = tracee;
	at->task = tracee->task;
	at->next_of_tracee = tracee->attachments;
	tracee->attachments = at;
	tracee->references++;
	if (tracer) {
		at->next_of_tracer = tracer->traced;
		tracer->traced = at;
	}
	return 0;
}

void attachment_unlink(struct attachment *at)
{
	if (at->tracer)
		LIST_REMOVE(at->tracer->traced, at, next_of_tracer);
	if (at->tracee)
		LIST_REMOVE(at->tracee->attachments, at, next_of_tracee);
}

/* A stop of all tracers that asked for it by `option`. */
static void make_due(const struct process *self, uint32_t option, int event, uint64_t message)
{
	for (struct attachment *at = self->attachments; at; at = at->next_of_tracee)
		if (at->options & option) {
			at->due = event << 16 | WAIT_STOPPED(SIGTRAP);
			at->message = message;
		}
}

static int inherit_attachment(const struct attachment *at, struct process *child)
{
	struct attachment *copy;
	int error = attachment_link(at->tracer, child, at->exclusive, &copy);

	if (error)
		return error;
	copy->options = at->options;
	copy->due = WAIT_STOPPED(SIGSTOP);
	return 0;
}

static void drop_inherited(struct process *child)
{
	while (child->attachments) {
		struct attachment *at = child->attachments;

		attachment_unlink(at);
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
	make_due(parent, PTRACE_O_TRACEFORK, PTRACE_EVENT_FORK, child->pid);
	return 0;
}

void attachments_exit(struct process *self, int status)
{
	self->ends = true;
	make_due(self, PTRACE_O_TRACEEXIT, PTRACE_EVENT_EXIT, (uint64_t)status);
}
