// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "kernel/sched/sched.h"
#include "tests/lib/programs.h"

static struct trap_frame frame;

/* Lets it go on, and expects it to stop with SIGTRAP; its registers then are in `frame`. */
static void to_next_trap(struct process *process)
{
	REQUIRE_EQ(process_continue(process, 0), 0);
	REQUIRE_EQ(process_await(process, true), WAIT_STOPPED(SIGTRAP));
	REQUIRE_EQ(process_get_registers(process, &frame), 0);
}

/* The instructions of the program `steps` by their lengths: inc, nop, inc, mov, syscall, inc. */
static void step_through(struct process *process)
{
	static const uint8_t lengths[] = {3, 1, 3, 5, 2, 3};
	uint64_t rip = frame.rip;

	EXPECT_EQ(process_single_step(process, true), 0);
	for (unsigned i = 0; i < sizeof(lengths); i++) {
		to_next_trap(process);
		rip += lengths[i];
		EXPECT_EQ(frame.rip, rip);
		EXPECT_EQ(frame.rflags & 0x100, 0);
	}
	EXPECT_EQ(frame.rax, process->pid);
	EXPECT_EQ(frame.rbx, 13);
	EXPECT_EQ(process_single_step(process, false), 0);
}

static void trace_from_the_start(void)
{
	struct process *process = program_start("steps", 10);
	uint64_t cell = 0, address;

	EXPECT_EQ(process_await(process, true), WAIT_STOPPED(SIGSTOP));
	process_trace(process);
	to_next_trap(process);
	address = frame.rax;
	EXPECT_EQ(frame.rbx, 10);
	EXPECT_EQ(process_peek(process, address, &cell, sizeof(cell)), 0);
	EXPECT_EQ(cell, 5);
	cell = 6;
	EXPECT_EQ(process_poke(process, address, &cell, sizeof(cell)), 0);
	EXPECT_EQ(process_peek(process, 0x1000, &cell, sizeof(cell)), -EIO);
	EXPECT_EQ(process_peek(process, 0xffffffff80101000, &cell, sizeof(cell)), -EIO);
	EXPECT_EQ(process_poke(process, 0x00007ffffffffffc, &cell, sizeof(cell)), -EIO);
	step_through(process);
	to_next_trap(process);
	frame.rbx = 100;
	frame.rflags = UINT64_MAX & ~0x100ul; /* the kernel takes what it must not have */
	frame.cs = 8;
	EXPECT_EQ(process_set_registers(process, &frame), 0);
	EXPECT_EQ(process_continue(process, 0), 0);
	EXPECT_EQ(process_await(process, true), WAIT_EXITED(106));
	EXPECT_EQ(process_continue(process, 0), -ESRCH);
	EXPECT_EQ(process_peek(process, address, &cell, sizeof(cell)), -ESRCH);
	process_put(process);
}

static void trace_one_that_runs(unsigned end_with)
{
	struct process *process = program_start("spin", 0);

	task_sleep(1000);
	process_trace(process);
	EXPECT_EQ(process_get_registers(process, &frame), -ESRCH);
	process_signal(process, SIGSTOP);
	EXPECT_EQ(process_await(process, true), WAIT_STOPPED(SIGSTOP));
	process_signal(process, SIGCONT);
	task_sleep(1000);
	EXPECT_EQ(process->state, PROCESS_STOPPED);
	EXPECT_EQ(process_continue(process, 0), 0);
	EXPECT_EQ(process_await(process, true), WAIT_STOPPED(SIGCONT));
	if (end_with == SIGKILL)
		process_signal(process, SIGKILL);
	else
		EXPECT_EQ(process_continue(process, end_with), 0);
	EXPECT_EQ(process_await(process, true), WAIT_KILLED(end_with));
	process_put(process);
}

TEST(user_traced, .group = "process", .ids = "",
     .claim =
	     "a tracer stops a process, sees and changes registers and memory, steps, lets it go on",
     .source = "kernel/process/process.h")
{
	uint64_t before = programs_begin();

	trace_from_the_start();
	trace_one_that_runs(SIGKILL);
	trace_one_that_runs(SIGTERM);
	programs_end(before);
}
