// SPDX-License-Identifier: MIT
#include "abi/syscall.h"

#include "abi/errno.h"
#include "kernel/process/internal.h"

static const struct {
	uint64_t number;
	long (*call)(struct process *self, const uint64_t *argument);
} calls[] = {
	{SYS_write, call_write},
	{SYS_mmap, call_mmap},
	{SYS_munmap, call_munmap},
	{SYS_sched_yield, call_sched_yield},
	{SYS_nanosleep, call_nanosleep},
	{SYS_getpid, call_getpid},
	{SYS_fork, call_fork},
	{SYS_exit, call_exit},
	{SYS_wait4, call_wait4},
	{SYS_kill, call_kill},
	{SYS_getrlimit, call_getrlimit},
	{SYS_ptrace, call_ptrace},
	{SYS_getppid, call_getppid},
	{SYS_setrlimit, call_setrlimit},
	{SYS_sched_setaffinity, call_sched_setaffinity},
	{SYS_clock_gettime, call_clock_gettime},
	{SYS_getcpu, call_getcpu},
	{SYS_spawn, call_spawn},
};

long syscall_do(struct process *self)
{
	const struct trap_frame *frame = &self->frame;
	const uint64_t argument[] = {frame->rdi, frame->rsi, frame->rdx,
				     frame->r10, frame->r8,  frame->r9};

	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (calls[i].number == frame->rax)
			return calls[i].call(self, argument);
	return -ENOSYS;
}
