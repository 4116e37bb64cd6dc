// SPDX-License-Identifier: MIT
#include "abi/ptrace.h"
#include "drivers/ds/ds.h"
#include "kernel/ptrace/ptrace.h"
#include "lib/string.h"
#include "tests/lib/programs.h"

/* Nothing; the structure's size then; other small numbers; -1; an address; an array's size. */
TEST(ptrace_2007, .group = "I", .ids = "I1 I2", .needs = NEED_BTS,
     .claim =
	     "a program written from the patch of 2007 works or is refused at each call, whatever it "
	     "passes where that ignores it, and no call is taken for another",
     .source = "docs/ptrace-bts.2, Differences from the patches of 2007")
{
	static const uint64_t ignored[] = {
		0, 16, 1, 15, 17, 23, 25, 32, 100, UINT32_MAX, UINT64_MAX, 0x7fffffffd000, 24000};

	for (unsigned i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		program_expect("ptrace_2007", ignored[i], false);
}

TEST(ptrace_refusals, .group = "I", .ids = "I1 I2",
     .claim = "every request that the table of errors refuses is refused by its error and changes "
	      "nothing",
     .source = "docs/ptrace-bts.2, ERRORS")
{
	uint64_t before = programs_begin();
	struct process *privileged;

	REQUIRE_EQ(process_spawn_privileged("spin", 0, &privileged), 0);
	EXPECT_EQ(program_run("ptrace_refusals", (uint64_t)privileged->pid << 8 | ds_present()),
		  WAIT_EXITED(0));
	process_signal(privileged, SIGKILL);
	program_end(privileged);
	programs_end(before);
}

TEST(ptrace_stops, .group = "I", .ids = "",
     .claim = "programs attach to others, stop, inspect, change, step and let go of them; several "
	      "tracers each have to let one go; the end of a tracer does",
     .source = "docs/ptrace-bts.2")
{
	program_expect("ptrace_stops", 0, false);
}

TEST(ptrace_events, .group = "I", .ids = "",
     .claim = "a debugger learns the cause of a stop, reads and writes single registers, and is "
	      "stopped for children and for the end of its tracee where it asked for that",
     .source = "docs/ptrace-bts.2, PTRACE_SETOPTIONS")
{
	program_expect("ptrace_events", 0, false);
}

#define EVENT(event, signal) ((event) << 16 | WAIT_STOPPED(signal))

/* Two tracers of the kernel's: one is told of the threshold, the other does not hear of it. */
TEST(ptrace_from_kernel, .group = "I", .ids = "I7 I11", .needs = NEED_BTS,
     .claim = "tasks of the kernel trace a process by the same interface",
     .source = "kernel/ptrace/ptrace.h")
{
	const struct ptrace_bts_config config = {
		.size = 2400, .flags = PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL, .signal = SIGPROF};
	uint64_t before = programs_begin();
	struct process *process = program_start("spin", 0);
	struct ptrace_bts_config status;
	struct attachment *one, *other;
	struct trap_frame frame;

	REQUIRE_EQ(ptrace_attach(NULL, process, true, &one), 0);
	EXPECT_EQ(ptrace_attach(NULL, process, true, &other), -EPERM);
	REQUIRE_EQ(ptrace_attach(NULL, process, false, &other), 0);
	EXPECT_EQ(process_await(process, true), WAIT_STOPPED(SIGSTOP));
	EXPECT_EQ(ptrace_bts_config(one, &config), 0);
	EXPECT_EQ(ptrace_continue(other, 0, false), -ESRCH);
	for (unsigned i = 0; i < 3; i++) {
		EXPECT_EQ(ptrace_continue(one, 0, false), 0);
		EXPECT_EQ(process_await(process, true), EVENT(PTRACE_EVENT_BTS, SIGPROF));
		EXPECT_EQ(ptrace_get_frame(other, &frame), -ESRCH);
	}
	ptrace_bts_status(one, &status);
	EXPECT_EQ(status.size, 2400);
	EXPECT_EQ(status.signal, SIGPROF);
	EXPECT_EQ(ptrace_interrupt(other), 0);
	ptrace_detach(one, 0);
	EXPECT_EQ(process_await(process, true), EVENT(PTRACE_EVENT_STOP, SIGTRAP));
	ptrace_detach(other, SIGTERM);
	EXPECT_EQ(program_end(process), WAIT_KILLED(SIGTERM));
	programs_end(before);
}

TEST(ptrace_two_tracers, .group = "I", .ids = "I11 I9", .needs = NEED_BTS,
     .claim =
	     "two processes trace a third, each in its own way, and see the same branches; what one "
	     "holds the other sees",
     .source = "tests/user/two_tracers.c")
{
	uint64_t before = programs_begin();
	const char *reader, *keeper;

	EXPECT_EQ(program_output_of("two_tracers", 30, false), WAIT_EXITED(0));
	reader = program_output("the newest of the reader: *", NULL);
	keeper = program_output("the newest of the keeper: *", NULL);
	REQUIRE(reader && keeper);
	EXPECT(!strcmp(reader + strlen("the newest of the reader: "),
		       keeper + strlen("the newest of the keeper: ")));
	EXPECT_EQ(program_output_of("two_tracers", 0, true), WAIT_EXITED(0));
	programs_end(before);
}
