// SPDX-License-Identifier: MIT
// Tracers of the newest branches that are refused, in the kernel and by ptrace().
#include "drivers/lbr/lbr.h"
#include "drivers/lbr/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "tests/framework/needs.h"
#include "tests/framework/pages.h"
#include "tests/framework/test.h"
#include "tests/lib/programs.h"

#define BOTH ((uint64_t)(PTRACE_LBR_USER | PTRACE_LBR_KERNEL))

static void end_at_once(void *argument)
{
	(void)argument;
}

static struct trace_account account;

/* What every processor with a stack can give: everything, where it has no filter. */
static struct branch_stack_options options_now(void)
{
	return (struct branch_stack_options){
		.flags = lbr_caps()->select ? PTRACE_LBR_USER : BOTH,
		.privileged = true,
		.entries = 4,
		.account = &account,
	};
}

/* Of `task`, or, if that is NULL, of this CPU: nothing is changed. */
static void refuse(struct task *task, int error, const struct branch_stack_options *options)
{
	uint64_t pages = pages_left(), used = account.used, debugctl = rdmsr(IA32_DEBUGCTL);
	struct tracer *tracer = NULL;

	EXPECT_EQ(task ? branch_stack_attach(task, 0, options, &tracer)
		       : branch_stack_attach(NULL, this_cpu()->index, options, &tracer),
		  -error);
	EXPECT(!tracer && pages_left() == pages && account.used == used);
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), debugctl);
}

/* Without any of the bits `unless` of MSR_LBR_SELECT; 0 is for every processor. */
static const struct refused {
	uint16_t error, unless;
	uint16_t flags, kinds, entries;
	bool of_cpu, unprivileged;
} values[] = {
	{EINVAL, 0, BOTH, 0, 0, false, false},
	{EINVAL, 0, 1, 0, 4, false, false},
	{EINVAL, 0, BOTH, PTRACE_LBR_KINDS + 1, 4, false, false},
	{EINVAL, 0, PTRACE_LBR_CALL_STACK, PTRACE_LBR_CALL, 4, false, false},
	{EPERM, 0, BOTH, 0, 4, false, true},
	{EOPNOTSUPP, 0, PTRACE_LBR_CALL_STACK, 0, 4, true, false},
	{EOPNOTSUPP, 0, BOTH | PTRACE_LBR_CALL_STACK, 0, 4, false, false},
	{EOPNOTSUPP, LBR_SELECT_CALL_STACK, PTRACE_LBR_CALL_STACK, 0, 4, false, false},
	{EOPNOTSUPP, LBR_SELECT_CPL_EQ_0, PTRACE_LBR_USER, 0, 4, false, false},
	{EOPNOTSUPP, LBR_SELECT_CPL_EQ_0, BOTH, PTRACE_LBR_CALL, 4, false, false},
};

static void refuse_values(struct task *task)
{
	struct branch_stack_options options = options_now();
	struct tracer *tracer;

	account.limit = PAGE_SIZE - 1;
	refuse(task, ENOMEM, &options);
	account.limit = PAGE_SIZE;
	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		options.flags = values[i].flags;
		options.kinds = values[i].kinds;
		options.entries = values[i].entries;
		options.privileged = !values[i].unprivileged;
		if (!(lbr_caps()->select & values[i].unless))
			refuse(values[i].of_cpu ? NULL : task, values[i].error, &options);
	}
	options = options_now();
	EXPECT_EQ(branch_stack_attach(NULL, cpu_count(), &options, &tracer), -EINVAL);
}

/* Other kinds, or a call stack, beside `tracer` at `task`; one in its place is no matter. */
static void refuse_others(struct task *task, struct tracer *tracer)
{
	struct branch_stack_options options = options_now();
	struct tracer *fresh = NULL;

	refuse(task, ENOMEM, &options); /* the limit is one page */
	options.kinds = PTRACE_LBR_CALL;
	options.replaces = tracer;
	EXPECT_EQ(branch_stack_attach(task, 0, &options, &fresh), 0);
	EXPECT(trace_detach(fresh));
	options.account = NULL;
	options.replaces = NULL;
	refuse(task, EBUSY, &options);
	refuse(NULL, EBUSY, &options);
	options.kinds = 0;
	options.flags = PTRACE_LBR_CALL_STACK;
	if (lbr_caps()->select & LBR_SELECT_CALL_STACK)
		refuse(task, EBUSY, &options);
}

/* A test that has the MSRs keeps tracers of its CPU out, and the other way round. */
static void refuse_lent(void)
{
	struct branch_stack_options options = options_now();
	struct ds_cpu *ds = &this_cpu()->trace->ds;
	struct tracer *tracer = NULL;

	preemption_disable();
	REQUIRE_EQ(ds_checkout(ds), 0);
	refuse(NULL, EBUSY, &options);
	EXPECT_EQ(ds_checkin(ds), 0);
	EXPECT_EQ(branch_stack_attach(NULL, this_cpu()->index, &options, &tracer), 0);
	EXPECT_EQ(ds_checkout(ds), -EBUSY);
	EXPECT(trace_detach(tracer));
	preemption_enable();
}

TEST(lbr_tracer_refusals, .group = "LB", .ids = "LB47", .needs = NEED_LBR,
     .claim = "what a processor cannot give, values out of range, kinds that another tracer does "
	      "not want, a CPU whose MSRs are lent: each is refused by its error, and nothing has "
	      "changed",
     .source = "kernel/trace/lbr/branch_stack.h")
{
	struct task *task = test_task("refused", end_at_once, NULL);
	struct branch_stack_options options = options_now();
	struct ptrace_lbr_config status;
	struct tracer *tracer = NULL;

	test_pin();
	account = (struct trace_account){.limit = PAGE_SIZE};
	refuse_values(task);
	refuse_lent();
	REQUIRE_EQ(branch_stack_attach(task, 0, &options, &tracer), 0);
	status = branch_stack_status(tracer);
	EXPECT(status.flags == options.flags && status.kinds == PTRACE_LBR_KINDS);
	EXPECT(status.entries == 4 && status.depth == lbr_caps()->depth && !status.available);
	if (lbr_caps()->select)
		refuse_others(task, tracer);
	EXPECT(trace_detach(tracer));
	EXPECT_EQ(account.used, 0);
	task_start(task);
	task_join(task);
	refuse(task, ESRCH, &options);
	test_task_put(task);
}

TEST(lbr_ptrace_requests, .group = "LB", .ids = "LB47 LB49",
     .claim = "a program reads the newest branches and the call stack of another, and of a CPU if "
	      "it has the right; each request that is refused is refused by its error and changes "
	      "nothing",
     .source = "docs/ptrace-lbr.2")
{
	const struct lbr_caps *caps = lbr_caps();
	uint64_t machine = (caps->depth ? 1 : 0) | (caps->select ? 2 : 0) |
			   (caps->select & LBR_SELECT_CALL_STACK ? 4 : 0);

	if (needs_lbr_filters())
		test_skip("%s", needs_lbr_filters());
	program_expect("ptrace_lbr", machine, false);
	program_expect("ptrace_lbr", machine | 8, true);
}

TEST(lbr_ptrace_random, .group = "LB", .ids = "LB49",
     .claim = "no request for the newest branches with any arguments harms the kernel or stops its "
	      "caller, and none shows a kernel address to a program without the right to it",
     .source = "docs/ptrace-lbr.2: 1000000 calls with -t lbr_ptrace_random -a scale=100000")
{
	uint64_t calls = test_scaled(1000),
		 time = test_seconds() / 2 < 255 ? test_seconds() / 2 : 255;

	for (uint64_t right = 0; right <= 8; right += 8) {
		uint64_t seed = test_random() & 0xffff;

		test_note("%lu calls with seed 0x%lx", calls, seed);
		program_expect("lbr_random", calls << 32 | time << 24 | seed << 8 | right, right);
	}
}

/* --- Programs that are killed --- */

/* The loop that copied 16 words may fill a stack of 16 entries: what was before it is gone then. */
TEST(lbr_jumped_to_nowhere, .group = "LB", .ids = "LB49", .needs = NEED_LBR,
     .claim = "a program whose return address was overwritten, where there is no BTS: the newest "
	      "entry of its LBR stack is the return to nowhere, after the loop that wrote it",
     .source = "tests/user/jumped_to_nowhere.c; docs/lbr.md#tracers")
{
	PROGRAMS(before);
	const char *line;

	if (!lbr_caps()->select)
		test_skip("no MSR_LBR_SELECT: the kernel's branches cannot be left out");
	EXPECT_EQ(program_output_of("jumped_to_nowhere", 1, false), WAIT_EXITED(0));
	line = program_output("SIGSEGV at 0x616161616161; last branches, newest first:", NULL);
	REQUIRE(line);
	line = program_output("*handle+0x* -> 0x616161616161", line);
	REQUIRE(line);
	line = program_output("*handle+0x* -> handle+0x*, times *", line);
	REQUIRE(line);
	EXPECT(program_output("  older ones were not kept", line));
}

TEST(lbr_fatal_jump, .group = "LB", .ids = "LB70", .needs = NEED_LBR,
     .claim = "the jump that killed a program is the newest entry of its LBR stack, wherever it "
	      "led; no other has an address of the kernel",
     .source = "docs/design.md#views; tests/user/fatal_jump.c")
{
	if (!lbr_caps()->select)
		test_skip("no MSR_LBR_SELECT: the kernel's branches cannot be left out");
	program_expect("fatal_jump", 1, false);
}
