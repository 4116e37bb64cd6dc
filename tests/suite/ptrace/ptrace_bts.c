// SPDX-License-Identifier: MIT
#include "kernel/mm/page.h"
#include "tests/lib/programs.h"

TEST(ptrace_bts_sizes, .group = "I", .ids = "I3 I4 I10", .needs = NEED_BTS,
     .claim =
	     "a buffer's size is rounded down and told, its records stay while the size does, size 0 frees it",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 0, false);
}

TEST(ptrace_bts_idioms, .group = "I", .ids = "I3 I4 I10", .needs = NEED_BTS,
     .claim =
	     "what STATUS returns can be given to CONFIG, a size of 0 frees whatever the flags, the "
	     "same request that is cut again keeps the records, SCHED alone records stamps alone",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 8, false);
}

TEST(ptrace_bts_reads, .group = "I", .ids = "I8 I9 I10", .needs = NEED_BTS,
     .claim =
	     "records are read newest first by index, oldest first in one piece or several, wrapped or not",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 2, false);
}

TEST(ptrace_bts_stops, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a buffer that keeps the oldest records stops when full and goes on when there is room",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 3, false);
}

TEST(ptrace_bts_stepped, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a process that is stepped and traced at once has a record for each step that is a "
	      "branch, from where to where, and none for the others",
     .source = "docs/ptrace-bts.2, PTRACE_SINGLESTEP")
{
	program_expect("ptrace_bts", 7, false);
}

TEST(ptrace_bts_outlives, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a trace can be read when its process has ended, until wait4() has reported that or it "
	     "is detached",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 4, false);
}

TEST(ptrace_bts_ends, .group = "I", .ids = "I5", .needs = NEED_BTS,
     .claim =
	     "a process that ended and was waited for gives back its place and its tracer's buffer "
	     "without being detached",
     .source = "docs/ptrace-bts.2, Stops")
{
	program_expect("ptrace_memory", 1, false);
}

TEST(ptrace_bts_limits, .group = "I", .ids = "I5", .needs = NEED_BTS,
     .claim =
	     "over the limit of memory a buffer is refused or cut, as asked; a replaced one does not count",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
{
	program_expect("ptrace_bts", 1, false);
}

TEST(ptrace_bts_slice, .group = "I", .ids = "I5", .needs = NEED_BTS,
     .claim = "the default limit of memory is enough for what a task that branches all the time "
	      "leaves in its time slice",
     .source = "docs/ptrace-bts.2, Limits")
{
	program_expect("ptrace_memory", 0, false);
}

TEST(ptrace_bts_no_memory, .group = "I", .ids = "I6", .needs = NEED_BTS,
     .claim = "where memory is out a request is refused and changes nothing",
     .source = "docs/ptrace-bts.2, ERRORS: ENOMEM")
{
	uint64_t before = programs_begin();
	struct process *process = program_start("ptrace_bts", 6);

	EXPECT_EQ(process_await(process, true), WAIT_STOPPED(SIGSTOP));
	page_keep_back(UINT64_MAX);
	process_signal(process, SIGCONT);
	EXPECT_EQ(process_await(process, true), WAIT_STOPPED(SIGSTOP));
	page_keep_back(0);
	process_signal(process, SIGCONT);
	EXPECT_EQ(program_end(process), WAIT_EXITED(0));
	programs_end(before);
}

TEST(ptrace_bts_cpus, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a process with the right to it traces a CPU as it does a process, but for signals",
     .source = "docs/ptrace-bts.2, Tracing a CPU")
{
	program_expect("ptrace_bts", 5, true);
}

TEST(ptrace_bts_read_elsewhere, .group = "I", .ids = "", .needs = NEED_BTS | NEED_SMP,
     .claim = "reading a CPU's trace from another costs no stamp, and no branch shows as another "
	      "process's",
     .source = "tests/user/cpu_reader.c")
{
	program_expect("cpu_reader", test_scaled(300), true);
}
