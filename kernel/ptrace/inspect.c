// SPDX-License-Identifier: MIT
// A stopped process cannot leave its stop while the lock is held.
#include "abi/errno.h"
#include "abi/ptrace.h"
#include "kernel/mm/copy.h"
#include "kernel/ptrace/internal.h"

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
