// SPDX-License-Identifier: MIT
#include "kernel/ptrace/ptrace.h"
#include "kernel/sched/sched.h"
#include "tests/lib/programs.h"

static struct trap_frame frame;
static struct process *process;
static struct attachment *at;

/* Lets it go on, and expects it to stop; its registers then are in `frame`. */
static void to_next_stop(bool step, int status)
{
	REQUIRE_EQ(ptrace_continue(at, 0, step), 0);
	REQUIRE_EQ(process_await(process, true), status);
	REQUIRE_EQ(ptrace_get_frame(at, &frame), 0);
}

/* The instructions of the program `steps` by their lengths: inc, nop, inc, mov, syscall, inc. */
static void step_through(void)
{
	static const uint8_t lengths[] = {3, 1, 3, 5, 2, 3};
	uint64_t rip = frame.rip;

	for (unsigned i = 0; i < sizeof(lengths); i++) {
		to_next_stop(true, WAIT_STOPPED(SIGTRAP));
		rip += lengths[i];
		EXPECT_EQ(frame.rip, rip);
		EXPECT_EQ(frame.rflags & 0x100, 0);
	}
	EXPECT_EQ(frame.rax, process->pid);
	EXPECT_EQ(frame.rbx, 13);
}

static void trace_from_the_start(void)
{
	uint64_t cell = 0, address;

	process = program_start("steps", 10);
	EXPECT_EQ(process_await(process, true), WAIT_STOPPED(SIGSTOP));
	REQUIRE_EQ(ptrace_attach(NULL, process, false, &at), 0);
	EXPECT_EQ(ptrace_continue(at, 0, false), -ESRCH);
	process_signal(process, SIGCONT);
	EXPECT_EQ(process_await(process, true), WAIT_STOPPED(SIGCONT));
	to_next_stop(false, WAIT_STOPPED(SIGTRAP));
	address = frame.rax;
	EXPECT_EQ(frame.rbx, 10);
	EXPECT_EQ(ptrace_peek(at, address, &cell, sizeof(cell)), 0);
	EXPECT_EQ(cell, 5);
	cell = 6;
	EXPECT_EQ(ptrace_poke(at, address, &cell, sizeof(cell)), 0);
	EXPECT_EQ(ptrace_peek(at, 0x1000, &cell, sizeof(cell)), -EIO);
	EXPECT_EQ(ptrace_peek(at, 0xffffffff80101000, &cell, sizeof(cell)), -EIO);
	EXPECT_EQ(ptrace_poke(at, 0x00007ffffffffffc, &cell, sizeof(cell)), -EIO);
	step_through();
	to_next_stop(false, WAIT_STOPPED(SIGTRAP));
	frame.rbx = 100;
	frame.rflags = UINT64_MAX & ~0x100ul; /* the kernel takes what it must not have */
	frame.cs = 8;
	EXPECT_EQ(ptrace_set_frame(at, &frame), 0);
	EXPECT_EQ(ptrace_continue(at, 0, false), 0);
	EXPECT_EQ(process_await(process, true), WAIT_EXITED(106));
	EXPECT_EQ(ptrace_continue(at, 0, false), -ESRCH);
	EXPECT_EQ(ptrace_peek(at, address, &cell, sizeof(cell)), -ESRCH);
	EXPECT_EQ(ptrace_interrupt(at), -ESRCH);
	ptrace_detach(at, 0);
	process_put(process);
}

static void trace_one_that_runs(unsigned end_with)
{
	process = program_start("spin", 0);
	task_sleep(1000);
	REQUIRE_EQ(ptrace_attach(NULL, process, false, &at), 0);
	EXPECT_EQ(ptrace_get_frame(at, &frame), -ESRCH);
	process_signal(process, SIGSTOP);
	EXPECT_EQ(process_await(process, true), WAIT_STOPPED(SIGSTOP));
	process_signal(process, SIGCONT);
	task_sleep(1000);
	EXPECT_EQ(process->state, PROCESS_STOPPED);
	to_next_stop(false, WAIT_STOPPED(SIGCONT));
	if (end_with == SIGKILL)
		process_signal(process, SIGKILL);
	else
		EXPECT_EQ(ptrace_continue(at, end_with, false), 0);
	EXPECT_EQ(process_await(process, true), WAIT_KILLED(end_with));
	ptrace_detach(at, 0);
	process_put(process);
}

TEST(user_traced, .group = "process", .ids = "",
     .claim =
	     "a tracer stops a process, sees and changes registers and memory, steps, lets it go on",
     .source = "kernel/ptrace/ptrace.h")
{
	uint64_t before = programs_begin();

	trace_from_the_start();
	trace_one_that_runs(SIGKILL);
	trace_one_that_runs(SIGTERM);
	programs_end(before);
}
