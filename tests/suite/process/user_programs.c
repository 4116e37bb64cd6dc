// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/process/program.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "tests/framework/pages.h"
#include "tests/lib/programs.h"

TEST(user_hello, .group = "process", .ids = "",
     .claim = "a program runs in ring 3, writes, and its exit code arrives",
     .source = "include/abi/syscall.h")
{
	uint64_t before = programs_begin();

	EXPECT_EQ(program_run("hello", 0), WAIT_EXITED(0));
	EXPECT_EQ(program_run("hello", 77), WAIT_EXITED(77));
	EXPECT_EQ(program_run("hello", 0x1ff), WAIT_EXITED(0xff));
	programs_end(before);
}

/* For people who bring a program: run-qemu.sh --program. */
TEST(user_given, .group = "process", .ids = "", .needs = NEED_SELFTEST | NEED_BTS,
     .claim = "the program that the boot loader gave runs, and exits with 0",
     .source = "kernel/process/program.h")
{
	uint64_t argument, before = programs_begin();
	const struct program *program = program_given(&argument);
	int status;

	if (!program)
		test_error("the boot loader gave no program");
	status = program_run(program->name, argument);
	program_note_end(program->name, status);
	EXPECT_EQ(status, WAIT_EXITED(0));
	programs_end(before);
}

TEST(user_fork_wait, .group = "process", .ids = "",
     .claim = "fork() copies memory and registers; wait4() reports each child once",
     .source = "include/abi/syscall.h")
{
	program_expect("fork_wait", 0, false);
}

TEST(user_memory, .group = "process", .ids = "",
     .claim = "anonymous memory is zeroed, private, gone when given back, bounded",
     .source = "include/abi/syscall.h")
{
	program_expect("memory", 0, false);
}

TEST(user_pages_join, .group = "process", .ids = "",
     .claim = "pages that 40 programs have had one by one are there in runs of 256 as before, and "
	      "half of what is free is at the least",
     .source = "kernel/mm/page.h")
{
	uint64_t before = programs_begin(), tables = vm_table_count();
	uint64_t runs = pages_largest_runs(), after;

	programs_use_pages();
	programs_end(before);
	after = pages_largest_runs();
	test_note("%lu runs, and %lu afterwards", runs, after);
	EXPECT(after + vm_table_count() - tables >= runs);
	EXPECT(after == PAGES_MOST_RUNS || after << PAGE_ORDER_MOST >= page_free_count() / 2);
}

TEST(user_times, .group = "process", .ids = "",
     .claim = "a process sleeps at least as long as it said, and runs on the CPU that it named",
     .source = "include/abi/syscall.h")
{
	program_expect("times", cpu_count(), false);
}

TEST(user_stop_continue, .group = "process", .ids = "",
     .claim =
	     "a process is stopped, goes on and is killed in ring 3 and asleep, and its parent hears of it",
     .source = "include/abi/syscall.h")
{
	program_expect("stop_continue", 0, false);
}

TEST(user_resource_limits, .group = "process", .ids = "",
     .claim = "a process reads, lowers and raises its limit of locked memory as far as it may, and "
	      "its children begin with it",
     .source = "include/abi/syscall.h")
{
	program_expect("resource_limits", 0, false);
	program_expect("resource_limits", 1, true);
}

TEST(user_bad_pointers, .group = "process", .ids = "",
     .claim =
	     "every pointer that is not the program's own is -EFAULT in every call, and changes nothing",
     .source = "include/abi/syscall.h")
{
	program_expect("bad_pointers", 0, false);
}

#define PROCESSES 5

TEST(user_random_calls, .group = "process", .ids = "",
     .claim = "no system call with any number and arguments harms the kernel or stops its caller",
     .source = "include/abi/syscall.h")
{
	uint64_t before = programs_begin(), each = test_scaled(100000) / PROCESSES + 1;
	struct process *processes[PROCESSES];

	for (unsigned i = 0; i < PROCESSES; i++) {
		uint64_t seed = test_random() & UINT32_MAX;

		test_note("%lu calls with seed 0x%lx", each, seed);
		processes[i] = program_start("random_calls", each << 32 | seed);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		EXPECT_EQ(program_end(processes[i]), WAIT_EXITED(42));
	programs_end(before);
}

TEST(user_orphans, .group = "process", .ids = "",
     .claim =
	     "children whose parent ended are forgotten when they end, in whatever state they were",
     .source = "kernel/process/process.h")
{
	uint64_t before = programs_begin();

	for (uint64_t i = 0; i < test_scaled(10); i++)
		EXPECT_EQ(program_run("orphans", i % 13), WAIT_EXITED(0));
	programs_end(before);
}

#define ROOTS  6
#define WAYS   3 /* in which there come to be more: tests/user/processes.c */
#define PIDS   500
#define ENOUGH 10 /* seconds, for a machine under load */

static bool is_root(struct process *const *roots, const struct process *process)
{
	for (unsigned i = 0; i < ROOTS; i++)
		if (roots[i] == process)
			return true;
	return false;
}

/* How many processes there are that the roots have made. Every task has the next pid. */
static uint64_t count_made(struct process *const *roots)
{
	unsigned first = roots[0]->task->pid;
	uint64_t made = 0;

	for (unsigned pid = first; pid < first + PIDS; pid++) {
		struct process *process = process_find(pid);

		if (!process)
			continue;
		made += !is_root(roots, process);
		process_put(process);
	}
	return made;
}

/* Starts the roots, which make more `way`; kills all. How many there were besides. */
static uint64_t storm(uint64_t way)
{
	struct process *roots[ROOTS];
	uint64_t made;

	for (unsigned i = 0; i < ROOTS; i++)
		roots[i] = program_start("storm", (test_random() & ~3ul) | way);
	for (unsigned i = 0; i < ROOTS; i++) {
		task_sleep(test_random() % 4000);
		process_signal(roots[i], i & 1 ? SIGKILL : SIGSTOP);
	}
	made = count_made(roots);
	process_kill_all();
	for (unsigned i = 0; i < ROOTS; i++)
		program_end(roots[i]);
	return made;
}

TEST(user_kill_storm, .group = "process", .ids = "",
     .claim =
	     "processes that fork, map, sleep, move and wait can be killed at any point; nothing is left",
     .source = "kernel/process/process.h")
{
	uint64_t before = programs_begin(), end = time_now() + test_scaled(ENOUGH) * 1000000;
	uint64_t made[WAYS] = {0};

	for (uint64_t round = 0; round < test_scaled(3) && time_now() < end; round++)
		for (unsigned way = 0; way < WAYS; way++)
			made[way] += storm(1 + way);
	for (unsigned way = 0; way < WAYS; way++)
		EXPECT(made[way] > 0);
	test_note("processes made by fork: %lu, by spawn: %lu, by both: %lu", made[0], made[1],
		  made[2]);
	programs_end(before);
}

TEST(user_preempted, .group = "process", .ids = "",
     .claim = "programs that never call the kernel share the CPUs, and can be stopped and killed",
     .source = "kernel/process/process.h")
{
	uint64_t before = programs_begin(), end;
	struct process *spinners[8];

	for (unsigned i = 0; i < 8; i++)
		spinners[i] = program_start("spin", i % 2);
	/* However long that takes: the watchdog's limit is the only one. */
	for (unsigned i = 0; i < 8; i++)
		while (!((volatile struct task *)spinners[i]->task)->switches)
			task_sleep(1000);
	process_signal(spinners[0], SIGSTOP);
	EXPECT_EQ(program_await(spinners[0], true), WAIT_STOPPED(SIGSTOP));
	end = spinners[0]->task->switches;
	task_sleep(20000);
	EXPECT_EQ(spinners[0]->task->switches, end);
	for (unsigned i = 0; i < 8; i++) {
		process_signal(spinners[i], SIGTERM);
		process_signal(spinners[i], SIGCONT);
		EXPECT_EQ(program_end(spinners[i]), WAIT_KILLED(SIGTERM));
	}
	programs_end(before);
}
