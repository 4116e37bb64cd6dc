// SPDX-License-Identifier: MIT
// Programs of ring 3 that trace by SYS_insntrace.
#include "drivers/ds/ds.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/unit.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/programs.h"

enum part {
	REFUSED,
	LIFE_CYCLE,
	BAD_ARGUMENTS,
	ANOTHER,
	ADDRESS_SPACE,
	LEAVES,
	IS_KILLED,
	TRACES = 11,
	STREAMS,
	MAY_NOT,
	BESIDE_BRANCHES,
	ROOT_OUTLIVES,
	ITEMS,
	NO_ITEMS,
};

static uint64_t argument_of(enum part part)
{
	return (uint64_t)cpu_count() << 8 | part;
}

TEST(pt_user_refused, .group = "PT", .ids = "PT55",
     .claim = "without the right to kernel addresses a program cannot trace CPUs",
     .source = "docs/insntrace.2, Who may trace what")
BY_PROGRAM("insntrace", argument_of(REFUSED), false)

TEST(pt_user_absent, .group = "PT", .ids = "PT55",
     .claim = "where there is no Intel PT a session is refused, and so are calls without one",
     .source = "docs/insntrace.2, ERRORS")
{
	struct insntrace_allocation allocation;

	if (pt_caps()->topa)
		test_skip("Intel Processor Trace is there");
	EXPECT_EQ(insntrace_initialize(NULL, INSNTRACE_CPUS, cpu_count()), -EOPNOTSUPP);
	EXPECT_EQ(insntrace_get_allocation(NULL, &allocation), -EBADFD);
	EXPECT_EQ(insntrace_start(NULL), -EBADFD);
}

TEST(pt_user_life_cycle, .group = "PT", .ids = "PT49 PT55", .needs = NEED_PT,
     .claim = "a program with the right traces every CPU, twice, and reads what each buffer holds",
     .source = "docs/insntrace.2, Life cycle")
{
	program_expect("insntrace", argument_of(LIFE_CYCLE), true);
	program_expect("insntrace", argument_of(ANOTHER), true);
}

TEST(pt_user_bad_arguments, .group = "PT", .ids = "PT53 PT55", .needs = NEED_PT,
     .claim = "a bad request, size, address or pid has its error and changes nothing",
     .source = "docs/insntrace.2, ERRORS")
BY_PROGRAM("insntrace", argument_of(BAD_ARGUMENTS), true)

TEST(pt_user_address_space, .group = "PT", .ids = "PT53 PT55", .needs = NEED_PT,
     .claim = "with CR3Filter a CPU's buffer holds one process's branches",
     .source = "docs/insntrace.2, INSNTRACE_ALLOCATE_BUFFER")
{
	if (!pt_caps()->cr3_filter)
		test_skip("no filter by CR3");
	program_expect("insntrace", argument_of(ADDRESS_SPACE), true);
}

/* Whether `root` is that of one of the next address spaces, of as many as there is memory for. */
static bool next_spaces_have(uint64_t root)
{
	static struct space spaces[4096];
	unsigned count = 0;
	bool found = false;

	while (count < sizeof(spaces) / sizeof(spaces[0]) && !space_create(&spaces[count]))
		found |= spaces[count++].root == root;
	while (count)
		space_destroy(&spaces[--count]);
	return found;
}

/* A process ends beside a session that records by its CR3, or every process's. */
static void outlive(bool by_filter)
{
	uint64_t before = programs_begin(), root, pid;
	struct process *named, *owner;

	named = program_start("holds_pages", 1);
	root = named->space.root;
	pid = by_filter ? named->pid : 0;
	REQUIRE_EQ(process_spawn("insntrace", pid << 32 | argument_of(ROOT_OUTLIVES), true, &owner),
		   0);
	EXPECT_EQ(program_await(owner, true), WAIT_STOPPED(SIGSTOP));
	process_signal(named, SIGKILL);
	EXPECT_EQ(program_end(named), WAIT_KILLED(SIGKILL));
	process_signal(owner, SIGCONT); /* it stops the trace: to allocate is slow beside one */
	EXPECT_EQ(program_await(owner, true), WAIT_STOPPED(SIGSTOP));
	EXPECT(!next_spaces_have(root));
	process_signal(owner, SIGCONT);
	EXPECT_EQ(program_end(owner), WAIT_EXITED(0));
	EXPECT(next_spaces_have(root));
	programs_end(before);
}

TEST(pt_user_filter_outlives, .group = "PT", .ids = "PT53 PT55", .needs = NEED_PT,
     .claim = "no address space gets the page table that a buffer's CR3Filter names, though its "
	      "process has ended, until the buffer is freed",
     .source = "docs/insntrace.2, INSNTRACE_ALLOCATE_BUFFER")
{
	if (!pt_caps()->cr3_filter)
		test_skip("no filter by CR3");
	outlive(true);
}

TEST(pt_user_packets_outlive, .group = "PT", .ids = "PT148", .needs = NEED_PT,
     .claim =
	     "no address space gets a page table that packets of a session with OS may name, though "
	     "its process has ended, until the buffers are freed",
     .source = "docs/insntrace.2, INSNTRACE_GET_ITEMS")
{
	outlive(false);
}

TEST(pt_user_items, .group = "PT", .ids = "PT148", .needs = NEED_PT,
     .claim =
	     "a program that may see kernel addresses gets what a reader of packets has to know of "
	     "the machine and of each process, until that is waited for; no other program does",
     .source = "docs/insntrace.2, INSNTRACE_GET_ITEMS")
{
	program_expect("insntrace", argument_of(ITEMS), true);
	program_expect("insntrace", argument_of(NO_ITEMS), false);
}

/* tools/view/tests/saved.sh decodes what it sends. */
TEST(pt_user_saves, .group = "PT", .ids = "PT148", .needs = NEED_PT,
     .claim = "a program of ring 3 traces every CPU, and saves the packets over the serial line",
     .source = "docs/serial-line.4; docs/trace-stream.5")
{
	programs_require_host();
	program_expect("controller", 0, true);
}

TEST(pt_user_ends, .group = "PT", .ids = "PT51 PT55", .needs = NEED_PT,
     .claim = "a program that ends while it traces leaves no CPU traced, and no memory",
     .source = "docs/insntrace.2, Life cycle")
{
	uint64_t before = programs_begin(), all = cpu_count();
	struct process *process = NULL;

	program_expect("insntrace", argument_of(LEAVES), true);
	EXPECT_EQ(insntrace_traced_cpus(), 0);
	REQUIRE_EQ(process_spawn("insntrace", argument_of(IS_KILLED), true, &process), 0);
	for (unsigned n = 0; n < 1000 && insntrace_traced_cpus() != all; n++)
		task_sleep(1000);
	EXPECT_EQ(insntrace_traced_cpus(), all);
	process_signal(process, SIGKILL);
	EXPECT_EQ(program_end(process), WAIT_KILLED(SIGKILL));
	EXPECT_EQ(insntrace_traced_cpus(), 0);
	programs_end(before);
}

TEST(pt_user_traces_another, .group = "PT", .ids = "PT45 PT55", .needs = NEED_PT,
     .claim =
	     "a program without any right traces another in ring 3, and reads it after or meanwhile",
     .source = "docs/insntrace.2, INSNTRACE_ASSIGN_THREAD")
{
	program_expect("insntrace", argument_of(TRACES), false);
	if (pt_caps()->topa_many)
		program_expect("insntrace", argument_of(STREAMS), false);
}

TEST(pt_user_may_not_trace, .group = "PT", .ids = "PT55", .needs = NEED_PT,
     .claim = "a program without the right to kernel addresses cannot trace one that has it",
     .source = "docs/insntrace.2, Who may trace what")
{
	PROGRAMS(before);
	struct process *privileged = NULL;

	REQUIRE_EQ(process_spawn("spin", 0, true, &privileged), 0);
	EXPECT_EQ(program_run("insntrace", (uint64_t)privileged->pid << 8 | MAY_NOT),
		  WAIT_EXITED(0));
	process_signal(privileged, SIGKILL);
	program_end(privileged);
}

TEST(pt_user_beside_branches, .group = "PT", .ids = "PT54 PT55", .needs = NEED_PT | NEED_BTS,
     .claim = "where BTS and Intel PT exclude each other PTRACE_BTS_CONFIG of a thread that has a "
	      "buffer, and the reverse, get EBUSY, change nothing, and any program learns the pid "
	      "of the holder; elsewhere both are had",
     .source = "docs/insntrace.2, Beside ptrace-bts")
{
	program_expect("insntrace", (uint64_t)ds_caps()->suspended_by_pt << 8 | BESIDE_BRANCHES,
		       false);
}

#define HOSTILE 3
#define FEWEST	30 /* calls of each: in fewer hardly a program gets to trace */
#define ROUNDS	20 /* at most; in most a program gets to trace */

/* Returns how many of the programs had a trace. */
static unsigned call_at_once(uint64_t calls)
{
	struct process *processes[HOSTILE];
	unsigned tracing = 0;

	for (unsigned i = 0; i < HOSTILE; i++) {
		uint64_t seed = test_random() & 0xfffff,
			 argument = calls << 32 | (uint64_t)cpu_count() << 20 | seed;

		test_note("%lu calls with seed 0x%lx", calls, seed);
		if (i)
			processes[i] = program_start("insntrace_hostile", argument);
		else
			REQUIRE_EQ(
				process_spawn("insntrace_hostile", argument, true, &processes[i]),
				0);
	}
	for (unsigned i = 0; i < HOSTILE; i++) {
		int status = program_end(processes[i]);

		EXPECT(status == WAIT_EXITED(42) || status == WAIT_EXITED(0));
		tracing += status == WAIT_EXITED(42);
	}
	return tracing;
}

TEST(pt_user_hostile, .group = "PT", .ids = "PT51 PT55", .needs = NEED_PT,
     .claim = "whatever programs call at once on all CPUs, with whatever arguments, and however "
	      "they end, nothing is traced afterwards, nobody has a session, and no memory is gone",
     .source = "docs/insntrace.2")
{
	uint64_t before = programs_begin(), calls = test_scaled(40);
	unsigned rounds = 0;

	while (!call_at_once(calls > FEWEST ? calls : FEWEST))
		REQUIRE(++rounds < ROUNDS);
	EXPECT_EQ(insntrace_traced_cpus(), 0);
	EXPECT_EQ(trace_holder(TRACE_PT), -ENXIO);
	programs_end(before);
}

TEST(pt_user_random, .group = "PT", .ids = "PT49 PT55", .needs = NEED_PT,
     .claim = "whatever a program calls in whatever state returns what that state says",
     .source = "docs/insntrace.2, Life cycle")
{
	program_expect("insntrace_random",
		       test_scaled(80) << 32 | (uint64_t)cpu_count() << 20 |
			       (uint64_t)pt_caps()->topa_many << 31 | (test_random() & 0xfffff),
		       true);
}
