// SPDX-License-Identifier: MIT
// Tracers of the newest branches that are refused.
#include "drivers/lbr/lbr.h"
#include "drivers/lbr/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "tests/framework/pages.h"
#include "tests/framework/test.h"

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
static void expect_refused(struct task *task, const struct branch_stack_options *options,
			   int expected)
{
	uint64_t pages = pages_left(), used = account.used, debugctl = rdmsr(IA32_DEBUGCTL);
	struct tracer *tracer = NULL;

	EXPECT_EQ(task ? branch_stack_attach(task, options, &tracer)
		       : branch_stack_attach_cpu(this_cpu()->index, options, &tracer),
		  expected);
	EXPECT(!tracer);
	EXPECT_EQ(pages_left(), pages);
	EXPECT_EQ(account.used, used);
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), debugctl);
}

#define REFUSED(task, error, ...)                                                                  \
	do {                                                                                       \
		struct branch_stack_options refused = options_now();                               \
                                                                                                   \
		__VA_ARGS__;                                                                       \
		expect_refused(task, &refused, -(error));                                          \
	} while (0)

static void refuse_values(struct task *task)
{
	struct tracer *tracer;

	REFUSED(task, EINVAL, refused.entries = 0);
	REFUSED(task, EINVAL, refused.flags = 1);
	REFUSED(task, EINVAL, refused.kinds = PTRACE_LBR_KINDS + 1);
	REFUSED(task, EINVAL, refused.flags = PTRACE_LBR_CALL_STACK;
		refused.kinds = PTRACE_LBR_CALL);
	REFUSED(task, EPERM, refused.flags = BOTH; refused.privileged = false);
	REFUSED(task, ENOMEM, account.limit = PAGE_SIZE - 1);
	account.limit = PAGE_SIZE;
	REFUSED(NULL, EOPNOTSUPP, refused.flags = PTRACE_LBR_CALL_STACK);
	REFUSED(task, EOPNOTSUPP, refused.flags = BOTH | PTRACE_LBR_CALL_STACK);
	if (!(lbr_caps()->select & LBR_SELECT_CALL_STACK))
		REFUSED(task, EOPNOTSUPP, refused.flags = PTRACE_LBR_CALL_STACK);
	if (!lbr_caps()->select) {
		REFUSED(task, EOPNOTSUPP, refused.flags = PTRACE_LBR_USER);
		REFUSED(task, EOPNOTSUPP, refused.kinds = PTRACE_LBR_CALL);
	}
	EXPECT_EQ(branch_stack_attach_cpu(cpu_count(), &(struct branch_stack_options){.entries = 1},
					  &tracer),
		  lbr_caps()->select ? -EINVAL : -EOPNOTSUPP);
}

/* Other kinds, or a call stack, beside `tracer` at `task`; one in its place is no matter. */
static void refuse_others(struct task *task, struct tracer *tracer)
{
	struct branch_stack_options options = options_now();
	struct tracer *fresh = NULL;

	REFUSED(task, EBUSY, refused.kinds = PTRACE_LBR_CALL; refused.account = NULL);
	REFUSED(NULL, EBUSY, refused.kinds = PTRACE_LBR_CALL; refused.account = NULL);
	REFUSED(task, ENOMEM, refused.kinds = 0); /* the limit is one page */
	options.kinds = PTRACE_LBR_CALL;
	options.replaces = tracer;
	EXPECT_EQ(branch_stack_attach(task, &options, &fresh), 0);
	EXPECT(trace_detach(fresh));
	if (!(lbr_caps()->select & LBR_SELECT_CALL_STACK))
		return;
	REFUSED(task, EBUSY, refused.flags = PTRACE_LBR_CALL_STACK; refused.account = NULL);
}

/* A test that has the MSRs keeps tracers of its CPU out, and the other way round. */
static void refuse_lent(void)
{
	struct branch_stack_options options = options_now();
	struct ds_cpu *ds = &this_cpu()->trace->ds;
	struct tracer *tracer = NULL;

	preemption_disable();
	REQUIRE_EQ(ds_checkout(ds), 0);
	REFUSED(NULL, EBUSY, refused.kinds = 0);
	EXPECT_EQ(ds_checkin(ds), 0);
	EXPECT_EQ(branch_stack_attach_cpu(this_cpu()->index, &options, &tracer), 0);
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
	struct task *task = task_create_stopped("refused", end_at_once, NULL);
	struct branch_stack_options options = options_now();
	struct ptrace_lbr_config status;
	struct tracer *tracer = NULL;

	test_pin();
	REQUIRE(task != NULL);
	account = (struct trace_account){.limit = PAGE_SIZE};
	refuse_values(task);
	refuse_lent();
	REQUIRE_EQ(branch_stack_attach(task, &options, &tracer), 0);
	status = branch_stack_status(tracer);
	EXPECT(status.flags == options.flags && status.kinds == PTRACE_LBR_KINDS);
	EXPECT(status.entries == 4 && status.depth == lbr_caps()->depth && !status.available);
	if (lbr_caps()->select)
		refuse_others(task, tracer);
	EXPECT(trace_detach(tracer));
	EXPECT_EQ(account.used, 0);
	task_start(task);
	task_join(task);
	REFUSED(task, ESRCH, refused.kinds = 0);
	task_put(task);
}
