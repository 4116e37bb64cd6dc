// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "drivers/processor.h"
#include "kernel/process/attachment.h"
#include "kernel/process/program.h"
#include "kernel/ptrace/ptrace.h"
#include "kernel/sched/sched.h"
#include "lib/string.h"
#include "tests/lib/programs.h"

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
	uint64_t before = programs_begin();

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
	programs_end(before);
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
	uint64_t entry;
	int error;

	REQUIRE_EQ(space_create(&space), 0);
	error = program_load(&space, copy, bytes, &entry);
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
	uint64_t before = programs_begin();

	trace_from_the_start();
	trace_one_that_runs(SIGKILL);
	trace_one_that_runs(SIGTERM);
	programs_end(before);
}
