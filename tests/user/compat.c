// SPDX-License-Identifier: MIT
// 32-bit programs and 64-bit ones side by side: each traces the other. argument: 1: there is BTS.
#include "tests/user/lib/ptrace.h"

#define USER_CODE_32 0x3b
#define LOOP	     8 /* of calls_32 */

static int status_of(long child)
{
	int status = -1;

	CHECK(child > 0 && wait4(child, &status, 0) == child);
	return status;
}

static void end(long pid)
{
	CHECK(kill(pid, SIGKILL) == 0 && status_of(pid) == WAIT_KILLED(SIGKILL));
}

static void call(void)
{
	static const uint8_t ends[] = {0, SIGTERM, SIGILL, SIGSEGV, SIGILL, SIGSEGV, SIGSEGV};

	CHECK(status_of(spawn("calls_32", 0)) == WAIT_EXITED(42));
	for (unsigned i = 1; i < sizeof(ends); i++) {
		int status = status_of(spawn("calls_32", i));

		/* SYSENTER: #GP on Intel's processors, #UD on AMD's in IA-32e mode. */
		CHECK(status == WAIT_KILLED(ends[i]) || (i == 3 && status == WAIT_KILLED(SIGILL)));
	}
}

/*
 * What another process does to DS and ES, on the same CPU, is not 32-bit code's. It is traced: QEMU
 * looks at no segment in 32-bit code, but the monitor does.
 */
static void load_segments(void)
{
	long pid, narrow;

	CHECK(set_affinity(0, 1) == 0);
	pid = fork();
	while (pid == 0) {
		__asm__ volatile("mov %0, %%ds\n\tmov %0, %%es" : : "r"(0));
		yield();
	}
	narrow = spawn("calls_32", 7);
	CHECK(next_stop(narrow) == WAIT_STOPPED(SIGSTOP));
	CHECK(trace_branches(narrow, 100, PTRACE_BTS_TRACE, 0) > 0 && go_on(narrow, 0) == 0);
	CHECK(next_stop(narrow) == WAIT_EXITED(42));
	end(pid);
	CHECK(set_affinity(0, UINT64_MAX) == 0);
}

/* A 32-bit tracer of 32-bit and of 64-bit code. */
static void be_traced(void)
{
	long narrow = spawn("calls_32", LOOP), wide = fork();

	if (wide == 0)
		__asm__ volatile("1: nop\n\tnop\n\tnop\n\tnop\n\tadd $1, %ecx\n\tjmp 1b");
	CHECK(status_of(spawn("tracer_32", (uint64_t)narrow)) == WAIT_EXITED(0));
	CHECK(status_of(spawn("tracer_32", (uint64_t)wide | 1ul << 31)) == WAIT_EXITED(0));
	end(narrow);
	end(wide);
}

/* A 64-bit tracer of 32-bit code, before its first instruction and in its loop. */
static void trace(void)
{
	static struct ptrace_bts_record records[100];
	struct ptrace_registers registers;
	long pid = spawn("calls_32", LOOP), n;

	CHECK(ptrace(PTRACE_ATTACH, pid, 0, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGSTOP));
	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
	CHECK(registers.cs == USER_CODE_32 && registers.rip < 0x500000);
	CHECK(registers.rsp >> 32 == 0);
	registers.rcx |= 0x123456789;
	CHECK(ptrace(PTRACE_SETREGS, pid, 0, (uint64_t)&registers) == 0);
	registers.cs = 0x23;
	CHECK(ptrace(PTRACE_SETREGS, pid, 0, (uint64_t)&registers) == -EIO);
	registers.cs = USER_CODE_32;
	registers.rip = 1ul << 32;
	CHECK(ptrace(PTRACE_SETREGS, pid, 0, (uint64_t)&registers) == -EIO);
	CHECK(trace_branches(pid, 100, PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL, SIGXCPU) > 0);
	CHECK(go_on(pid, 0) == 0);
	CHECK(next_stop(pid) == (EVENT(PTRACE_EVENT_BTS) | WAIT_STOPPED(SIGXCPU)));
	n = ptrace(PTRACE_BTS_DRAIN, pid, (uint64_t)records, sizeof(records));
	CHECK(n >= 50);
	for (long i = 4; i < n; i++) /* past what leads to the loop */
		CHECK(records[i].from == records[4].from && records[i].to == records[4].to);
	CHECK(records[4].from - records[4].to == 7);
	end_child(pid);
}

/* 64-bit code that goes to 32-bit code and back, with a handler that interrupts it there. */
static volatile unsigned handled;

static void on_signal(int signal, struct siginfo *info, struct ucontext *context)
{
	(void)signal, (void)info;
	CHECK(context->uc_mcontext.cs == USER_CODE_32);
	handled++;
}

static void change_mode(void)
{
	const uint32_t kill_itself[7] = {SYS_32_kill, (uint32_t)getpid(), SIGUSR1};

	CHECK(set_handler(SIGUSR1, on_signal, 0, 0) == 0);
	CHECK(call_32(kill_itself) == 0 && handled == 1);
}

int main(uint64_t argument)
{
	call();
	change_mode();
	if (argument) {
		load_segments();
		be_traced();
		trace();
	}
	CHECK(wait4(-1, NULL, 0) == -ECHILD);
	return 0;
}
