// SPDX-License-Identifier: MIT
#include "drivers/debugctl.h"
#include "drivers/ds/ds.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/bts/bts.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/programs.h"

TEST(ptrace_exact_user, .group = "I", .ids = "P5", .needs = NEED_BTS,
     .claim = "over system calls, interrupts, faults and signals a tracer sees exactly the "
	      "branches of ring 3, and no kernel address",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_USER")
BY_PROGRAM("ptrace_exact", test_scaled(20) << 8 | (ds_caps()->filters ? 0 : 2), false)

TEST(ptrace_exact_kernel, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a tracer with the right to kernel addresses sees the kernel's branches and the "
	      "transitions as well, none missing, and the same of ring 3",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_KERNEL")
BY_PROGRAM("ptrace_exact", test_scaled(20) << 8 | 1, true)

TEST(ptrace_stopped, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "neither a signal nor another tracer nor the end of its sleep adds a record to the "
	      "buffer of a stopped tracee, though that has the kernel's branches",
     .source = "docs/ptrace-bts.2, Stops")
BY_PROGRAM("ptrace_stopped", 0, true)

TEST(ptrace_exact_software, .group = "I", .ids = "P4 P5", .needs = NEED_BTS,
     .claim = "with views made in software, as without DS-CPL, a tracer sees exactly the "
	      "branches of ring 3",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SOFTWARE")
{
	bts_filter_in_software(true);
	program_expect("ptrace_exact", test_scaled(10) << 8 | 2, false);
	bts_filter_in_software(false);
}

TEST(ptrace_newest, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "at every kind of stop a buffer of 1 to 5,000 records holds the newest of what a "
	      "long one holds",
     .source = "tests/user/newest.c")
BY_PROGRAM("newest", 0, false)

TEST(ptrace_newest_software, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "with views made in software a buffer of 1 to 5,000 records holds the newest of a "
	      "long one at every kind of stop",
     .source = "tests/user/newest.c")
{
	bts_filter_in_software(true);
	program_expect("newest", 0, false);
	bts_filter_in_software(false);
}

TEST(ptrace_fatal_jump, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "the jump that killed a program is its newest record, wherever it led; no other has "
	      "an address of the kernel",
     .source = "tests/user/fatal_jump.c")
BY_PROGRAM("fatal_jump", 0, false)

TEST(ptrace_fatal_jump_software, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "with views made in software the jump that killed a program is its newest record; "
	      "no other has a kernel address",
     .source = "tests/user/fatal_jump.c")
{
	bts_filter_in_software(true);
	program_expect("fatal_jump", 0, false);
	bts_filter_in_software(false);
}

/* What ptrace_blocks of tests/user/ptrace_exact.c does. */
enum {
	BLOCKS_ALONE,
	BLOCKS_BESIDE_BTS,
	BLOCKS_AND_STEPS,
	BLOCKS_LONG,
	BLOCKS_ORPHANED,
	BLOCKS_TWO
};

static void need_btf(void)
{
	if (!debugctl_has_btf)
		test_skip("IA32_DEBUGCTL.BTF does not hold");
}

TEST(ptrace_blocks, .group = "I", .ids = "I12",
     .claim = "PTRACE_SINGLEBLOCK stops at the target of each taken branch, after a system call, "
	      "and nowhere else",
     .source = "docs/ptrace-bts.2, PTRACE_SINGLEBLOCK; SDM Vol 3, 17.4.3")
{
	need_btf();
	program_expect("ptrace_blocks", BLOCKS_ALONE, false);
}

TEST(ptrace_blocks_traced, .group = "I", .ids = "I12", .needs = NEED_BTS,
     .claim = "a process that is stepped by blocks and traced at once has one record at each stop: "
	      "that of the branch there",
     .source = "docs/ptrace-bts.2, PTRACE_SINGLEBLOCK; SDM Vol 3, 17.4.3")
{
	need_btf();
	program_expect("ptrace_blocks", BLOCKS_BESIDE_BTS, false);
}

TEST(ptrace_blocks_and_steps, .group = "I", .ids = "I12",
     .claim = "PTRACE_SINGLEBLOCK and PTRACE_SINGLESTEP by turns each do what they do alone",
     .source = "docs/ptrace-bts.2, PTRACE_SINGLEBLOCK; SDM Vol 3, 17.4.3")
{
	uint64_t seed = test_random() & UINT32_MAX;

	need_btf();
	test_note("seed 0x%lx", seed);
	program_expect("ptrace_blocks", seed << 8 | BLOCKS_AND_STEPS, false);
}

TEST(ptrace_blocks_long, .group = "I", .ids = "I12",
     .claim = "a block during which other tasks run ends at its branch, and these tasks find BTF "
	      "clear",
     .source = "docs/ptrace-bts.2, PTRACE_SINGLEBLOCK; SDM Vol 3, 17.4.3")
{
	uint64_t before = programs_begin(), looks = 0, set = 0;
	struct process *process;

	need_btf();
	test_go_to(0); /* where the blocks are */
	process = program_start("ptrace_blocks", BLOCKS_LONG);
	while (process->state != PROCESS_ENDED && test_has_time()) {
		looks++;
		set += rdmsr(IA32_DEBUGCTL) & DEBUGCTL_BTF;
		task_yield();
	}
	EXPECT_EQ(program_end(process), WAIT_EXITED(0));
	EXPECT_EQ(set, 0);
	EXPECT(looks > 10);
	programs_end(before);
}

TEST(ptrace_blocks_orphaned, .group = "I", .ids = "I12", .needs = NEED_SMP,
     .claim = "a tracer that ends while its tracee goes through a block leaves no BTF set: TF "
	      "that the tracee sets itself traps after the next instruction",
     .source = "docs/ptrace-bts.2, PTRACE_SINGLEBLOCK; SDM Vol 3, 17.4.3")
{
	need_btf();
	program_expect("ptrace_blocks", BLOCKS_ORPHANED, false);
}

TEST(ptrace_blocks_two_tracers, .group = "I", .ids = "I12",
     .claim = "a process that one tracer steps by blocks and another by instructions stops for "
	      "both after one instruction",
     .source = "docs/ptrace-bts.2, PTRACE_SINGLEBLOCK")
{
	need_btf();
	program_expect("ptrace_blocks", BLOCKS_TWO, false);
}

#define PRIVILEGED (1ul << 48)
#define SESSIONS   (1ul << 49)

#define WAYS 8

static void deliver(void *nmi)
{
	trace_deliver_pmi(nmi != NULL);
}

/* Each way in which the kernel can have the branches: the program cannot tell them apart. */
static void runs(unsigned way, uint64_t flags)
{
	bool nmi = !(way & 1), in_software = way & 2, privileged = way & 4;
	uint64_t count = test_scaled(1);
	uint64_t seed = test_random() & UINT32_MAX;

	test_note("%lu runs from seed 0x%lx%s%s%s", count, seed, nmi ? "" : ", fixed interrupt",
		  in_software ? ", filtered by the kernel" : "",
		  privileged ? ", with the right to kernel addresses" : "");
	smp_call_all(deliver, nmi ? &seed : NULL);
	bts_filter_in_software(in_software);
	program_expect("debugger", seed | count << 32 | flags | (privileged ? PRIVILEGED : 0),
		       privileged);
	bts_filter_in_software(false);
	smp_call_all(deliver, &seed);
}

static void run_each_way(uint64_t flags)
{
	for (unsigned way = 0; way < WAYS; way++) {
		if (way && !test_has_time())
			test_slow("%u of %u ways in %lu seconds", way, WAYS, test_seconds());
		runs(way, flags);
	}
}

TEST(ptrace_debugger_runs, .group = "I", .ids = "P4 P5 I3 I6 I7", .needs = NEED_BTS,
     .claim = "small programs that are stopped in any way have the branches in their buffers, of "
	      "any size and kind, that single-stepping of them shows, by any request that reads "
	      "them, whether one process traces them or two; samples of them are of these branches",
     .source = "docs/ptrace-bts.2, Tracing branches")
{
	run_each_way(0);
}

TEST(trace_sessions, .group = "I", .ids = "P4 P5 I3 I6 I7 PT45", .needs = NEED_BTS,
     .claim = "where buffers have room, small programs and their children have every branch in "
	      "records and packets that single-stepping of them shows, read at any time, on any "
	      "CPU; after all of them nothing is charged or held, and the largest buffer of "
	      "packets that there was before can be had",
     .source = "docs/ptrace-bts.2; docs/insntrace.2")
{
	uint64_t before = programs_begin(), largest = insntrace_largest();
	uint64_t tables = vm_table_count();

	run_each_way(SESSIONS);
	programs_end(before);
	tables = vm_table_count() - tables;
	EXPECT(insntrace_largest() + tables >= largest);
}

#define PROCESSES  4
#define MOST_CALLS 0x3ffffful /* as the program's argument has them */
#define MOST_TIME  0x1fful

TEST(ptrace_random, .group = "I", .ids = "P5",
     .claim = "no request with any arguments, of processes in any state, harms the kernel, stops "
	      "its caller, or reads a kernel address without the right to it",
     .source = "docs/ptrace-bts.2: 1000000 calls with -t ptrace_random -a scale=12500")
{
	uint64_t before = programs_begin(), each = test_scaled(8000) / PROCESSES + 1;
	uint64_t branches = ds_has_bts() ? 1ul << 63 : 0;
	uint64_t time = test_seconds() < MOST_TIME ? test_seconds() : MOST_TIME;
	struct process *processes[PROCESSES];

	each = each < MOST_CALLS ? each : MOST_CALLS;
	for (unsigned i = 0; i < PROCESSES; i++) {
		uint64_t seed = test_random() & UINT32_MAX;

		test_note("%lu calls with seed 0x%lx", each, seed);
		processes[i] =
			program_start("ptrace_random", branches | time << 54 | each << 32 | seed);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		EXPECT_EQ(program_await(processes[i], true), WAIT_STOPPED(SIGSTOP));
	for (unsigned i = 0; i < PROCESSES; i++)
		process_signal(processes[i], SIGCONT);
	for (unsigned i = 0; i < PROCESSES; i++)
		EXPECT_EQ(program_end(processes[i]), WAIT_EXITED(42));
	programs_end(before);
}
