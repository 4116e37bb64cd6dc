// SPDX-License-Identifier: MIT
// A stopped process cannot leave its stop while the lock is held.
#include "abi/errno.h"
#include "kernel/process/internal.h"
#include "kernel/ptrace/attachment.h"
#include "kernel/ptrace/ptrace.h"

int ptrace_get_frame(struct attachment *at, struct trap_frame *frame)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool stopped = at->stop;

	if (stopped)
		*frame = at->tracee->frame;
	spin_unlock(&processes_lock, flags);
	return stopped ? 0 : -ESRCH;
}

/* SYSRET could not give it an RCX and R11 of its own: it goes on as from an interrupt. */
int ptrace_set_frame(struct attachment *at, const struct trap_frame *frame)
{
	uint64_t flags = spin_lock(&processes_lock);
	bool stopped = at->stop;

	if (stopped) {
		at->tracee->frame = *frame;
		at->tracee->frame.vector = VECTOR_KICK;
	}
	spin_unlock(&processes_lock, flags);
	return stopped ? 0 : -ESRCH;
}

int ptrace_peek(struct attachment *at, uint64_t address, void *buffer, size_t bytes)
{
	uint64_t flags = spin_lock(&processes_lock);
	int error = -ESRCH;

	if (at->stop)
		error = space_read(&at->tracee->space, address, buffer, bytes) ? -EIO : 0;
	spin_unlock(&processes_lock, flags);
	return error;
}

int ptrace_poke(struct attachment *at, uint64_t address, const void *buffer, size_t bytes)
{
	uint64_t flags = spin_lock(&processes_lock);
	int error = -ESRCH;

	if (at->stop)
		error = space_write(&at->tracee->space, address, buffer, bytes) ? -EIO : 0;
	spin_unlock(&processes_lock, flags);
	return error;
}
