// SPDX-License-Identifier: MIT
// Tracers of the newest branches: what they see of a task in ring 3, and of a CPU.
#include "drivers/lbr/lbr.h"
#include "drivers/lbr/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/context.h"
#include "kernel/trace/lbr/private.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/pmu_rig.h"

/* --- A task whose branches in ring 3 are known: jumps to the next instruction, and SYSCALL --- */

enum { JUMPS = 64, MOST_VISITS = 30 };
#define START  0x2a000000ul
#define CALLER (START + 16 * PAGE_SIZE)
#define BOTH   ((uint64_t)(PTRACE_LBR_USER | PTRACE_LBR_KERNEL))

struct jumper {
	unsigned number, jumps, visits; /* jumps in a visit to ring 3 */
	bool yields;			/* after each visit */
	bool steps;			/* the first jump of each visit traps */
	uint64_t start;
	unsigned traps;
	struct task *task;
};

static struct ptrace_lbr_branch branches[LBR_MOST];

static unsigned read_all(struct tracer *tracer)
{
	return (unsigned)trace_read(tracer, branches, LBR_MOST);
}

static void visit(struct jumper *jumper)
{
	struct trap_frame frame = {.rip = jumper->start + 2ul * (JUMPS - jumper->jumps),
				   .rflags = jumper->steps ? FLAG_TF : 0};

	do {
		user_run(&frame);
		if (frame.vector == VECTOR_DB) {
			jumper->traps++;
			frame.rflags &= ~(uint64_t)FLAG_TF;
		}
		atomic_store(&current_task()->user_break, false);
	} while (frame.vector != VECTOR_SYSCALL);
}

static void make_visits(void *argument)
{
	struct jumper *jumper = argument;

	for (unsigned i = 0; i < jumper->visits; i++) {
		visit(jumper);
		if (jumper->yields)
			task_yield();
	}
}

static void open_jumper(struct jumper *jumper)
{
	uint8_t *page = test_area(1);

	for (unsigned i = 0; i < JUMPS; i++) {
		page[2 * i] = 0xeb;
		page[2 * i + 1] = 0;
	}
	page[2 * JUMPS] = 0x0f;
	page[2 * JUMPS + 1] = 0x05;
	jumper->start = START + jumper->number * PAGE_SIZE;
	code_map(jumper->start, page, VM_USER);
	jumper->task = test_task("jumper", make_visits, jumper);
}

static void run_jumper(const struct jumper *jumper)
{
	task_start(jumper->task);
	task_join(jumper->task);
}

static void close_jumper(struct jumper *jumper)
{
	if (!jumper->task->ended)
		run_jumper(jumper);
	test_task_put(jumper->task);
	code_unmap(jumper->start);
}

/* Fails the test unless branch `n` of `count`, newest first, is its jump. */
static void expect_jumps(const struct jumper *jumper, unsigned count)
{
	for (unsigned n = 0; n < count; n++) {
		uint64_t from = jumper->start + 2ul * (JUMPS - 1 - n % jumper->jumps);

		EXPECT_EQ(branches[n].from, from);
		EXPECT(branches[n].to == from + 2 &&
		       (uint32_t)branches[n].pid_cpu == jumper->task->pid);
	}
}

static void need_filter(void)
{
	if (!lbr_caps()->select)
		test_skip("no MSR_LBR_SELECT: the kernel's branches cannot be left out");
}

static struct tracer *attach(struct task *task, struct branch_stack_options options)
{
	struct tracer *tracer = NULL;

	options.entries = options.entries ? options.entries : LBR_MOST;
	REQUIRE_EQ(branch_stack_attach(task, 0, &options, &tracer), 0);
	return tracer;
}

/* What a tracer of ring 3 has of a task that makes so many jumps in one visit. */
static unsigned read_of_visit(unsigned jumps, unsigned entries)
{
	struct jumper jumper CLOSED_BY(close_jumper) = {.jumps = jumps, .visits = 1};
	struct tracer *tracer;
	unsigned count;

	open_jumper(&jumper);
	tracer = attach(jumper.task, (struct branch_stack_options){.entries = entries});
	run_jumper(&jumper);
	count = read_all(tracer);
	expect_jumps(&jumper, count);
	EXPECT(trace_detach(tracer));
	return count;
}

/*
 * The way to ring 3 takes an entry that no tracer of ring 3 sees, and so does each interrupt there.
 * The processor's stack may have lost as many of the oldest.
 */
enum { MOST_INTERRUPTS = 3 };

TEST(lbr_tracer_newest, .group = "LB", .ids = "LB39 LB67", .needs = NEED_LBR,
     .claim = "a tracer of ring 3 has the newest branches of its task, newest first, both ends in "
	      "ring 3, as many as there are, as it wants, or as there are entries",
     .source = "docs/lbr.md#tracers; SDM Vol 3, 17.7.2")
{
	unsigned depth = lbr_caps()->depth, count;

	need_filter();
	for (unsigned jumps = 1; jumps < depth - MOST_INTERRUPTS; jumps++)
		EXPECT_EQ(read_of_visit(jumps, 0), jumps);
	count = read_of_visit(JUMPS, 0);
	EXPECT(count >= depth - MOST_INTERRUPTS && count <= depth);
	EXPECT_EQ(read_of_visit(JUMPS, 5), 5);
	EXPECT_EQ(read_of_visit(3, 5), 3);
}

TEST(lbr_tracer_switches, .group = "LB", .ids = "LB40", .needs = NEED_LBR,
     .claim = "two tasks that take turns on a CPU each have their own newest branches, also of "
	      "earlier turns, and none of the other's or of the kernel's",
     .source = "docs/lbr.md#tracers")
{
	struct jumper one CLOSED_BY(close_jumper) = {.number = 1, .jumps = 3, .yields = true};
	struct jumper two CLOSED_BY(close_jumper) = {.number = 2, .jumps = 2, .yields = true};
	struct jumper *jumpers[] = {&one, &two};
	struct tracer *tracers[2];
	unsigned depth = lbr_caps()->depth;

	need_filter();
	test_pin();
	for (unsigned i = 0; i < 2; i++) {
		jumpers[i]->visits = MOST_VISITS;
		open_jumper(jumpers[i]);
		tracers[i] = attach(jumpers[i]->task, (struct branch_stack_options){.flags = 0});
	}
	for (unsigned i = 0; i < 2; i++)
		task_start(jumpers[i]->task);
	for (unsigned i = 0; i < 2; i++) {
		task_join(jumpers[i]->task);
		EXPECT_EQ(read_all(tracers[i]), depth);
		expect_jumps(jumpers[i], depth);
		EXPECT(trace_detach(tracers[i]));
	}
}

/* --- Kinds, and call stacks --- */

/*
 * CALL 7; JMP 8; 7: RET; 8: XOR EAX, EAX; JZ 12; 12: CALL *RSI; JMP *RDI; 17: SYSCALL; 20: RET.
 */
static const uint8_t each_kind[] = {0xe8, 2,	0,    0,    0,	  0xeb, 1,
				    0xc3, 0x31, 0xc0, 0x74, 0,	  0xff, 0xd6,
				    0xff, 0xe7, 0x90, 0x0f, 0x05, 0x90, 0xc3};

static const struct {
	uint8_t kind, from, to;
} taken[] = {
	{PTRACE_LBR_CALL, 0, 7},
	{PTRACE_LBR_RETURN, 7, 5},
	{PTRACE_LBR_JUMP, 5, 8},
	{PTRACE_LBR_CONDITIONAL, 10, 12},
	{PTRACE_LBR_CALL_INDIRECT, 12, 20},
	{PTRACE_LBR_RETURN, 20, 14},
	{PTRACE_LBR_JUMP_INDIRECT, 14, 17},
};

/* CALL 7; RET (at 5); 7: CALL 15; RET (at 12); 15: SYSCALL; RET. Where it goes on: `next`. */
static const uint8_t nested[] = {0xe8, 2, 0, 0,	   0,	 0x0f, 0x05, 0xe8, 3,
				 0,    0, 0, 0x0f, 0x05, 0xc3, 0x0f, 0x05, 0xc3};

/* A task that runs code with a stack, and waits in each SYSCALL until it may go on. */
struct caller {
	const uint8_t *code;
	size_t bytes;
	unsigned calls; /* SYSCALLs to its end */
	uint64_t start;
	atomic_uint made, allowed;
	struct task *task;
};

/* More branches of the kernel than any stack has entries. */
static void spin(void)
{
	unsigned turns = 2 * LBR_MOST;

	__asm__ volatile("1: decl %0\n\tjnz 1b" : "+r"(turns) : : "cc");
}

static void run_caller(void *argument)
{
	struct caller *caller = argument;
	struct trap_frame frame = {.rip = caller->start,
				   .rsp = caller->start + 2 * PAGE_SIZE - 64,
				   .rsi = caller->start + 20,
				   .rdi = caller->start + 17};

	while (atomic_load(&caller->made) < caller->calls) {
		do {
			user_run(&frame);
			atomic_store(&current_task()->user_break, false);
		} while (frame.vector != VECTOR_SYSCALL);
		atomic_fetch_add(&caller->made, 1);
		while (atomic_load(&caller->allowed) < atomic_load(&caller->made)) {
			spin();
			task_yield();
		}
	}
}

static void open_caller(struct caller *caller, const uint8_t *code, size_t bytes, unsigned calls)
{
	uint8_t *page = test_area(1), *stack = test_area(1);

	memcpy(page, code, bytes);
	*caller = (struct caller){.start = CALLER, .calls = calls};
	code_map(caller->start, page, VM_USER);
	code_map_data(caller->start + PAGE_SIZE, stack, VM_USER);
	caller->task = test_task("caller", run_caller, caller);
}

/* Lets it go on from SYSCALL number `count` - 1 to the next, with switches in between. */
static void go_to(struct caller *caller, unsigned count)
{
	atomic_store(&caller->allowed, count - 1);
	if (count == 1)
		task_start(caller->task);
	while (atomic_load(&caller->made) < count)
		task_yield();
}

static void close_caller(struct caller *caller)
{
	atomic_store(&caller->allowed, caller->calls);
	test_task_end(caller->task);
	code_unmap(caller->start);
	code_unmap(caller->start + PAGE_SIZE);
}

/* Runs each_kind to its SYSCALL. Returns how many of its branches a tracer has. */
static unsigned read_of_each_kind(struct branch_stack_options options)
{
	struct tracer *tracer;
	struct caller caller;
	unsigned count;

	open_caller(&caller, each_kind, sizeof(each_kind), 1);
	tracer = attach(caller.task, options);
	go_to(&caller, 1);
	count = read_all(tracer);
	EXPECT(trace_detach(tracer));
	close_caller(&caller);
	return count;
}

static void expect_kinds(unsigned kinds)
{
	unsigned count = read_of_each_kind((struct branch_stack_options){.kinds = kinds});
	unsigned at = 0, every = kinds ? kinds : PTRACE_LBR_KINDS;

	for (unsigned n = sizeof(taken) / sizeof(taken[0]); n--;) {
		if (!(taken[n].kind & every))
			continue;
		if (EXPECT(at < count)) {
			EXPECT(branches[at].from == CALLER + taken[n].from &&
			       branches[at].to == CALLER + taken[n].to);
		}
		at++;
	}
	EXPECT_EQ(count, at);
}

TEST(lbr_tracer_says_kinds, .group = "LB", .ids = "LB58 LB66", .needs = NEED_LBR,
     .claim = "each branch that a tracer reads says its kind where the processor's entries do, and "
	      "none elsewhere",
     .source = "include/abi/ptrace_lbr.h; SDM Vol 3 of 2022, 18.1.3")
{
	const struct branch_stack_options far = {
		.flags = BOTH, .kinds = PTRACE_LBR_FAR, .privileged = true};
	const unsigned most = sizeof(taken) / sizeof(taken[0]);
	unsigned count;

	need_filter();
	test_pin();
	if (EXPECT_EQ(read_of_each_kind((struct branch_stack_options){.flags = 0}), most))
		for (unsigned n = 0; n < most; n++)
			EXPECT_EQ(PTRACE_LBR_KIND(branches[n].flags),
				  lbr_caps()->kinds ? taken[most - 1 - n].kind : 0);
	count = read_of_each_kind(far);
	EXPECT(count > 0); /* the ways to ring 3 and back */
	for (unsigned n = 0; n < count; n++)
		EXPECT_EQ(PTRACE_LBR_KIND(branches[n].flags),
			  lbr_caps()->kinds ? PTRACE_LBR_FAR : 0);
}

/* By level the processor hides the source of a way into the kernel, as ~0: a kernel address. */
TEST(lbr_tracer_kernel_alone, .group = "LB", .ids = "LB67", .needs = NEED_LBR,
     .claim = "a tracer of the kernel that is alone has branches, and none whose source the "
	      "processor did not record",
     .source = "docs/lbr.md#architectural; SDM Vol 3 of 2022, 18.1.2")
{
	static const unsigned kinds[] = {PTRACE_LBR_FAR, 0};
	unsigned unknown = 0, count = 0;

	need_filter();
	test_pin();
	for (unsigned i = 0; i < 2; i++) {
		count = read_of_each_kind((struct branch_stack_options){
			.flags = PTRACE_LBR_KERNEL, .kinds = kinds[i], .privileged = true});
		for (unsigned n = 0; n < count; n++)
			unknown += branches[n].from == UINT64_MAX;
	}
	EXPECT(count > 0);
	EXPECT_EQ(unknown, 0);
}

static uint64_t depth_here(void)
{
	return rdmsr(IA32_LBR_DEPTH);
}

/* The least that CPUID.1CH:EAX lists of those that are at least `entries`; else the deepest. */
static uint64_t depth_with_room(unsigned entries)
{
	uint32_t depths = cpuid(LBR_LEAF, 0).eax & 0xf;
	uint64_t depth = 8;

	while (depth < 32 && (!(depths >> (depth / 8 - 1) & 1) || depth < entries))
		depth += 8;
	return depths >> (depth / 8 - 1) & 1 ? depth : lbr_caps()->depth;
}

TEST(lbr_tracer_depth, .group = "LB", .ids = "LB68", .needs = NEED_LBR,
     .claim = "where the depth can be chosen a tracer has the least one with twice the entries "
	      "that it wants, and with a second tracer what that needs; the branches are the same",
     .source = "docs/lbr.md#architectural; SDM Vol 3 of 2022, 18.1.2")
{
	struct branch_stack_options few = {.flags = PTRACE_LBR_USER, .entries = 5};
	const struct branch_stack_options most = {.flags = PTRACE_LBR_USER, .entries = LBR_MOST};
	struct tracer *tracer = NULL, *second = NULL;

	need_filter();
	if (!lbr_caps()->architectural)
		test_skip("the depth of a model's stack is what it is");
	test_pin();
	for (; few.entries >= 4; few.entries--) {
		EXPECT(!tracer || trace_detach(tracer));
		REQUIRE_EQ(branch_stack_attach(NULL, this_cpu()->index, &few, &tracer), 0);
		EXPECT_EQ(depth_here(), depth_with_room(2 * few.entries));
	}
	REQUIRE_EQ(branch_stack_attach(NULL, this_cpu()->index, &most, &second), 0);
	EXPECT_EQ(depth_here(), lbr_caps()->depth);
	EXPECT(trace_detach(second));
	EXPECT_EQ(depth_here(), depth_with_room(8));
	EXPECT(trace_detach(tracer));
	for (unsigned entries = 1; entries <= 16 && entries <= lbr_caps()->depth; entries++)
		EXPECT_EQ(read_of_visit(JUMPS, entries), entries);
}

/* What the tracer of `view` has of a visit that ends with an indirect jump and a SYSCALL. */
static void expect_view(const struct caller *caller, struct tracer *tracer, uint64_t view)
{
	unsigned count = read_all(tracer), jumps = 0, calls = 0;

	for (unsigned n = 0; n < count; n++) {
		uint64_t ends = (branches[n].from >> 63 ? PTRACE_LBR_KERNEL : PTRACE_LBR_USER) |
				(branches[n].to >> 63 ? PTRACE_LBR_KERNEL : PTRACE_LBR_USER);

		EXPECT(!(ends & ~view));
		jumps += branches[n].from == caller->start + 14;
		calls += branches[n].from == caller->start + 17 && branches[n].to >> 63;
	}
	EXPECT_EQ(jumps, view & PTRACE_LBR_USER ? 1 : 0);
	EXPECT_EQ(calls, view == BOTH ? 1 : 0);
}

/*
 * The processor records the union of what three tracers want: of the kernel far branches, which it
 * has few of.
 */
TEST(lbr_tracer_views, .group = "LB", .ids = "LB41", .needs = NEED_LBR,
     .claim = "of three tracers of a task the first sees branches of ring 3 alone, the second of "
	      "the kernel alone, the third both and the ways between them",
     .source = "docs/design.md#views; docs/lbr.md#tracers")
{
	static const uint64_t views[] = {PTRACE_LBR_USER, PTRACE_LBR_KERNEL, BOTH};
	struct tracer *tracers[3];
	struct caller caller;

	need_filter();
	test_pin();
	open_caller(&caller, each_kind, sizeof(each_kind), 1);
	for (unsigned i = 0; i < 3; i++)
		tracers[i] = attach(caller.task,
				    (struct branch_stack_options){.flags = views[i],
								  .kinds = PTRACE_LBR_FAR |
									   PTRACE_LBR_JUMP_INDIRECT,
								  .privileged = true});
	go_to(&caller, 1);
	for (unsigned i = 0; i < 3; i++) {
		expect_view(&caller, tracers[i], views[i]);
		EXPECT(trace_detach(tracers[i]));
	}
	close_caller(&caller);
}

/* Before Sandy Bridge near jumps may take calls and returns with them: SDM Vol 3, 17.8. */
static bool takes_others_along(unsigned kinds)
{
	const unsigned calls = PTRACE_LBR_CALL | PTRACE_LBR_CALL_INDIRECT | PTRACE_LBR_RETURN;
	const unsigned jumps = PTRACE_LBR_JUMP | PTRACE_LBR_JUMP_INDIRECT;

	unsigned model = cpuid_signature(cpuid(1, 0).eax).model;

	return (model < 0x2a || model == 0x2c || model == 0x2e || model == 0x2f) && kinds & calls &&
	       (kinds & jumps) != jumps;
}

TEST(lbr_tracer_kinds, .group = "LB", .ids = "LB42", .needs = NEED_LBR,
     .claim = "a tracer has the kinds of branches that it asks for, each alone and all but it, "
	      "and no others",
     .source = "SDM Vol 3, 17.7.2; include/abi/ptrace_lbr.h")
{
	need_filter();
	test_pin();
	expect_kinds(0);
	for (unsigned kind = 1; kind <= PTRACE_LBR_FAR; kind <<= 1) {
		if (!takes_others_along(kind))
			expect_kinds(kind);
		if (!takes_others_along(PTRACE_LBR_KINDS & ~kind))
			expect_kinds(PTRACE_LBR_KINDS & ~kind);
	}
}

#define IA32_XSS  0xda0u
#define LBR_STATE (1ull << 15)
#define IS_SAVED  (stack_of(tracer)->state.header.xcomp_bv / LBR_STATE & 1)

/* Two calls deep, one, none: a stack that a switch did not bring back has none after the first
   return, and one that it did not take away has both. XSAVES has not `lacks` in the middle. */
static void expect_calls_back(uint64_t lacks)
{
	uint64_t enabled = lbr_caps()->xsaves ? rdmsr(IA32_XSS) : 0;
	struct tracer *tracer;
	struct caller caller;

	if (!(lbr_caps()->select & LBR_SELECT_CALL_STACK))
		test_skip("no EN_CALLSTACK in MSR_LBR_SELECT");
	test_pin();
	open_caller(&caller, nested, sizeof(nested), 3);
	tracer = attach(caller.task, (struct branch_stack_options){.flags = PTRACE_LBR_CALL_STACK});
	go_to(&caller, 1);
	EXPECT_EQ(read_all(tracer), 2);
	EXPECT(branches[0].from == caller.start + 7 && branches[0].to == caller.start + 15);
	EXPECT(branches[1].from == caller.start && branches[1].to == caller.start + 7);
	branches[0].from = 0;
	EXPECT_EQ(IS_SAVED, lbr_caps()->xsaves);
	if (lacks)
		wrmsr(IA32_XSS, enabled & ~lacks);
	go_to(&caller, 2);
	EXPECT_EQ(IS_SAVED, lbr_caps()->xsaves && !lacks);
	if (lacks)
		wrmsr(IA32_XSS, enabled);
	EXPECT_EQ(read_all(tracer), 1);
	EXPECT_EQ(branches[0].from, caller.start);
	go_to(&caller, 3);
	EXPECT_EQ(read_all(tracer), 0);
	EXPECT(trace_detach(tracer));
	close_caller(&caller);
}

TEST(lbr_tracer_call_stack, .group = "LB", .ids = "LB43", .needs = NEED_LBR,
     .claim = "a tracer of the call stack has the calls that have not returned, newest first, "
	      "across switches to other tasks with calls, where IA32_XSS leaves them out too",
     .source = "SDM Vol 3, 17.9; SDM Vol 1, 13.11; docs/lbr.md#tracers")
{
	expect_calls_back(0);
	if (lbr_caps()->xsaves)
		expect_calls_back(LBR_STATE);
}

/* The kernel's branches, which another tracer wants, push the calls out before they are read. */
TEST(lbr_tracer_no_hole, .group = "LB", .ids = "LB39", .needs = NEED_LBR,
     .claim = "where the processor's stack has lost branches between those that a tracer had and "
	      "those that are new, the tracer no longer has the former",
     .source = "docs/lbr.md#tracers")
{
	struct tracer *user, *both;
	struct caller caller;

	need_filter();
	test_pin();
	open_caller(&caller, nested, sizeof(nested), 2);
	user = attach(caller.task, (struct branch_stack_options){.flags = PTRACE_LBR_USER});
	go_to(&caller, 1);
	task_yield();
	EXPECT_EQ(read_all(user), 2);
	both = attach(caller.task,
		      (struct branch_stack_options){.flags = BOTH, .privileged = true});
	/* A turn that the timer ends at once may have fewer. */
	for (unsigned turns = 0; turns < 200 && trace_read(user, NULL, LBR_MOST); turns++)
		task_yield();
	EXPECT_EQ(read_all(user), 0);
	EXPECT_EQ(read_all(both), lbr_caps()->depth);
	EXPECT(trace_detach(both));
	EXPECT(trace_detach(user));
	close_caller(&caller);
}

/* --- What stops the stack --- */

/*
 * A debug exception clears LBR and says so nowhere. A debugger that steps once and then lets its
 * tracee run had the branches up to the step, and none of those after it.
 */
TEST(lbr_tracer_debug_exception, .group = "LB", .ids = "LB44", .needs = NEED_LBR,
     .claim = "after a debug exception of ring 3, which clears LBR, the task's branches are "
	      "recorded again: those before it and after it are there",
     .source = "SDM Vol 3, 17.4.2; docs/lbr.md#debug-exceptions")
{
	struct jumper jumper CLOSED_BY(close_jumper) = {.jumps = 5, .visits = 1, .steps = true};
	struct tracer *tracer;

	need_filter();
	open_jumper(&jumper);
	tracer = attach(jumper.task, (struct branch_stack_options){.flags = 0});
	run_jumper(&jumper);
	EXPECT_EQ(jumper.traps, 1);
	EXPECT_EQ(read_all(tracer), 5);
	expect_jumps(&jumper, 5);
	EXPECT(trace_detach(tracer));
}

/* void lbr_run_loop(void): one branch, 29999 times. */
__asm__(".pushsection .text\n"
	"lbr_run_loop:\n\tmovl $30000, %ecx\n"
	"lbr_loop_top:\n\tdecl %ecx\n"
	"lbr_loop_branch:\n\tjnz lbr_loop_top\n\tret\n\t.popsection");
extern void lbr_run_loop(void);
extern const char lbr_loop_top[], lbr_loop_branch[];

static atomic_uint overflows;

static void overflowed(unsigned number, void *argument)
{
	(void)argument;
	atomic_fetch_add(&overflows, 1);
	pmu_run(1ull << number, false);
}

/* Interrupts wait: the PMI is an NMI, and the work after it follows the reading. */
static unsigned read_after_interrupt(struct tracer *tracer, const struct pmu_owner *owner)
{
	struct pmu_cpu *pmu = &this_cpu()->trace->pmu;
	uint64_t flags = interrupts_save();
	unsigned count;

	EXPECT_EQ(pmu_start(pmu, 0, owner, 0xc0 | PMU_OS, 2000), 0);
	lbr_run_loop();
	count = read_all(tracer);
	interrupts_restore(flags);
	return count;
}

TEST(lbr_tracer_freezes, .group = "LB", .ids = "LB45", .needs = NEED_LBR,
     .claim = "a counter's interrupt stops the stack for a tracer of the kernel: its newest "
	      "branches are those before the interrupt, and it goes on afterwards",
     .source = "SDM Vol 3, 17.4.7 and 18.2.4; docs/lbr.md#interrupts-of-counters")
{
	const struct branch_stack_options options = {
		.flags = BOTH, .privileged = true, .entries = LBR_MOST};
	const struct pmu_owner owner = {.name = "lbr_tracer_freezes", .overflowed = overflowed};
	struct tracer *tracer = NULL;
	unsigned count;

	if (!lbr_caps()->freezes || !lbr_caps()->select || !pmu_caps()->version ||
	    pmu_lacks_event(0xc0))
		test_skip("no FREEZE_LBRS_ON_PMI, or no counter of instructions");
	pmu_rig_need(0);
	atomic_store(&overflows, 0);
	REQUIRE_EQ(pmu_request(&this_cpu()->trace->pmu, 0, &owner), 0);
	REQUIRE_EQ(branch_stack_attach(NULL, this_cpu()->index, &options, &tracer), 0);
	for (unsigned turn = 1; turn < 4; turn++) {
		count = read_after_interrupt(tracer, &owner);
		EXPECT_EQ(atomic_load(&overflows), turn);
		EXPECT_EQ(count, lbr_caps()->depth);
		for (unsigned n = 0; n < count; n++)
			EXPECT(branches[n].from == (uint64_t)lbr_loop_branch &&
			       branches[n].to == (uint64_t)lbr_loop_top);
	}
	EXPECT_EQ(pmu_release(&this_cpu()->trace->pmu, 0, &owner), 0);
	trace_read(tracer, branches, 1);
	EXPECT(branches[0].from != (uint64_t)lbr_loop_branch);
	EXPECT(trace_detach(tracer));
}

/* --- Of a CPU; beside BTS --- */

TEST(lbr_tracer_of_cpu, .group = "LB", .ids = "LB46", .needs = NEED_LBR | NEED_SMP,
     .claim = "a tracer of the second CPU has the branches of the task that runs there, with its "
	      "number and the CPU's, and none of a task on another CPU",
     .source = "docs/lbr.md#tracers; include/abi/ptrace_lbr.h")
{
	const struct branch_stack_options options = {.flags = PTRACE_LBR_USER, .entries = LBR_MOST};
	struct jumper there CLOSED_BY(close_jumper) = {.number = 1, .jumps = 5, .visits = 1};
	struct jumper here CLOSED_BY(close_jumper) = {.number = 2, .jumps = 7, .visits = 1};
	struct tracer *tracer = NULL;

	need_filter();
	test_go_to(0);
	open_jumper(&here);
	open_jumper(&there);
	test_keep_on(there.task, 1);
	REQUIRE_EQ(branch_stack_attach(NULL, 1, &options, &tracer), 0);
	run_jumper(&there);
	run_jumper(&here);
	EXPECT_EQ(read_all(tracer), 5);
	expect_jumps(&there, 5);
	for (unsigned n = 0; n < 5; n++)
		EXPECT_EQ(branches[n].pid_cpu >> 32, 1);
	EXPECT(trace_detach(tracer));
}

/* SDM Vol 3, 17.4.8: TR and LBR; 36.3.1.2: TraceEn. */
TEST(lbr_tracer_excludes, .group = "LB", .ids = "LB48", .needs = NEED_LBR | NEED_BTS,
     .claim = "where LBR cannot be set beside TR a tracer of the newest branches is refused while "
	      "one of all branches is there, and the other way round; elsewhere both record",
     .source = "SDM Vol 3, 17.4.8; kernel/trace/lbr/branch_stack.h")
{
	struct jumper jumper CLOSED_BY(close_jumper) = {.jumps = 6, .visits = 1};
	const struct bts_options all = {
		.view = TRACE_USER, .privileged = true, .overflow = TRACE_STOP, .size = 4096};
	const struct branch_stack_options options = {.flags = lbr_caps()->select ? PTRACE_LBR_USER
										 : BOTH,
						     .privileged = true,
						     .entries = LBR_MOST};
	struct tracer *branches_of = NULL, *tracer = NULL;
	int expected = ds_caps()->excludes_lbr ? -EBUSY : 0;

	open_jumper(&jumper);
	REQUIRE_EQ(bts_attach(jumper.task, 0, &all, &branches_of), 0);
	EXPECT_EQ(branch_stack_attach(jumper.task, 0, &options, &tracer), expected);
	if (expected) {
		EXPECT(trace_detach(branches_of));
		EXPECT_EQ(branch_stack_attach(jumper.task, 0, &options, &tracer), 0);
		EXPECT_EQ(bts_attach(jumper.task, 0, &all, &branches_of), -EBUSY);
	} else {
		run_jumper(&jumper);
		EXPECT_EQ(bts_available(branches_of), 6);
		if (lbr_caps()->select) {
			EXPECT_EQ(read_all(tracer), 6);
			expect_jumps(&jumper, 6);
		}
		EXPECT(trace_detach(branches_of));
	}
	EXPECT(trace_detach(tracer));
}
