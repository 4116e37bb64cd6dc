// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/process/attachment.h"
#include "kernel/process/program.h"
#include "kernel/ptrace/ptrace.h"
#include "kernel/sched/sched.h"
#include "kernel/time.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/pages.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/programs.h"

TEST(user_hello, .group = "process", .ids = "",
     .claim = "a program runs in ring 3, writes, and its exit code arrives",
     .source = "include/abi/syscall.h")
{
	PROGRAMS(before);

	EXPECT_EQ(program_run("hello", 0), WAIT_EXITED(0));
	EXPECT_EQ(program_run("hello", 77), WAIT_EXITED(77));
	EXPECT_EQ(program_run("hello", 0x1ff), WAIT_EXITED(0xff));
}

/* For people who bring a program: run-qemu.sh --program. It is theirs to trace all that there is.
 */
TEST(user_given, .group = "process", .ids = "", .needs = NEED_SELFTEST | NEED_UNIT,
     .claim = "the program that the boot loader gave runs, and exits with 0",
     .source = "kernel/process/program.h")
{
	uint64_t argument, before = programs_begin();
	const struct program *program = program_given(&argument);
	struct process *process;
	int status;

	if (!program)
		test_error("the boot loader gave no program");
	REQUIRE_EQ(process_spawn(program->name, argument, true, &process), 0);
	status = program_end(process);
	program_note_end(program->name, status);
	EXPECT_EQ(status, WAIT_EXITED(0));
	programs_end(before);
}

TEST(user_fork_wait, .group = "process", .ids = "",
     .claim = "fork() copies memory and registers; wait4() reports each child once",
     .source = "include/abi/syscall.h")
BY_PROGRAM("fork_wait", 0, false)

TEST(user_memory, .group = "process", .ids = "",
     .claim = "anonymous memory is zeroed, private, gone when given back, bounded",
     .source = "include/abi/syscall.h")
BY_PROGRAM("memory", 0, false)

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
BY_PROGRAM("times", cpu_count(), false)

TEST(user_stop_continue, .group = "process", .ids = "",
     .claim =
	     "a process is stopped, goes on and is killed in ring 3 and asleep, and its parent hears of it",
     .source = "include/abi/syscall.h")
BY_PROGRAM("stop_continue", 0, false)

TEST(user_resource_limits, .group = "process", .ids = "I5",
     .claim = "a process reads, lowers and raises its limit of locked memory as far as it may, and "
	      "its children begin with it",
     .source = "include/abi/syscall.h")
{
	program_expect("resource_limits", 0, false);
	program_expect("resource_limits", 1, true);
}

TEST(user_bad_pointers, .group = "process", .ids = "",
     .claim =
	     "every pointer that is not the program's own is -EFAULT in every call that uses it, and "
	     "changes nothing",
     .source = "include/abi/syscall.h")
BY_PROGRAM("bad_pointers", 0, false)

TEST(user_signal_frames, .group = "process", .ids = "",
     .claim =
	     "a handler has the registers that it interrupted in its frame, and what is there when "
	     "it returns is taken up",
     .source = "docs/sigaction.2")
BY_PROGRAM("signals", test_random() & UINT32_MAX, false)

TEST(user_signal_masks, .group = "process", .ids = "",
     .claim = "handlers nest and wait as their masks say, and end calls that wait",
     .source = "docs/sigaction.2")
BY_PROGRAM("signals", 1ul << 56, false)

TEST(user_signal_hostile, .group = "process", .ids = "",
     .claim = "a stack without room, or a frame that asks for what ring 3 may not have, ends the "
	      "process by SIGSEGV",
     .source = "docs/sigaction.2, What a process cannot do")
BY_PROGRAM("signals", 2ul << 56, false)

#define PROCESSES 5

TEST(user_random_calls, .group = "process", .ids = "",
     .claim = "no system call with any number and arguments harms the kernel or stops its caller",
     .source = "include/abi/syscall.h")
{
	static volatile uint8_t registers[8] = {[5] = 0x61}; /* ready, and has always a byte */
	uint64_t before = programs_begin(), each = test_scaled(100000) / PROCESSES + 1;
	struct process *processes[PROCESSES];
	struct uart uart = line_uart;

	line_uart = (struct uart){.memory = registers, .size = 1};
	for (unsigned i = 0; i < PROCESSES; i++) {
		uint64_t seed = test_random() & UINT32_MAX;

		test_note("%lu calls with seed 0x%lx", each, seed);
		processes[i] = program_start("random_calls", each << 32 | seed);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		EXPECT_EQ(program_end(processes[i]), WAIT_EXITED(42));
	line_uart = uart;
	programs_end(before);
}

TEST(user_orphans, .group = "process", .ids = "",
     .claim =
	     "children whose parent ended are forgotten when they end, in whatever state they were",
     .source = "kernel/process/process.h")
{
	PROGRAMS(before);

	for (uint64_t i = 0; i < test_scaled(10); i++)
		EXPECT_EQ(program_run("orphans", i % 13), WAIT_EXITED(0));
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
	uint64_t before = programs_begin(), end = clock_us() + test_scaled(ENOUGH) * 1000000;
	uint64_t made[WAYS] = {0};

	for (uint64_t round = 0; round < test_scaled(3) && clock_us() < end; round++)
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

/* By the argument of the program `faults`. */
static const struct {
	unsigned signal, vector;
} faults[] = {
	{SIGSEGV, VECTOR_PF}, {SIGSEGV, VECTOR_PF}, {SIGSEGV, VECTOR_PF}, {SIGSEGV, VECTOR_PF},
	{SIGSEGV, VECTOR_PF}, {SIGSEGV, VECTOR_PF}, {SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP},
	{SIGBUS, VECTOR_SS},  {SIGILL, VECTOR_UD},  {SIGTRAP, VECTOR_BP}, {SIGSEGV, VECTOR_GP},
	{SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP},
	{SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP}, {SIGTRAP, VECTOR_DB}, {SIGSEGV, VECTOR_GP},
	{SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP}, {SIGSEGV, VECTOR_GP},
	{SIGFPE, VECTOR_MF},  {SIGFPE, VECTOR_DE},  {SIGSEGV, VECTOR_PF},
};

/* A push to an address that is not canonical: emulators are seen to raise #GP for the #SS. */
#define STACK_CASE 8

/* XGETBV of a register that is not there: #UD where XSAVE is off, as it is without Intel PT. */
#define XGETBV_CASE 23
#define OSXSAVE	    (1u << 27) /* CPUID.1:ECX */

TEST(user_faults, .group = "process", .ids = "",
     .claim = "what ring 3 may not do ends the program with the signal of the exception",
     .source = "SDM Vol 3, 6.15; kernel/process/signal.c")
{
	PROGRAMS(before);

	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct process *process = program_start("faults", i);

		int status = program_await(process, false);
		bool same = status == WAIT_KILLED((int)faults[i].signal) &&
			    process->fault.vector == faults[i].vector;

		if (i == STACK_CASE && process->fault.vector == VECTOR_GP)
			same = status == WAIT_KILLED(SIGSEGV);
		if (i == XGETBV_CASE && !(cpuid(1, 0).ecx & OSXSAVE))
			same = status == WAIT_KILLED(SIGILL) && process->fault.vector == VECTOR_UD;
		if (!EXPECT(same))
			test_note("case %u: status 0x%x after vector %lu", i, (unsigned)status,
				  process->fault.vector);
		process_put(process);
	}
}

#define PROGRAM_HEADERS 64 /* after the ELF header; each 56 bytes */
#define FLAGS		4  /* offsets in one */
#define ADDRESS		16
#define MEMORY_SIZE	40

static uint8_t *copy;
static size_t size;

static int load(size_t bytes)
{
	struct space space;
	struct trap_frame frame;
	int error;

	REQUIRE_EQ(space_create(&space), 0);
	error = program_load(&space, copy, bytes, &frame);
	space_destroy(&space);
	return error;
}

/* The error of loading with one number of program header `segment` changed. */
static int load_with(unsigned segment, unsigned offset, uint64_t value, size_t bytes)
{
	uint8_t *at = copy + PROGRAM_HEADERS + segment * 56 + offset;
	uint64_t saved;
	int error;

	memcpy(&saved, at, bytes);
	memcpy(at, &value, bytes);
	error = load(size);
	memcpy(at, &saved, bytes);
	return error;
}

static void load_random_damage(void)
{
	size_t at = test_random() % size;
	uint8_t saved = copy[at];

	copy[at] = (uint8_t)test_random();
	load(size);
	copy[at] = saved;
}

TEST(user_bad_elf, .group = "process", .ids = "",
     .claim = "an executable that asks for what no program may have is refused, and leaves nothing",
     .source = "kernel/process/program.h")
{
	const struct program *program = program_find("hello");
	uint64_t before;

	REQUIRE(program != NULL);
	size = program->size;
	copy = test_area(size / PAGE_SIZE + 1);
	before = programs_begin();
	memcpy(copy, program->image, size);
	EXPECT_EQ(load(size), 0);
	EXPECT_EQ(load(63), -ENOEXEC);
	EXPECT_EQ(load_with(0, FLAGS, 7, 4), -ENOEXEC);
	EXPECT_EQ(load_with(1, ADDRESS, 0x400000, 8), -ENOEXEC);
	EXPECT_EQ(load_with(1, ADDRESS, 0, 8), -ENOEXEC);
	EXPECT_EQ(load_with(1, ADDRESS, 0x00007ffffffff000, 8), -ENOEXEC);
	EXPECT_EQ(load_with(1, ADDRESS, 0x0000800000000000, 8), -ENOEXEC);
	EXPECT_EQ(load_with(1, ADDRESS, 0xffffffff80100000, 8), -ENOEXEC);
	EXPECT_EQ(load_with(1, MEMORY_SIZE, 1ul << 40, 8), -ENOMEM);
	for (uint64_t i = 0; i < test_scaled(3000); i++)
		load_random_damage();
	EXPECT_EQ(load(size), 0);
	programs_end(before);
}

static struct trap_frame frame;
static struct process *process;
static struct attachment *at;

/* Lets it go on, and expects it to stop; its registers then are in `frame`. */
static void to_next_stop(bool step, int status)
{
	REQUIRE_EQ(ptrace_continue(at, 0, step), 0);
	REQUIRE_EQ(program_await(process, true), status);
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
	EXPECT_EQ(program_await(process, true), WAIT_STOPPED(SIGSTOP));
	REQUIRE_EQ(ptrace_attach(NULL, process, false, &at), 0);
	EXPECT_EQ(ptrace_continue(at, 0, false), -ESRCH);
	process_signal(process, SIGCONT);
	EXPECT_EQ(program_await(process, true), WAIT_STOPPED(SIGCONT));
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
	EXPECT_EQ(program_await(process, true), WAIT_EXITED(106));
	EXPECT_EQ(ptrace_continue(at, 0, false), -ESRCH);
	EXPECT_EQ(ptrace_peek(at, address, &cell, sizeof(cell)), -ESRCH);
	EXPECT_EQ(ptrace_interrupt(at), -ESRCH);
	attachment_end(at, 0);
	process_put(process);
}

static void trace_one_that_runs(unsigned end_with)
{
	process = program_start("spin", 0);
	task_sleep(1000);
	REQUIRE_EQ(ptrace_attach(NULL, process, false, &at), 0);
	EXPECT_EQ(ptrace_get_frame(at, &frame), -ESRCH);
	process_signal(process, SIGSTOP);
	EXPECT_EQ(program_await(process, true), WAIT_STOPPED(SIGSTOP));
	process_signal(process, SIGCONT);
	task_sleep(1000);
	EXPECT_EQ(process->state, PROCESS_STOPPED);
	to_next_stop(false, WAIT_STOPPED(SIGCONT));
	if (end_with == SIGKILL)
		process_signal(process, SIGKILL);
	else
		EXPECT_EQ(ptrace_continue(at, end_with, false), 0);
	EXPECT_EQ(program_await(process, true), WAIT_KILLED(end_with));
	attachment_end(at, 0);
	process_put(process);
}

TEST(user_traced, .group = "process", .ids = "",
     .claim =
	     "a tracer stops a process, sees and changes registers and memory, steps, lets it go on",
     .source = "kernel/ptrace/ptrace.h")
{
	PROGRAMS(before);

	trace_from_the_start();
	trace_one_that_runs(SIGKILL);
	trace_one_that_runs(SIGTERM);
}

#define AT 0x00005a0000002000ul

#define FLAG_IF	  (1u << 9)
#define FLAG_DF	  (1u << 10)
#define FLAG_IOPL (3u << 12)
#define FLAG_NT	  (1u << 14)
#define FLAG_VM	  (1u << 17)
#define FLAG_AC	  (1u << 18)

static uint64_t flags_now(void)
{
	uint64_t flags;

	__asm__ volatile("pushfq; popq %0" : "=r"(flags));
	return flags;
}

/* Runs `code` in ring 3 with all flags asked for but those in `without`. */
static void attempt(uint8_t *page, const char *code, uint64_t without, uint64_t vector)
{
	struct trap_frame entered = {.rip = AT, .rflags = ~without};

	memcpy(page, code, 2);
	REQUIRE(user_run(&entered));
	EXPECT_EQ(flags_now() & (FLAG_TF | FLAG_IF | FLAG_DF | FLAG_IOPL | FLAG_NT | FLAG_AC),
		  FLAG_IF);
	EXPECT_EQ(entered.vector, vector);
	EXPECT_EQ(entered.rflags & (FLAG_IOPL | FLAG_NT | FLAG_VM), 0);
	EXPECT_EQ(entered.rflags & (FLAG_IF | FLAG_DF | FLAG_AC), FLAG_IF | FLAG_DF | FLAG_AC);
	EXPECT_EQ(entered.rflags & FLAG_TF, ~without & FLAG_TF);
	EXPECT_EQ(entered.cs & 3, 3);
}

TEST(user_flags_stay, .group = "process", .ids = "",
     .claim = "ring 3 gets no flag that is the kernel's, and the kernel runs with none of ring 3's",
     .source = "SDM Vol 3, 6.12.1.2 and 6.14; SDM Vol 2, SYSCALL")
{
	uint8_t *page = test_area(1);

	code_map(AT, page, VM_USER);
	attempt(page, "\x0f\x0b", FLAG_TF, VECTOR_UD);
	attempt(page, "\x90\x0b", 0, VECTOR_DB);
	attempt(page, "\x0f\x05", FLAG_TF, VECTOR_SYSCALL);
	attempt(page, "\xcc\x90", FLAG_TF, VECTOR_BP);
	code_unmap(AT);
}

#define MOST 24

/* On a busy host the timer is late and few of them are preempted: a round takes twice the last. */
#define ENOUGH_SWITCHES 10ul /* of each process, beside those of its start and end */
#define OTHER_SWITCHES	5ul
#define MOST_ROUNDS	9

/* How often they were preempted, or more. */
static uint64_t hold_registers(unsigned count, uint64_t milliseconds)
{
	uint64_t first = sched_switch_count(), switches;
	struct process *processes[MOST];

	for (unsigned i = 0; i < count; i++)
		processes[i] = program_start("registers", milliseconds | test_random() << 16);
	for (unsigned i = 0; i < count; i++)
		EXPECT_EQ(program_end(processes[i]), WAIT_EXITED(0));
	switches = sched_switch_count() - first;
	return switches > OTHER_SWITCHES * count ? switches - OTHER_SWITCHES * count : 0;
}

TEST(user_registers_kept, .group = "process", .ids = "",
     .claim =
	     "general, SSE and x87 control registers of a process are its own, whatever runs in between",
     .source = "kernel/trap/user.h")
{
	uint64_t before = programs_begin(), switches = 0;
	unsigned count = 2 * cpu_count() + 1 < MOST ? 2 * cpu_count() + 1 : MOST;
	uint64_t enough = ENOUGH_SWITCHES * count;

	sched_set_slice(100);
	for (unsigned i = 0; i < MOST_ROUNDS && switches < enough; i++)
		switches += hold_registers(count, (test_scaled(100) << i) & 0xffff);
	sched_set_slice(1000);
	EXPECT(switches >= enough);
	programs_end(before);
}

#define CR4_UMIP (1u << 11)
#define CR4_SMEP (1u << 20)
#define CR4_SMAP (1u << 21)

static const uint8_t smsw_eax[] = {0x0f, 0x01, 0xe0, 0x0f, 0x0b}; /* smsw eax; ud2; byte 1 is 1 */

static bool kernel_reads(uint64_t address)
{
	bool done = false;

	__asm__ volatile("1:\ttestb $0, (%1)\n\t"
			 "movb $1, %0\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+q"(done)
			 : "r"(address)
			 : "cc", "memory");
	return done;
}

static bool kernel_writes(uint64_t address)
{
	bool done = false;

	__asm__ volatile("1:\tmovb $1, (%1)\n\t"
			 "movb $1, %0\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+q"(done)
			 : "r"(address)
			 : "memory");
	return done;
}

TEST(user_protections, .group = "process", .ids = "",
     .claim = "SMEP, SMAP and UMIP are on where the processor has them, and constants are constant",
     .source = "SDM Vol 3, 2.5 and 4.6")
{
	struct cpuid_result features = {0};
	struct trap_frame entered = {.rip = AT};
	uint8_t *page = test_area(1);
	uint64_t cr4;

	if (cpuid(0, 0).eax >= 7)
		features = cpuid(7, 0);
	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	EXPECT_EQ(!!(cr4 & CR4_SMEP), features.ebx >> 7 & 1);
	EXPECT_EQ(!!(cr4 & CR4_SMAP), features.ebx >> 20 & 1);
	EXPECT_EQ(!!(cr4 & CR4_UMIP), features.ecx >> 2 & 1);
	EXPECT(!kernel_writes((uint64_t)&smsw_eax[1]));

	memcpy(page, smsw_eax, sizeof(smsw_eax));
	code_map(AT, page, VM_USER);
	EXPECT_EQ(kernel_reads(AT), !(cr4 & CR4_SMAP));
	REQUIRE(user_run(&entered));
	EXPECT_EQ(entered.vector, cr4 & CR4_UMIP ? VECTOR_GP : VECTOR_UD);
	code_unmap(AT);
}
