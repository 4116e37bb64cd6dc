// SPDX-License-Identifier: MIT
// What a tracer asks to be stopped for, and what it learns of a stop.
#include "abi/errno.h"
#include "abi/ptrace.h"
#include "kernel/mm/copy.h"
#include "kernel/process/internal.h"
#include "kernel/ptrace/internal.h"

static void make_due(struct attachment *at, int event, uint64_t message)
{
	at->due = event << 16 | WAIT_STOPPED(SIGTRAP);
	at->message = message;
}

static int inherit(const struct attachment *at, struct process *child)
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

static void disinherit(struct process *child)
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
		int error = at->options & PTRACE_O_TRACEFORK ? inherit(at, child) : 0;

		if (error) {
			disinherit(child);
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

long ptrace_set_options(struct attachment *at, uint64_t options)
{
	uint64_t flags;

	if (options & ~(uint64_t)PTRACE_O_MASK)
		return -EINVAL;
	flags = spin_lock(&processes_lock);
	at->options = (uint32_t)options;
	spin_unlock(&processes_lock, flags);
	return 0;
}

long ptrace_get_message(struct attachment *at, uint64_t user)
{
	return copy_to_user(user, &at->message, sizeof(at->message));
}

long ptrace_get_siginfo(struct attachment *at, uint64_t user)
{
	uint64_t flags = spin_lock(&processes_lock);
	struct siginfo info = {.si_signo = at->stop >> 8 & 0xff, .si_code = at->cause.code};
	bool stopped = at->stop;

	if (at->cause.address) {
		info.si_addr = at->cause.address;
	} else {
		info.si_pid = at->cause.pid;
		info.si_status = at->cause.status;
	}
	spin_unlock(&processes_lock, flags);
	return stopped ? copy_to_user(user, &info, sizeof(info)) : -ESRCH;
}
