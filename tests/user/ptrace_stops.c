// SPDX-License-Identifier: MIT
// What ptrace() does besides branches: attach, stop, look, change, step, let go.
#include "tests/user/lib/ptrace.h"

static volatile uint64_t cell = 5;

static void spin(uint64_t argument)
{
	(void)argument;
	for (;;)
		cell++;
}

static void sleep_for_ever(uint64_t argument)
{
	(void)argument;
	for (;;)
		sleep_us(1000000000);
}

/* inc, nop, getpid, inc: by their lengths; in RBX what was counted. */
static void steps(uint64_t argument)
{
	__asm__ volatile("int3\n\t"
			 "inc %%rbx\n\t"
			 "nop\n\t"
			 "mov $39, %%eax\n\t"
			 "syscall\n\t"
			 "inc %%rbx\n\t"
			 "1: jmp 1b"
			 :
			 : "b"(argument)
			 : "rax", "rcx", "r11");
}

static void registers_and_steps(void)
{
	static const uint8_t lengths[] = {3, 1, 5, 2, 3};
	struct ptrace_registers registers, now;
	long pid = traced_child(steps, 10);
	uint64_t rip, word = 0;

	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
	rip = registers.rip;
	for (unsigned i = 0; i < sizeof(lengths); i++) {
		CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
		CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
		CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&now) == 0);
		rip += lengths[i];
		CHECK(now.rip == rip && !(now.rflags & 0x100));
	}
	CHECK(now.rbx == 12 && now.rax == (uint64_t)pid && now.orig_rax == UINT64_MAX);
	registers.r15 = 0x1234567890abcdef;
	CHECK(ptrace(PTRACE_SETREGS, pid, 0, (uint64_t)&registers) == 0);
	CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&now) == 0);
	CHECK(now.rip == registers.rip + 3 && now.rbx == 11 && now.r15 == registers.r15);
	/* Its memory is its own; code can be written. */
	CHECK(ptrace(PTRACE_POKEDATA, pid, (uint64_t)&cell, 77) == 0);
	CHECK(ptrace(PTRACE_PEEKDATA, pid, (uint64_t)&cell, (uint64_t)&word) == 0);
	CHECK(word == 77 && cell == 5);
	CHECK(ptrace(PTRACE_POKETEXT, pid, now.rip, 0x0b0f) == 0); /* ud2 */
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGILL));
	CHECK(go_on(pid, SIGTERM) == 0 && next_stop(pid) == WAIT_KILLED(SIGTERM));
}

/* In ring 3 and in a system call, which goes on. */
static void interrupts(void (*body)(uint64_t), bool in_call)
{
	struct ptrace_registers registers;
	long pid = fork();

	if (!pid)
		body(0);
	CHECK(pid > 0 && ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
	sleep_us(1000);
	CHECK(wait4(pid, NULL, WNOHANG) == 0);
	for (unsigned i = 0; i < 20; i++) {
		CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
		CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)));
		CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
		CHECK(wait4(pid, NULL, WNOHANG) == 0);
		CHECK(go_on(pid, 0) == 0);
	}
	if (in_call)
		sleep_us(2000);
	CHECK(kill(pid, SIGUSR1) == 0 && next_stop(pid) == WAIT_STOPPED(SIGUSR1));
	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
	if (in_call)
		CHECK(registers.orig_rax == SYS_nanosleep || registers.orig_rax == UINT64_MAX);
	CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
	CHECK(go_on(pid, 0) == -ESRCH);
	CHECK(kill(pid, SIGTERM) == 0 && next_stop(pid) == WAIT_KILLED(SIGTERM));
}

/* A stop by a signal needs both tracers' consent; each has its own interrupts. */
static void second_tracer(uint64_t pid)
{
	CHECK(ptrace(PTRACE_SEIZE, (long)pid, 0, 0) == 0);
	kill(getpid(), SIGSTOP);
	CHECK(next_stop((long)pid) == WAIT_STOPPED(SIGUSR1));
	CHECK(go_on((long)pid, SIGUSR1) == 0);
	CHECK(next_stop((long)pid) == WAIT_STOPPED(SIGUSR2));
	/* and ends, detached: the signal would act */
}

static void two(void)
{
	long pid = fork(), other;

	if (!pid)
		spin(0);
	CHECK(ptrace(PTRACE_ATTACH, pid, 0, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGSTOP));
	other = fork();
	if (!other) {
		second_tracer((uint64_t)pid);
		exit(0);
	}
	CHECK(go_on(pid, 0) == 0);
	CHECK(wait4(other, NULL, WUNTRACED) == other && kill(other, SIGCONT) == 0);
	CHECK(kill(pid, SIGUSR1) == 0 && next_stop(pid) == WAIT_STOPPED(SIGUSR1));
	CHECK(go_on(pid, 0) == 0); /* averted, though the other lets it act */
	CHECK(go_on(pid, 0) == -ESRCH);
	CHECK(kill(pid, SIGUSR2) == 0 && next_stop(pid) == WAIT_STOPPED(SIGUSR2));
	CHECK(next_stop(other) == WAIT_EXITED(0));
	CHECK(go_on(pid, 0) == 0);
	CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
	CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)));
	end_child(pid);
}

/* What it stopped goes on when a tracer ends, whether it was stopped or not. */
static _Noreturn void attach_and_end(long pid, bool wait)
{
	CHECK(ptrace(PTRACE_ATTACH, pid, 0, 0) == 0);
	if (wait)
		CHECK(next_stop(pid) == WAIT_STOPPED(SIGSTOP));
	exit(0);
}

static void tracer_ends(void)
{
	for (unsigned i = 0; i < 6; i++) {
		long pid = fork(), tracer;

		if (!pid)
			spin(0);
		tracer = fork();
		if (!tracer)
			attach_and_end(pid, i & 1);
		CHECK(next_stop(tracer) == WAIT_EXITED(0));
		CHECK(ptrace(PTRACE_ATTACH, pid, 0, 0) == 0);
		CHECK(next_stop(pid) == WAIT_STOPPED(SIGSTOP));
		CHECK(ptrace(PTRACE_DETACH, pid, 0, SIGTERM) == 0);
		CHECK(next_stop(pid) == WAIT_KILLED(SIGTERM));
	}
}

MAIN(ptrace_stops)
{
	registers_and_steps();
	interrupts(spin, false);
	interrupts(sleep_for_ever, true);
	two();
	tracer_ends();
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}

// A tracer holds a signal that stops its child while SIGCONT is sent: the child is not stopped.

static void leave(uint64_t code)
{
	exit((int)code);
}

MAIN(ptrace_continued)
{
	long pid = traced_child(leave, 35);

	CHECK(kill(pid, SIGCONT) == 0 && go_on(pid, SIGSTOP) == 0);
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGCONT));
	/* A signal that stops it and is sent later does, until SIGCONT is sent again. */
	CHECK(kill(pid, SIGTSTP) == 0 && go_on(pid, 0) == 0);
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTSTP) && go_on(pid, SIGTSTP) == 0);
	CHECK(wait4(pid, NULL, WUNTRACED) == pid && wait4(pid, NULL, WNOHANG) == 0);
	CHECK(kill(pid, SIGCONT) == 0 && next_stop(pid) == WAIT_STOPPED(SIGCONT));
	CHECK(kill(pid, SIGTTIN) == 0 && go_on(pid, SIGCONT) == 0);
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTTIN) && kill(pid, SIGCONT) == 0);
	CHECK(ptrace(PTRACE_DETACH, pid, 0, SIGTTIN) == 0);
	CHECK(next_stop(pid) == WAIT_EXITED(35) && wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}

// For a tracer with the right to kernel addresses: a child that is stopped runs nowhere, so that
// nothing is added to the buffer that its tracer reads.
#define EVERYTHING (PTRACE_BTS_TRACE | PTRACE_BTS_USER | PTRACE_BTS_KERNEL)
#define NAP	   3000 /* microseconds */

static void nap_for_ever(uint64_t argument)
{
	(void)argument;
	for (;;)
		sleep_us(NAP);
}

/* For longer than it would have slept. */
static void expect_no_record(long pid)
{
	for (unsigned i = 0; i < 3; i++) {
		CHECK(ptrace(PTRACE_BTS_SIZE, pid, 0, 0) == 0);
		sleep_us(NAP);
	}
	CHECK(ptrace(PTRACE_BTS_SIZE, pid, 0, 0) == 0);
}

/* Another tracer's stop begins although the child is stopped already. */
static void interrupt_by_another(long pid)
{
	long other = fork();

	if (!other) {
		CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
		CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
		CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)));
		exit(0);
	}
	CHECK(next_stop(other) == WAIT_EXITED(0));
}

MAIN(ptrace_stopped)
{
	long pid = traced_child(nap_for_ever, 0);

	CHECK(trace_branches(pid, 1000, EVERYTHING, 0) > 0);
	CHECK(go_on(pid, 0) == 0);
	sleep_us(NAP / 2);
	CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
	CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)));
	CHECK(ptrace(PTRACE_BTS_SIZE, pid, 0, 0) > 0 && ptrace(PTRACE_BTS_CLEAR, pid, 0, 0) == 0);
	expect_no_record(pid);
	interrupt_by_another(pid);
	CHECK(kill(pid, SIGUSR1) == 0);
	expect_no_record(pid);
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGUSR1));
	CHECK(ptrace(PTRACE_BTS_SIZE, pid, 0, 0) > 0);
	end_child(pid);
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}

// The memory of traces suffices. argument: 0: for a time slice; 1: one tracee after the other.

static struct ptrace_bts_record records[4096];

static bool is_full(long pid)
{
	struct ptrace_bts_config config;

	CHECK(ptrace(PTRACE_BTS_STATUS, pid, (uint64_t)&config, sizeof(config)) > 0);
	return config.flags & PTRACE_BTS_FULL;
}

/* Departures; *branches grows by the branches. */
static unsigned drain_departures(long pid, unsigned *branches)
{
	unsigned departures = 0;
	long count;

	while ((count = ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)records, sizeof(records))) > 0)
		for (long i = 0; i < count; i++) {
			departures += records[i].qualifier == PTRACE_BTS_TASK_DEPARTS;
			*branches += records[i].qualifier == PTRACE_BTS_BRANCH;
		}
	CHECK(count == 0);
	return departures;
}

/* The largest buffer by default is not full when a task that branches all the time has come to the
   ends of some slices; each stop of the tracer's is another departure. On a busy host the task may
   not have run between two stops: there are branches in the end. */
static void slices(void)
{
	const uint32_t flags =
		PTRACE_BTS_TRACE | PTRACE_BTS_SCHED | PTRACE_BTS_STOP | PTRACE_BTS_CUT_SIZE;
	long pid = traced_child(spin, 0), other = fork();
	unsigned departures = 0, branches = 0, stops = 0;

	if (!other)
		spin(0);
	CHECK(set_affinity(pid, 1) == 0 && set_affinity(other, 1) == 0);
	CHECK(trace_branches(pid, UINT32_MAX / RECORD, flags, 0) > 0);
	do {
		CHECK(go_on(pid, 0) == 0 && sleep_us(10000) == 0);
		CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
		CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_STOP) | WAIT_STOPPED(SIGTRAP)));
		CHECK(!is_full(pid));
		departures += drain_departures(pid, &branches);
		stops++;
	} while (departures < stops + 3);
	CHECK(branches > 0);
	end_child(pid);
	CHECK(kill(other, SIGKILL) == 0 && wait4(other, NULL, 0) == other);
}

/* Ends as soon as it goes on. */
static void nothing(uint64_t argument)
{
	(void)argument;
}

/* One tracee after the other, more than there is room for at a time, each with nearly half of the
   memory; nothing is detached. The tracer is the parent, or its child. */
static void one_after_another(bool seized)
{
	struct rlimit limit;

	CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	for (unsigned i = 0; i < 80; i++) {
		uint32_t most = (uint32_t)(limit.current / RECORD / (i < 5 ? 2 : 40));
		long pid = seized ? fork() : traced_child(nothing, 0);

		CHECK(pid >= 0);
		if (!pid)
			spin(0);
		if (seized) {
			CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
			CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
			next_stop(pid);
		}
		CHECK(trace_branches(pid, most, PTRACE_BTS_TRACE, 0) > 0);
		CHECK(go_on(pid, seized ? SIGKILL : 0) == 0);
		CHECK(next_stop(pid) == (seized ? WAIT_KILLED(SIGKILL) : WAIT_EXITED(0)));
	}
}

MAIN(ptrace_memory)
{
	if (argument) {
		one_after_another(false);
		one_after_another(true);
	} else {
		slices();
	}
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}
