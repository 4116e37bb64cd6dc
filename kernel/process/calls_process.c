// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "abi/syscall.h"
#include "kernel/cpu.h"
#include "kernel/mm/copy.h"
#include "kernel/process/internal.h"
#include "kernel/sched/sched.h"

long call_getpid(struct process *self, const uint64_t *argument)
{
	(void)argument;
	return self->pid;
}

long call_getppid(struct process *self, const uint64_t *argument)
{
	uint64_t flags = spin_lock(&processes_lock);
	unsigned pid = self->parent ? self->parent->pid : 0;

	(void)argument;
	spin_unlock(&processes_lock, flags);
	return pid;
}

long call_fork(struct process *self, const uint64_t *argument)
{
	(void)argument;
	return process_fork(self);
}

long call_spawn(struct process *self, const uint64_t *argument)
{
	char name[sizeof(self->name)];
	int error = strncpy_from_user(name, argument[0], sizeof(name));
	struct process *child;
	long pid;

	if (!error)
		error = process_spawn(name, argument[1], self, &child);
	if (error)
		return error;
	pid = child->pid;
	process_put(child);
	return pid;
}

long call_exit(struct process *self, const uint64_t *argument)
{
	process_end(self, WAIT_EXITED((int)argument[0]));
}

long call_wait4(struct process *self, const uint64_t *argument)
{
	int32_t pid = (int32_t)argument[0];

	if (argument[2] & ~(uint64_t)(WNOHANG | WUNTRACED | WNOWAIT) || argument[3] || pid == 0 ||
	    pid < -1)
		return -EINVAL;
	return process_wait(self, pid, argument[1], argument[2]);
}

long call_kill(struct process *self, const uint64_t *argument)
{
	struct signal_cause cause = {.code = SI_USER, .pid = (int32_t)self->pid};
	struct process *process;

	if (argument[1] >= SIGNALS || (int32_t)argument[0] <= 0)
		return -EINVAL;
	process = process_find((unsigned)argument[0]);
	if (!process)
		return -ESRCH;
	if (argument[1])
		process_signal_from(process, (unsigned)argument[1], &cause);
	process_put(process);
	return 0;
}

long call_sched_yield(struct process *self, const uint64_t *argument)
{
	(void)self, (void)argument;
	task_yield();
	return 0;
}

static uint64_t cpus_online(void)
{
	return cpu_count() < 64 ? (1ul << cpu_count()) - 1 : UINT64_MAX;
}

long call_sched_setaffinity(struct process *self, const uint64_t *argument)
{
	struct process *process;
	uint64_t cpus;

	if (argument[1] < sizeof(cpus))
		return -EINVAL;
	if (copy_from_user(&cpus, argument[2], sizeof(cpus)))
		return -EFAULT;
	if (!(cpus & cpus_online()))
		return -EINVAL;
	process = process_find(argument[0] ? (unsigned)argument[0] : self->pid);
	if (!process)
		return -ESRCH;
	task_set_affinity(process->task, cpus);
	process_put(process);
	return 0;
}

long call_getcpu(struct process *self, const uint64_t *argument)
{
	uint32_t cpu = this_cpu()->index;

	(void)self;
	if (argument[1])
		return -EINVAL;
	return argument[0] ? copy_to_user(argument[0], &cpu, sizeof(cpu)) : 0;
}
