// SPDX-License-Identifier: MIT
// Small programs for the tests of processes, time and limits.
#include "tests/user/lib/user.h"

MAIN(hello)
{
	say("hello from ring 3\n");
	return (int)argument;
}

// Maps as many pages as the argument says, and stops.

MAIN(holds_pages)
{
	CHECK(map(argument * 4096, PROT_READ | PROT_WRITE) > 0);
	kill(getpid(), SIGSTOP);
	return 0;
}

// Counts in memory for ever: argument 0 alone, else with so many children that do the same.

static volatile uint64_t counter;

/*
 * Stops, and then takes a branch in each round, numbered in R15, with no other before it. Ends by
 * SIGILL after as many as the argument says.
 */
MAIN(counts)
{
	register uint64_t rounds __asm__("r14") = argument;

	__asm__ volatile("movl %[kill], %%eax\n\tmovl %[pid], %%edi\n\tmovl %[stop], %%esi\n\t"
			 "xorl %%r15d, %%r15d\n\tsyscall\n"
			 "1:\tincq %%r15\n\tcmpq %%r14, %%r15\n\tjne 1b\n\tud2"
			 :
			 : [kill] "i"(SYS_kill), [pid] "r"((uint32_t)getpid()), [stop] "i"(SIGSTOP),
			   "r"(rounds)
			 : "rax", "rcx", "rdi", "rsi", "r11", "r15", "memory");
	return 0;
}

MAIN(spin)
{
	while (argument--)
		if (fork() == 0)
			break;
	for (;;)
		counter++;
}

// Sleeps long enough, moves to each CPU. argument: how many CPUs there are.

static void sleeps(void)
{
	struct timespec wrong = {0, 1000000000};

	for (int64_t length = 1; length < 20000; length *= 3) {
		int64_t start = now_us();

		CHECK(sleep_us(length) == 0);
		CHECK(now_us() - start >= length);
	}
	CHECK(sleep_us(-1) == -EINVAL);
	CHECK(system_call(SYS_nanosleep, (uint64_t)&wrong, 0, 0, 0) == -EINVAL);
	CHECK(system_call(SYS_clock_gettime, 77, (uint64_t)&wrong, 0, 0) == -EINVAL);
}

static void moves(uint64_t cpus)
{
	for (unsigned round = 0; round < 10; round++)
		for (uint64_t cpu = 0; cpu < cpus; cpu++) {
			CHECK(run_on(0, cpu) == 0);
			CHECK(cpu_now() == cpu);
		}
	CHECK(set_affinity(0, 0) == -EINVAL);
	CHECK(run_on(0, cpus) == -EINVAL);
	CHECK(set_affinity(123456789, 1) == -ESRCH);
	CHECK(set_affinity(0, UINT64_MAX) == 0);
}

/* A quadword or more; all that the kernel takes of it has to be there. */
static void set_sizes(void)
{
	static const uint64_t first[2048] = {1};
	uint64_t first_of_64 = (uint64_t)first;

	CHECK(system_call(SYS_sched_setaffinity, 0, 7, first_of_64, 0) == -EINVAL);
	for (uint64_t bytes = 8; bytes <= sizeof(first); bytes *= 2) {
		CHECK(system_call(SYS_sched_setaffinity, 0, bytes, first_of_64, 0) == 0);
		CHECK(cpu_now() == 0);
	}
	CHECK(system_call(SYS_sched_setaffinity, 0, sizeof(first) - 8, first_of_64 + 8, 0) ==
	      -EINVAL);
	CHECK(set_affinity(0, UINT64_MAX) == 0);
}

MAIN(times)
{
	sleeps();
	moves(argument);
	set_sizes();
	CHECK(system_call(499, 0, 0, 0, 0) == -ENOSYS);
	CHECK(system_call(-1, 0, 0, 0, 0) == -ENOSYS);
	CHECK(system_call(SYS_write, 3, 0, 0, 0) == -EBADF);
	return 0;
}

// Children by fork(): their own copy of memory and registers, their exit codes, once each.

#define CHILDREN 8

static volatile uint64_t shared = 1; /* not really: each has its copy */

static _Noreturn void child(long parent, unsigned number)
{
	CHECK(shared == 1);
	shared = 1000 + number;
	yield();
	CHECK(shared == 1000 + number);
	CHECK(getppid() == parent);
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	exit((int)(10 + number));
}

static void wait_for_one(long pid, unsigned number)
{
	int status = -1;

	CHECK(wait4(pid, &status, 0) == pid);
	CHECK(status == WAIT_EXITED((int)(10 + number)));
	CHECK(wait4(pid, &status, 0) == -ECHILD);
}

MAIN(fork_wait)
{
	long self = getpid(), pids[CHILDREN], gone;
	int status;

	CHECK(wait4(-1, NULL, WNOHANG) == -ECHILD);
	for (unsigned i = 0; i < CHILDREN; i++) {
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (!pids[i])
			child(self, i);
	}
	CHECK(shared == 1 && getpid() == self);
	CHECK(wait4(self, NULL, WNOHANG) == -ECHILD);
	wait_for_one(pids[3], 3);
	wait_for_one(pids[0], 0);
	for (unsigned i = 2; i < CHILDREN; i++) {
		gone = wait4(-1, &status, 0);
		CHECK(gone > 0 && gone != pids[0] && gone != pids[3]);
		for (unsigned n = 0; n < CHILDREN; n++)
			CHECK(pids[n] != gone || status == WAIT_EXITED((int)(10 + n)));
	}
	CHECK(wait4(-1, &status, 0) == -ECHILD);
	CHECK(spawn("a name that no program has", 0) == -EINVAL && spawn("nothing", 0) == -ENOENT);
	gone = spawn("hello", 5);
	CHECK(gone > 0 && wait4(gone, &status, 0) == gone && status == WAIT_EXITED(5));
	return 0;
}

// Leaves children in every state: ended and never waited for, running, asleep, stopped.

MAIN(orphans)
{
	for (uint64_t i = 0; i < argument; i++) {
		long pid = fork();

		CHECK(pid >= 0);
		if (pid) {
			if (i % 4 == 3)
				kill(pid, SIGSTOP);
			continue;
		}
		switch (i % 4) {
		case 0:
			exit(0);
		case 1:
			for (unsigned n = 0; n < 100; n++)
				yield();
			CHECK(getppid() >= 0);
			exit(0);
		case 2:
			sleep_us(3000);
			exit(0);
		default:
			for (;;)
				sleep_us(1000000);
		}
	}
	sleep_us(1000);
	return 0;
}

// A parent stops its child, lets it go on, kills it; what wait4() says of each.

static void run_for_ever(void)
{
	for (;;)
		;
}

static void sleep_for_ever(void)
{
	for (;;)
		sleep_us(1000000000);
}

static void play_with(void (*what)(void))
{
	long pid = fork();
	int status = 0;

	if (!pid)
		what();
	CHECK(pid > 0);
	sleep_us(2000);
	CHECK(wait4(pid, &status, WNOHANG | WUNTRACED) == 0);
	CHECK(kill(pid, 0) == 0 && kill(pid, SIGCHLD) == 0 && kill(pid, SIGWINCH) == 0);
	for (unsigned i = 0; i < 20; i++) {
		CHECK(kill(pid, i & 1 ? SIGSTOP : SIGTSTP) == 0);
		CHECK(wait4(pid, &status, WUNTRACED) == pid);
		CHECK(status == WAIT_STOPPED(i & 1 ? SIGSTOP : SIGTSTP));
		CHECK(wait4(pid, &status, WUNTRACED | WNOHANG) == 0);
		CHECK(kill(pid, SIGCONT) == 0);
	}
	CHECK(kill(pid, SIGSTOP) == 0);
	CHECK(kill(pid, SIGKILL) == 0);
	CHECK(wait4(pid, &status, 0) == pid && status == WAIT_KILLED(SIGKILL));
	CHECK(kill(pid, 0) == -ESRCH);
}

MAIN(stop_continue)
{
	play_with(run_for_ever);
	play_with(sleep_for_ever);
	return 0;
}

// getrlimit() and setrlimit(): what is refused, and that children begin with a parent's limits.
// argument: whether the program may see kernel addresses, and so raise a limit.
#include "tests/user/lib/user.h"

static bool is(uint64_t current, uint64_t most)
{
	struct rlimit now = {0, 0};

	return getrlimit(RLIMIT_MEMLOCK, &now) == 0 && now.current == current && now.most == most;
}

static long set(uint64_t current, uint64_t most)
{
	struct rlimit limit = {current, most};

	return setrlimit(RLIMIT_MEMLOCK, &limit);
}

MAIN(resource_limits)
{
	struct rlimit first, limit;
	int status;
	long pid;

	CHECK(getrlimit(RLIMIT_MEMLOCK, &first) == 0);
	CHECK(first.current >= 65536 && first.current <= first.most);
	CHECK(getrlimit(RLIMIT_MEMLOCK + 1, &limit) == -EINVAL);
	CHECK(setrlimit(RLIMIT_MEMLOCK + 1, &first) == -EINVAL);
	CHECK(getrlimit(RLIMIT_MEMLOCK, (struct rlimit *)0x1000) == -EFAULT);
	CHECK(setrlimit(RLIMIT_MEMLOCK, (struct rlimit *)0x1000) == -EFAULT);
	CHECK(set(first.most + 1, first.most) == -EINVAL && is(first.current, first.most));
	CHECK(set(10000, first.most) == 0 && is(10000, first.most));
	CHECK(set(first.current, first.most) == 0 && is(first.current, first.most));
	CHECK(set(5000, 20000) == 0 && is(5000, 20000));
	pid = fork();
	if (!pid)
		exit(!is(5000, 20000) || set(20000, 20000) || !is(20000, 20000));
	CHECK(wait4(pid, &status, 0) == pid && status == WAIT_EXITED(0) && is(5000, 20000));
	CHECK(set(5000, 20001) == (argument ? 0 : -EPERM));
	CHECK(is(5000, argument ? 20001 : 20000));
	return 0;
}

// Does a bit of everything without an end, in ever more processes. argument: a seed; its lowest
// bits say how there come to be more: by fork(), by spawn(), or by both.
#include "tests/user/lib/user.h"

enum { FORKS = 1, SPAWNS = 2, WAYS = FORKS | SPAWNS };

static uint64_t state;

static void touch(void)
{
	size_t bytes = 4096 * (1 + random_next(&state) % 16);
	long at = map(bytes, PROT_READ | PROT_WRITE);

	if (at < 0)
		return;
	for (size_t i = 0; i < bytes; i += 4096)
		*(volatile uint64_t *)(at + (long)i) = state;
	if (state & 1)
		unmap(at, bytes);
}

MAIN(storm)
{
	const uint64_t ways = argument & WAYS;
	int status;

	state = argument;
	for (;;) {
		switch (random_next(&state) % 12) {
		case 0:
			if (ways & FORKS && fork() == 0)
				state ^= (uint64_t)getpid() << 32;
			break;
		case 1:
			if (ways & SPAWNS)
				spawn("storm", (random_next(&state) & ~(uint64_t)WAYS) | ways);
			break;
		case 2 ... 3:
			touch();
			break;
		case 4:
			sleep_us((int64_t)(state % 2000));
			break;
		case 5:
			set_affinity(0, state >> 32 | 1);
			break;
		case 6:
			wait4(-1, &status, state & 1 ? WNOHANG : WNOHANG | WUNTRACED);
			break;
		case 7:
			kill((long)(state % 4096), state >> 60 ? SIGCONT : SIGKILL);
			break;
		case 8:
			if (state >> 62 == 0)
				return 0;
			break;
		default:
			yield();
		}
	}
}
