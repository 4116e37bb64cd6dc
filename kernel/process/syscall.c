// SPDX-License-Identifier: MIT
// The system calls; `argument` of each: the six registers.
#include "abi/syscall.h"

#include "abi/errno.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/process/internal.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "lib/format.h"

/* Bytes written at once; the caller goes on with the rest, as with any write(). */
#define MOST_WRITTEN 256

void (*process_said)(const struct process *process, const char *line);

/* After its name, printable: nothing it writes can be taken for a result. */
static void print_line(const struct process *self, char *line, size_t length)
{
	char text[MOST_WRITTEN + 1];

	for (size_t i = 0; i < length; i++)
		if (line[i] < ' ' || line[i] > '~')
			line[i] = '.';
	format(text, sizeof(text), "%.*s", (int)length, line);
	printk("# %s: %s\n", self->name, text);
	if (process_said)
		process_said(self, text);
}

static long call_write(struct process *self, const uint64_t *argument)
{
	size_t bytes = argument[2] < MOST_WRITTEN ? argument[2] : MOST_WRITTEN, start = 0;
	char text[MOST_WRITTEN];

	if (argument[0] == LINE_FD)
		return call_write_line(self, argument);
	if (argument[0] != 1 && argument[0] != 2)
		return -EBADF;
	if (copy_from_user(text, argument[1], bytes))
		return -EFAULT;
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] != '\n' && i + 1 < bytes)
			continue;
		print_line(self, text + start, i - start + (text[i] != '\n'));
		start = i + 1;
	}
	return (long)bytes;
}

/* All mappings stand in a window no larger than what a space may hold: a search is short. */
#define WINDOW_START 0x0000100000000000ul
#define WINDOW_END   (WINDOW_START + SPACE_MOST_PAGES * PAGE_SIZE)

static size_t pages_of(uint64_t bytes)
{
	return bytes / PAGE_SIZE + (bytes % PAGE_SIZE != 0);
}

static long call_mmap(struct process *self, const uint64_t *argument)
{
	size_t pages = pages_of(argument[1]);
	uint64_t rights = argument[2], at;
	int error;

	if (argument[0] || !pages || argument[3] != (MAP_PRIVATE | MAP_ANONYMOUS))
		return -EINVAL;
	if (rights != PROT_READ && rights != (PROT_READ | PROT_WRITE) &&
	    rights != (PROT_READ | PROT_EXEC))
		return -EINVAL;
	at = space_find_gap(&self->space, WINDOW_START, WINDOW_END, pages);
	if (!at)
		return -ENOMEM;
	error = space_map(&self->space, at, pages,
			  (rights & PROT_WRITE ? VM_WRITE : 0u) |
				  (rights & PROT_EXEC ? VM_EXECUTE : 0u));
	return error ? error : (long)at;
}

static long call_munmap(struct process *self, const uint64_t *argument)
{
	uint64_t at = argument[0];
	size_t pages = pages_of(argument[1]);

	if (at % PAGE_SIZE || !pages || at < WINDOW_START || at >= WINDOW_END ||
	    pages > (WINDOW_END - at) / PAGE_SIZE)
		return -EINVAL;
	space_unmap(&self->space, at, pages);
	return 0;
}

static long call_getrlimit(struct process *self, const uint64_t *argument)
{
	struct rlimit limit = {self->account.limit, self->account_most};

	if (argument[0] != RLIMIT_MEMLOCK)
		return -EINVAL;
	return copy_to_user(argument[1], &limit, sizeof(limit));
}

/* Only a process that may see kernel addresses can raise `most`. What is charged stays charged. */
static long call_setrlimit(struct process *self, const uint64_t *argument)
{
	struct rlimit limit;

	if (argument[0] != RLIMIT_MEMLOCK)
		return -EINVAL;
	if (copy_from_user(&limit, argument[1], sizeof(limit)))
		return -EFAULT;
	if (limit.current > limit.most)
		return -EINVAL;
	if (limit.most > self->account_most && !self->privileged)
		return -EPERM;
	self->account.limit = limit.current;
	self->account_most = limit.most;
	return 0;
}

static long call_getpid(struct process *self, const uint64_t *argument)
{
	(void)argument;
	return self->pid;
}

static long call_getppid(struct process *self, const uint64_t *argument)
{
	SPIN_GUARD(&processes_lock);

	(void)argument;
	return self->parent ? self->parent->pid : 0;
}

static long call_fork(struct process *self, const uint64_t *argument)
{
	(void)argument;
	return process_fork(self);
}

static long call_spawn(struct process *self, const uint64_t *argument)
{
	char name[sizeof(self->name)];
	int error = strncpy_from_user(name, argument[0], sizeof(name));
	struct process *child;
	long pid;

	if (!error)
		error = process_start(name, argument[1], self, self->privileged, self->task->entry,
				      &child);
	if (error)
		return error;
	pid = child->pid;
	process_put(child);
	return pid;
}

static long call_exit(struct process *self, const uint64_t *argument)
{
	process_end(self, WAIT_EXITED((int)argument[0]));
}

static long call_wait4(struct process *self, const uint64_t *argument)
{
	int32_t pid = (int32_t)argument[0];

	if (argument[2] & ~(uint64_t)(WNOHANG | WUNTRACED | WNOWAIT) || argument[3] || pid == 0 ||
	    pid < -1)
		return -EINVAL;
	return process_wait(self, pid, argument[1], argument[2]);
}

static long call_kill(struct process *self, const uint64_t *argument)
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

static long call_sched_yield(struct process *self, const uint64_t *argument)
{
	(void)self, (void)argument;
	task_yield();
	return 0;
}

/* Clears the bytes that the caller's set lacks, and ignores those that it has too many. */
static int copy_set(struct cpu_set *cpus, uint64_t bytes, uint64_t from)
{
	*cpus = (struct cpu_set){{0}};
	if (bytes < sizeof(uint64_t))
		return -EINVAL;
	return copy_from_user(cpus, from, bytes < sizeof(*cpus) ? bytes : sizeof(*cpus));
}

static bool has_cpu_that_runs(const struct cpu_set *cpus)
{
	bool has = false;

	for (unsigned i = 0; i < cpu_count(); i++)
		has |= cpu_set_has(cpus, i);
	return has;
}

static long call_sched_setaffinity(struct process *self, const uint64_t *argument)
{
	struct process *process;
	struct cpu_set cpus;
	int error = copy_set(&cpus, argument[1], argument[2]);

	if (error)
		return error;
	if (!has_cpu_that_runs(&cpus))
		return -EINVAL;
	process = process_find(argument[0] ? (unsigned)argument[0] : self->pid);
	if (!process)
		return -ESRCH;
	task_set_affinity(process->task, cpus);
	process_put(process);
	return 0;
}

static long call_getcpu(struct process *self, const uint64_t *argument)
{
	uint32_t cpu = this_cpu()->index;

	(void)self;
	if (argument[1])
		return -EINVAL;
	return argument[0] ? copy_to_user(argument[0], &cpu, sizeof(cpu)) : 0;
}

#define MICROSECONDS 1000000
#define MOST_SECONDS (1l << 40) /* sleeping longer makes no difference, and does not overflow */

static long call_nanosleep(struct process *self, const uint64_t *argument)
{
	struct timespec time;
	uint64_t microseconds, end, flags;
	bool interrupted = false;

	if (copy_from_user(&time, argument[0], sizeof(time)))
		return -EFAULT;
	if (argument[1] || time.seconds < 0 || time.nanoseconds < 0 ||
	    time.nanoseconds >= 1000 * MICROSECONDS)
		return -EINVAL;
	if (time.seconds > MOST_SECONDS)
		time.seconds = MOST_SECONDS;
	microseconds =
		(uint64_t)time.seconds * MICROSECONDS + (uint64_t)(time.nanoseconds + 999) / 1000;
	end = clock_us() + microseconds;
	flags = spin_lock(&processes_lock);
	timer_start(&self->task->sleep, microseconds);
	while (clock_us() < end && !interrupted)
		interrupted = process_sleep(self, flags);
	spin_unlock(&processes_lock, flags);
	timer_stop(&self->task->sleep);
	return interrupted ? -EINTR : 0;
}

static long call_clock_gettime(struct process *self, const uint64_t *argument)
{
	uint64_t now = clock_us();
	struct timespec time = {(int64_t)(now / MICROSECONDS),
				(int64_t)(now % MICROSECONDS * 1000)};

	(void)self;
	if (argument[0] != CLOCK_MONOTONIC)
		return -EINVAL;
	return copy_to_user(argument[1], &time, sizeof(time));
}

/* NULL: whatever provides the call registers it. */
static struct {
	uint64_t number;
	system_call *call;
} calls[] = {
	{SYS_read, call_read},
	{SYS_write, call_write},
	{SYS_open, call_open},
	{SYS_close, call_close},
	{SYS_poll, call_poll},
	{SYS_mmap, call_mmap},
	{SYS_munmap, call_munmap},
	{SYS_rt_sigaction, call_rt_sigaction},
	{SYS_rt_sigprocmask, call_rt_sigprocmask},
	{SYS_rt_sigreturn, call_rt_sigreturn},
	{SYS_sched_yield, call_sched_yield},
	{SYS_nanosleep, call_nanosleep},
	{SYS_getpid, call_getpid},
	{SYS_fork, call_fork},
	{SYS_exit, call_exit},
	{SYS_wait4, call_wait4},
	{SYS_kill, call_kill},
	{SYS_getrlimit, call_getrlimit},
	{SYS_ptrace, NULL},
	{SYS_getppid, call_getppid},
	{SYS_setrlimit, call_setrlimit},
	{SYS_sched_setaffinity, call_sched_setaffinity},
	{SYS_clock_gettime, call_clock_gettime},
	{SYS_getcpu, call_getcpu},
	{SYS_spawn, call_spawn},
	{SYS_insntrace, NULL},
};

static unsigned find_call(uint64_t number)
{
	unsigned i = 0;

	while (i < sizeof(calls) / sizeof(calls[0]) && calls[i].number != number)
		i++;
	return i;
}

void syscall_register(uint64_t number, system_call *call)
{
	calls[find_call(number)].call = call;
}

static long perform(struct process *self, uint64_t number, const uint64_t *argument)
{
	unsigned at = find_call(number);

	return at < sizeof(calls) / sizeof(calls[0]) && calls[at].call
		       ? calls[at].call(self, argument)
		       : -ENOSYS;
}

long syscall_do(struct process *self)
{
	const struct trap_frame *frame = &self->frame;
	const uint64_t argument[] = {frame->rdi, frame->rsi, frame->rdx,
				     frame->r10, frame->r8,  frame->r9};

	return perform(self, frame->rax, argument);
}

static const struct {
	uint32_t number;
	uint64_t as;
} calls_32[] = {
	{SYS_32_exit, SYS_exit},     {SYS_32_write, SYS_write}, {SYS_32_getpid, SYS_getpid},
	{SYS_32_ptrace, SYS_ptrace}, {SYS_32_kill, SYS_kill},	{SYS_32_wait4, SYS_wait4},
};

long syscall_do_32(struct process *self)
{
	const struct trap_frame *frame = &self->frame;
	const uint64_t argument[] = {(uint32_t)frame->rbx, (uint32_t)frame->rcx,
				     (uint32_t)frame->rdx, (uint32_t)frame->rsi,
				     (uint32_t)frame->rdi, (uint32_t)frame->rbp};

	for (unsigned i = 0; i < sizeof(calls_32) / sizeof(calls_32[0]); i++)
		if (calls_32[i].number == (uint32_t)frame->rax)
			return perform(self, calls_32[i].as, argument);
	return -ENOSYS;
}
