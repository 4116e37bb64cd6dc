// SPDX-License-Identifier: MIT
#include "abi/ptrace.h"
#include "kernel/ptrace/ptrace.h"
#include "tests/lib/programs.h"

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
