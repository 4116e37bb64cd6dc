// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "kernel/trace/context.h"
#include "tests/framework/pages.h"
#include "tests/framework/test.h"
#include "tests/lib/walker.h"

#define RECORD sizeof(struct ptrace_bts_record)

static struct trace_account account;
static struct walker walker;

static void refused(int error, int expected, uint64_t before, const struct tracer *result)
{
	EXPECT_EQ(error, expected);
	EXPECT(!result);
	EXPECT_EQ(account.used, 0);
	EXPECT_EQ(pages_left(), before);
}

/* Of its task, and of a CPU: nothing is left behind. */
static void expect_refused(struct bts_options options, int expected)
{
	struct tracer *result = NULL;
	uint64_t before = pages_left();

	options.account = &account;
	refused(bts_attach(walker.task, &options, &result), expected, before, result);
	EXPECT(!walker.task->trace);
	refused(bts_attach_cpu(this_cpu()->index, &options, &result), expected, before, result);
	EXPECT(!this_cpu()->trace->context.tracers[TRACE_BTS]);
}

static void refuse_values(void)
{
	struct bts_options options = walker_options(64);

	options.view = 4;
	expect_refused(options, -EINVAL);
	options = walker_options(0);
	expect_refused(options, -EINVAL);
	options.size = UINT64_MAX;
	expect_refused(options, -EINVAL);
	options = walker_options(64);
	options.threshold = 65;
	expect_refused(options, -EINVAL);
	options = walker_options(64);
	options.overflow = TRACE_STOP + 1;
	expect_refused(options, -EINVAL);
	options = walker_options(64);
	options.privileged = false;
	expect_refused(options, -EPERM);
}

static void refuse_memory(void)
{
	account.limit = 64 * RECORD;
	expect_refused(walker_options(64), -ENOMEM);
}

/* Pages of a tracer of 1024 records: itself, its buffer, the DS area. */
#define PAGES (1 + 1024 * 24 / PAGE_SIZE + 1 + 1)

/* It fails at each page that it takes. */
static void refuse_what_is_not_there(void)
{
	struct bts_options options = walker_options(1024);
	struct tracer *result = NULL;
	uint64_t before = pages_left();

	account.limit = SIZE_MAX;
	options.account = &account;
	for (uint64_t left = 0; left < PAGES; left++) {
		page_keep_back(page_free_count() - left);
		refused(bts_attach(walker.task, &options, &result), -ENOMEM, before, result);
	}
	page_keep_back(0);
}

TEST(trace_refusals, .group = "tracers", .ids = "", .needs = NEED_BTS,
     .claim = "a tracer that is refused leaves everything as it was, with the error that says why",
     .source = "kernel/trace/trace.h")
{
	struct bts_options options = walker_options(64);
	struct tracer *result = NULL;
	uint64_t before;

	walker = (struct walker){.name = "task", .chain = &chain_a, .walks = 1};
	account = (struct trace_account){.limit = SIZE_MAX};
	walkers_create(&walker, 1);
	refuse_values();
	refuse_memory();
	refuse_what_is_not_there();
	before = pages_left();
	options.account = &account;
	account.limit = SIZE_MAX;
	refused(bts_attach_cpu(cpu_count(), &options, &result), -EINVAL, before, result);
	task_start(walker.task);
	walkers_join(&walker, 1);
	before = pages_left();
	refused(bts_attach(walker.task, &options, &result), -ESRCH, before, result);
	walker_end(&walker);
}

TEST(trace_refused_without_bts, .group = "tracers", .ids = "", .needs = NEED_NO_DS,
     .claim = "where there is no Debug Store no tracer of a task or a CPU is to be had: -ENODEV",
     .source = "kernel/trace/trace.h")
{
	const struct bts_options options = walker_options(64);
	struct tracer *tracer = NULL;

	EXPECT_EQ(bts_attach(current_task(), &options, &tracer), -ENODEV);
	EXPECT_EQ(bts_attach_cpu(0, &options, &tracer), -ENODEV);
	EXPECT_EQ(bts_attach_all_cpus(&options, &tracer), -ENODEV);
	EXPECT(!tracer && !current_task()->trace);
}
