// SPDX-License-Identifier: MIT
// A debugger's questions at a stop: why, by which signal from whom, which registers; and children
// and ends that it wants to be stopped for.
#include "tests/user/lib/ptrace.h"

#define OFFSET(name) offsetof(struct ptrace_registers, name)

static struct siginfo info_of(long pid)
{
	struct siginfo info;

	for (size_t i = 0; i < sizeof(info); i++)
		((uint8_t *)&info)[i] = 0xee;
	CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, (uint64_t)&info) == 0);
	CHECK(info.si_errno == 0 && info.unused[95] == 0);
	return info;
}

static uint64_t message_of(long pid)
{
	uint64_t message = UINT64_MAX;

	CHECK(ptrace(PTRACE_GETEVENTMSG, pid, 0, (uint64_t)&message) == 0);
	return message;
}

static uint64_t user_word(long pid, uint64_t offset)
{
	uint64_t word = 0xeeee;

	CHECK(ptrace(PTRACE_PEEKUSR, pid, offset, (uint64_t)&word) == 0);
	return word;
}

/* --- Signals of the processor's, and others' --- */

extern const char divide[], after_divide[], access[], after_access[], undefined[],
	after_undefined[];

static void faults(uint64_t argument)
{
	(void)argument;
	__asm__ volatile(
		"xor %%edx, %%edx\n\t"
		"mov $1, %%eax\n\t"
		"xor %%ecx, %%ecx\n\t"
		".globl divide, after_divide, access, after_access, undefined, after_undefined\n"
		"divide: div %%ecx\n"
		"after_divide: mov $0x123456, %%eax\n"
		"access: mov (%%rax), %%eax\n"
		"after_access: lea main(%%rip), %%rax\n\t"
		"mov %%eax, (%%rax)\n" /* from here on by their length, 2 */
		"undefined: ud2\n"
		"after_undefined: int3\n"
		:
		:
		: "rax", "rcx", "rdx", "memory");
}

static struct siginfo expect_fault(long pid, int signal, int code)
{
	struct siginfo info;

	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(signal));
	info = info_of(pid);
	CHECK(info.si_signo == signal && info.si_code == code);
	return info;
}

static void signals(void)
{
	long pid = traced_child(faults, 0), other;
	struct siginfo info = info_of(pid);

	CHECK(info.si_signo == SIGSTOP && info.si_code == SI_USER && info.si_pid == pid);
	info = expect_fault(pid, SIGFPE, FPE_INTDIV);
	CHECK(info.si_addr == (uint64_t)divide && user_word(pid, OFFSET(rip)) == info.si_addr);
	CHECK(ptrace(PTRACE_POKEUSR, pid, OFFSET(rip), (uint64_t)after_divide) == 0);
	CHECK(expect_fault(pid, SIGSEGV, SEGV_MAPERR).si_addr == 0x123456);
	CHECK(ptrace(PTRACE_POKEUSR, pid, OFFSET(rip), (uint64_t)after_access) == 0);
	CHECK(expect_fault(pid, SIGSEGV, SEGV_ACCERR).si_addr == (uint64_t)main);
	CHECK(ptrace(PTRACE_POKEUSR, pid, OFFSET(rip), (uint64_t)undefined) == 0);
	CHECK(expect_fault(pid, SIGILL, ILL_ILLOPN).si_addr == (uint64_t)undefined);
	CHECK(ptrace(PTRACE_POKEUSR, pid, OFFSET(rip), (uint64_t)after_undefined) == 0);
	expect_fault(pid, SIGTRAP, SI_KERNEL);
	CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
	CHECK(next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	info = info_of(pid);
	CHECK(info.si_code == TRAP_TRACE && info.si_addr == user_word(pid, OFFSET(rip)));
	other = fork();
	if (!other)
		exit(kill(pid, SIGUSR1) != 0);
	CHECK(next_stop(other) == WAIT_EXITED(0));
	CHECK(expect_fault(pid, SIGUSR1, SI_USER).si_pid == other);
	end_child(pid);
}

/* --- Registers one by one --- */

static void user_area(void)
{
	long pid = traced_child(faults, 0);
	struct ptrace_registers registers;

	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
	for (uint64_t at = 0; at < sizeof(registers); at += 8)
		CHECK(user_word(pid, at) == *(uint64_t *)((char *)&registers + at));
	CHECK(ptrace(PTRACE_POKEUSR, pid, OFFSET(r15), 0x1234567890) == 0);
	CHECK(user_word(pid, OFFSET(r15)) == 0x1234567890);
	registers.r15 = 0x1234567890;
	for (uint64_t at = 0; at < sizeof(registers); at += 8)
		CHECK(user_word(pid, at) == *(uint64_t *)((char *)&registers + at));
	for (uint64_t at = PTRACE_USER_DEBUGREG; at < PTRACE_USER_DEBUGREG_END; at += 8)
		CHECK(user_word(pid, at) == 0 && ptrace(PTRACE_POKEUSR, pid, at, 0) == 0);
	end_child(pid);
}

/* --- Children --- */

static void parent(uint64_t argument)
{
	long pid = argument ? spawn("hello", 7) : fork();

	if (!pid)
		exit(7);
	exit(pid < 0);
}

/* gdb tries this with a child before it says that it can follow forks. */
static void forks(bool spawned)
{
	long pid = traced_child(parent, spawned), child;

	CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORKDONE) == 0);
	CHECK(go_on(pid, 0) == 0);
	CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_FORK) | WAIT_STOPPED(SIGTRAP)));
	CHECK(info_of(pid).si_code == SI_EVENT(PTRACE_EVENT_FORK, SIGTRAP));
	child = (long)message_of(pid);
	CHECK(child > 0 && child != pid && (long)user_word(pid, OFFSET(rax)) == child);
	CHECK(next_stop(child) == WAIT_STOPPED(SIGSTOP));
	CHECK(ptrace(PTRACE_SEIZE, child, 0, 0) == -EPERM);
	CHECK(go_on(pid, 0) == 0);
	for (;;) { /* its parent does not wait for it, and may end first */
		int status = next_stop(pid);

		if (status == WAIT_EXITED(0))
			break;
		CHECK(status == WAIT_STOPPED(SIGCHLD) && go_on(pid, 0) == 0);
	}
	CHECK(go_on(child, 0) == 0 && next_stop(child) == WAIT_EXITED(7));
}

/* Without the option, and once more than there can be processes. */
static void does_not_follow(void)
{
	long pid = traced_child(parent, 0);
	int status;

	CHECK(go_on(pid, 0) == 0);
	while ((status = next_stop(pid)) != WAIT_EXITED(0))
		CHECK(status == WAIT_STOPPED(SIGCHLD) && go_on(pid, 0) == 0);
}

/* --- The end --- */

static void leave(uint64_t code)
{
	exit((int)code);
}

static void ends(void)
{
	long pid = traced_child(leave, 33);

	CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT) == 0);
	CHECK(go_on(pid, 0) == 0);
	CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_EXIT) | WAIT_STOPPED(SIGTRAP)));
	CHECK(message_of(pid) == WAIT_EXITED(33) && user_word(pid, OFFSET(rdi)) == 33);
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_EXITED(33));
	pid = traced_child(leave, 0);
	CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT) == 0);
	CHECK(go_on(pid, SIGTERM) == 0);
	CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_EXIT) | WAIT_STOPPED(SIGTRAP)));
	CHECK(message_of(pid) == WAIT_KILLED(SIGTERM));
	/* SIGKILL ends that stop too; what is reported stays. */
	CHECK(ptrace(PTRACE_KILL, pid, 0, 0) == 0 && next_stop(pid) == WAIT_KILLED(SIGTERM));
}

/* A second tracer, which interrupts the process between its exit() and its end. */
static _Noreturn void interrupt_at_end(long pid)
{
	CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
	kill(getpid(), SIGSTOP); /* until it is there */
	CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
	kill(getpid(), SIGSTOP); /* until the first tracer lets it end */
	CHECK(next_stop(pid) == WAIT_EXITED(34));
	exit(0);
}

/* A process that is ending stops for PTRACE_O_TRACEEXIT, and for nothing else. */
static void stops_no_more(void)
{
	long pid = traced_child(leave, 34), other = fork();

	if (!other)
		interrupt_at_end(pid);
	CHECK(wait4(other, NULL, WUNTRACED) == other);
	CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT) == 0);
	CHECK(go_on(pid, 0) == 0);
	CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_EXIT) | WAIT_STOPPED(SIGTRAP)));
	CHECK(kill(other, SIGCONT) == 0 && wait4(other, NULL, WUNTRACED) == other);
	CHECK(kill(other, SIGCONT) == 0 && go_on(pid, 0) == 0);
	CHECK(next_stop(pid) == WAIT_EXITED(34) && next_stop(other) == WAIT_EXITED(0));
}

MAIN(ptrace_events)
{
	signals();
	user_area();
	forks(false);
	forks(true);
	does_not_follow();
	ends();
	stops_no_more();
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}

// For a tracer: stops, traps with the address of a cell in RAX, runs straight code, ends with the
// cell's value.
#include "tests/user/lib/user.h"

static volatile uint64_t cell = 5;

MAIN(steps)
{
	uint64_t count = argument;

	kill(getpid(), SIGSTOP); /* until the tracer is there */
	__asm__ volatile("int3\n\t"
			 "inc %0\n\t"
			 "nop\n\t"
			 "inc %0\n\t"
			 "mov $39, %%eax\n\t" /* getpid: a step over a system call */
			 "syscall\n\t"
			 "inc %0\n\t"
			 "int3"
			 : "+b"(count)
			 : "a"(&cell)
			 : "rcx", "r11", "memory");
	return (int)(cell + count);
}

static struct ptrace_freeze_cpu frozen[256];

static long freeze(uint64_t flags)
{
	return ptrace(PTRACE_FREEZE, 0, 0, flags);
}

static long frozen_cpus(void)
{
	return ptrace(PTRACE_FREEZE_STATUS, 0, (uint64_t)frozen, sizeof(frozen));
}

static void refused_freezes(void)
{
	CHECK(ptrace(PTRACE_FREEZE, getpid(), 0, 1) == -EINVAL);
	CHECK(ptrace(PTRACE_FREEZE, 0, 8, 1) == -EINVAL);
	CHECK(freeze(0x10) == -EINVAL && freeze(3) == -EINVAL && freeze(1ul << 32) == -EINVAL);
	CHECK(ptrace(PTRACE_FREEZE_STATUS, 1, (uint64_t)frozen, sizeof(frozen)) == -EINVAL);
	CHECK(ptrace(PTRACE_FREEZE_STATUS, 0, (uint64_t)frozen, 0) == -EIO);
	CHECK(ptrace(PTRACE_FREEZE_STATUS, 0, (uint64_t)frozen, 257) == -EIO);
	CHECK(frozen_cpus() == -ENXIO);
}

/* Ends with everything frozen, or a trigger armed. */
static void child_freezes(uint64_t flags)
{
	long child = fork();

	CHECK(child >= 0);
	if (!child) {
		CHECK(freeze(flags) == 0);
		exit(0);
	}
	CHECK(wait4(child, NULL, 0) == child);
	CHECK(frozen_cpus() == -ENXIO);
}

static void child_is_refused(void)
{
	long child = fork();
	int status;

	CHECK(child >= 0);
	if (!child)
		exit(freeze(0) == -EBUSY && freeze(1) == -EBUSY && frozen_cpus() > 0 ? 0 : 1);
	CHECK(wait4(child, &status, 0) == child && status == 0);
}

/* A child that raises #DB, #BP or #UD. */
enum raised { RAISED_DB, RAISED_BP, RAISED_UD };

static long child_raises(enum raised raised)
{
	long child = fork();

	CHECK(child >= 0);
	if (!child && raised == RAISED_DB)
		__asm__ volatile("subq $128, %rsp\n\tpushfq\n\torl $0x100, (%rsp)\n\tpopfq\n\tnop");
	if (!child && raised == RAISED_BP)
		__asm__ volatile("int3");
	if (!child)
		__asm__ volatile("ud2");
	CHECK(wait4(child, NULL, 0) == child);
	return child;
}

/* The first exception but #DB and #BP: the registers are its own. None after the thaw. */
static void child_faults(long cpus)
{
	long child, found = 0;

	CHECK(freeze(PTRACE_FREEZE_FAULT) == 0);
	child_raises(RAISED_DB);
	child_raises(RAISED_BP);
	CHECK(frozen_cpus() == -ENXIO);
	child = child_raises(RAISED_UD);
	CHECK(frozen_cpus() == cpus);
	for (long i = 0; i < cpus; i++)
		found += frozen[i].cause == PTRACE_FREEZE_FAULT &&
			 frozen[i].pid == (uint64_t)child && frozen[i].registers.ss;
	CHECK(found == 1);
	CHECK(freeze(0) == 0);
	child_raises(RAISED_UD);
	CHECK(frozen_cpus() == -ENXIO);
}

/* argument: the number of CPUs; 0: it has no right. */
MAIN(ptrace_freeze)
{
	if (!argument) {
		CHECK(freeze(1) == -EPERM && freeze(0) == -EPERM && frozen_cpus() == -EPERM);
		return 0;
	}
	refused_freezes();
	CHECK(freeze(PTRACE_FREEZE_NOW) == 0);
	CHECK(freeze(PTRACE_FREEZE_NOW) == -EBUSY && freeze(PTRACE_FREEZE_FAULT) == -EBUSY);
	CHECK(frozen_cpus() == (long)argument);
	CHECK(ptrace(PTRACE_FREEZE_STATUS, 0, (uint64_t)frozen, sizeof(frozen[0])) == 1);
	CHECK(ptrace(PTRACE_FREEZE_STATUS, 0, 8, sizeof(frozen)) == -EFAULT);
	child_is_refused();
	CHECK(freeze(0) == 0 && freeze(0) == 0 && frozen_cpus() == -ENXIO);
	child_freezes(PTRACE_FREEZE_NOW);
	child_freezes(PTRACE_FREEZE_FAULT);
	child_faults((long)argument);
	return 0;
}
