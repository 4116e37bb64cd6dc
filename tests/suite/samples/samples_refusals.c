// SPDX-License-Identifier: MIT
// Refusals, after which nothing has changed; the pages that a tracer is charged.
#include "drivers/ds/registers.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/pebs/private.h"
#include "lib/string.h"
#include "tests/framework/pages.h"
#include "tests/framework/test.h"
#include "tests/lib/sampled.h"

#define PERIOD 50

static struct trace_account account;
static struct sampled sampled;
static char holder[PTRACE_PEBS_HOLDER];

/* The state that no refusal may change. */
struct machine {
	uint64_t pages, used, enable, control, selects, area;
};

static struct machine machine_now(void)
{
	struct machine now = {.pages = pages_left(), .used = account.used};

	now.enable = rdmsr(IA32_PEBS_ENABLE);
	now.control = rdmsr(IA32_PERF_GLOBAL_CTRL);
	now.area = rdmsr(IA32_DS_AREA);
	for (unsigned i = 0; i < pmu_caps()->general; i++)
		now.selects |= rdmsr(IA32_PERFEVTSEL0 + i);
	return now;
}

static void refused(int error, int expected, const struct machine *before,
		    const struct tracer *tracer)
{
	struct machine after = machine_now();

	EXPECT_EQ(error, expected);
	EXPECT(!tracer);
	EXPECT(!memcmp(before, &after, sizeof(after)));
}

/* Of a task, and of this CPU. */
static void expect_refused(struct pebs_options options, int expected)
{
	struct tracer *tracer = NULL;
	struct machine before = machine_now();

	options.account = &account;
	options.holder = holder;
	refused(pebs_attach(sampled.task, &options, &tracer), expected, &before, tracer);
	EXPECT(!sampled.task->trace);
	refused(pebs_attach_cpu(this_cpu()->index, &options, &tracer), expected, &before, tracer);
	EXPECT(!this_cpu()->trace->context.tracers[TRACE_PEBS]);
}

static struct pebs_options options_now(void)
{
	return sampled_options(sampled_portable(), PERIOD, 10);
}

static void open_task(void)
{
	account = (struct trace_account){.limit = SIZE_MAX};
	sampled = (struct sampled){.visits = 1};
	test_pin();
	sampled_open(&sampled);
}

#define EXPECT_REFUSED(member, value, expected)                                                    \
	do {                                                                                       \
		struct pebs_options refused_options = options_now();                               \
                                                                                                   \
		refused_options.member = (value);                                                  \
		expect_refused(refused_options, expected);                                         \
	} while (0)

static void ignore(struct tracer *tracer, void *argument)
{
	(void)tracer, (void)argument;
}

TEST(samples_refuse_values, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "unknown events, counters that are not there, periods of 0 or beyond the counter and "
	      "buffers too small for a sample are refused, and nothing has changed",
     .source = "kernel/trace/pebs/pebs.h")
{
	struct pebs_options options;

	open_task();
	EXPECT_REFUSED(event, 0, -EINVAL);
	EXPECT_REFUSED(event, PTRACE_PEBS_EVENTS, -EINVAL);
	EXPECT_REFUSED(event, UINT32_MAX, -EINVAL);
	EXPECT_REFUSED(period, 0, -EINVAL);
	EXPECT_REFUSED(period, 1, -EINVAL);
	EXPECT_REFUSED(period, PMU_LARGEST_PERIOD + 1, -EINVAL);
	EXPECT_REFUSED(period, UINT64_MAX, -EINVAL);
	EXPECT_REFUSED(counters, 1ull << pmu_caps()->general, -EINVAL);
	EXPECT_REFUSED(counters, 1ull << 32, -EINVAL);
	EXPECT_REFUSED(counters, UINT64_MAX, -EINVAL);
	EXPECT_REFUSED(size, sizeof(struct ptrace_pebs_sample) - 1, -EINVAL);
	EXPECT_REFUSED(size, 0, -EINVAL);
	EXPECT_REFUSED(size, UINT64_MAX, -EINVAL);
	EXPECT_REFUSED(threshold, 11, -EINVAL);
	EXPECT_REFUSED(view, 4, -EINVAL);
	EXPECT_REFUSED(overflow, TRACE_STOP + 1, -EINVAL);
	options = options_now();
	options.view = TRACE_KERNEL;
	options.period = 1999;
	expect_refused(options, -EINVAL);
	options.period = 2000;
	options.privileged = false;
	expect_refused(options, -EPERM);
	account.limit = PAGE_SIZE;
	expect_refused(options_now(), -ENOMEM);
	sampled_close(&sampled);
}

TEST(samples_refuse_circular, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "a circular buffer of samples is refused, and so is a threshold without a callback: "
	      "-EOPNOTSUPP",
     .source = "SDM Vol 3, 18.15; kernel/trace/pebs/pebs.h")
{
	struct pebs_options options;

	open_task();
	EXPECT_REFUSED(overflow, TRACE_WRAP, -EOPNOTSUPP);
	options = options_now();
	options.overflow = TRACE_WRAP;
	options.overflowed = ignore;
	expect_refused(options, -EOPNOTSUPP);
	EXPECT_REFUSED(overflow, TRACE_SIGNAL, -EOPNOTSUPP);
	sampled_close(&sampled);
}

/* --- Counters and the half of the Debug Store that others have --- */

static const struct pmu_owner somebody = {.name = "somebody"};

static void take_all_counters(void *argument)
{
	(void)argument;
	for (unsigned i = 0; i < pmu_caps()->general; i++)
		EXPECT_EQ(pmu_request(&this_cpu()->trace->pmu, i, &somebody), 0);
}

static void give_all_counters(void *argument)
{
	(void)argument;
	for (unsigned i = 0; i < pmu_caps()->general; i++)
		EXPECT_EQ(pmu_release(&this_cpu()->trace->pmu, i, &somebody), 0);
}

/* A task may go to any CPU: the last one counts too. */
TEST(samples_refused_counter, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "where another has the counters of a CPU a tracer is refused with -EBUSY, learns the "
	      "holder's name, and has changed nothing",
     .source = "kernel/trace/pebs/pebs.h; drivers/pmu/pmu.h")
{
	struct pebs_options options;
	struct tracer *tracer = NULL;

	open_task();
	take_all_counters(NULL);
	expect_refused(options_now(), -EBUSY);
	EXPECT(!strcmp(holder, "somebody"));
	give_all_counters(NULL);
	smp_call(cpu_count() - 1, take_all_counters, NULL);
	holder[0] = 0;
	options = options_now();
	options.holder = holder;
	EXPECT_EQ(pebs_attach(sampled.task, &options, &tracer), -EBUSY);
	EXPECT(!strcmp(holder, "somebody"));
	smp_call(cpu_count() - 1, give_all_counters, NULL);
	EXPECT_EQ(pebs_attach(sampled.task, &options, &tracer), 0);
	EXPECT(trace_detach(tracer));
	sampled_close(&sampled);
}

static void never(struct ds_pebs_lease *lease, void *argument)
{
	(void)lease, (void)argument;
}

TEST(samples_refused_half, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim =
	     "where another has the PEBS half of the Debug Store a tracer of samples is refused "
	     "with -EBUSY and the holder's name; BTS is traced meanwhile, by who knows nothing of it",
     .source = "kernel/trace/pebs/pebs.h; drivers/ds/pebs.h")
{
	struct ds_pebs_lease lease = {.cpu = NULL};
	struct ds_pebs_request request = {
		.bytes = PAGE_SIZE, .margin = 1, .name = "another profiler", .tell = never};

	open_task();
	request.buffer = test_area(1);
	EXPECT_EQ(ds_request_pebs(&this_cpu()->trace->ds, &lease, &request), 0);
	expect_refused(options_now(), -EBUSY);
	EXPECT(!strcmp(holder, "another profiler"));
	EXPECT_EQ(ds_release_pebs(&this_cpu()->trace->ds, &lease), 0);
	sampled_close(&sampled);
}

/* A counter that goes away while a tracer that could have it does not run. */
TEST(samples_blocked, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "a tracer whose counter another takes meanwhile takes no samples, says so and names "
	      "the holder",
     .source = "kernel/trace/pebs/pebs.h")
{
	struct pebs_options options = options_now();
	struct pebs_status status;
	struct tracer *tracer = NULL;

	open_task();
	REQUIRE_EQ(pebs_attach(sampled.task, &options, &tracer), 0);
	take_all_counters(NULL);
	sampled_run(&sampled);
	give_all_counters(NULL);
	pebs_status(tracer, &status);
	EXPECT_EQ(status.available, 0);
	EXPECT(status.blocked && !strcmp(status.holder, "somebody"));
	pebs_clear(tracer);
	pebs_status(tracer, &status);
	EXPECT(!status.blocked && !status.holder[0]);
	EXPECT(trace_detach(tracer));
	sampled_close(&sampled);
}

/* --- Memory --- */

static struct tracer *attach_counted(const struct pebs_options *options)
{
	size_t used = account.used;
	struct tracer *tracer;
	uint64_t pages;

	REQUIRE_EQ(pebs_attach_cpu(this_cpu()->index, options, &tracer), 0);
	EXPECT(trace_detach(tracer));
	pages = pages_left();
	REQUIRE_EQ(pebs_attach_cpu(this_cpu()->index, options, &tracer), 0);
	EXPECT_EQ(account.used - used, (pages - pages_left()) * PAGE_SIZE);
	return tracer;
}

/* A control: the pages that are charged are those that samples go to. */
static void expect_samples(void)
{
	struct pebs_options options = options_now();
	struct pebs_status status;
	struct tracer *tracer;

	account.limit = SIZE_MAX;
	options.account = &account;
	REQUIRE_EQ(pebs_attach(sampled.task, &options, &tracer), 0);
	sampled_run(&sampled);
	pebs_status(tracer, &status);
	EXPECT(status.available > 0);
	EXPECT(trace_detach(tracer));
	EXPECT_EQ(account.used, 0);
}

TEST(samples_accounts, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim =
	     "a tracer of samples is charged for the pages that it takes, a limit cuts it to these, "
	     "and everything is given back",
     .source = "docs/design.md#accounts")
{
	struct pebs_options options = options_now();
	struct pebs_status status;
	struct tracer *tracer;

	open_task();
	options.account = &account;
	EXPECT(trace_detach(attach_counted(&options)));
	options.overflow = TRACE_SIGNAL;
	options.overflowed = ignore;
	EXPECT(trace_detach(attach_counted(&options)));
	EXPECT_EQ(account.used, 0);
	options.cut_size = true;
	options.size = 100000 * sizeof(struct ptrace_pebs_sample);
	account.limit = 40 * PAGE_SIZE + 1;
	tracer = attach_counted(&options);
	EXPECT_EQ(account.used, 40 * PAGE_SIZE);
	pebs_status(tracer, &status);
	EXPECT(trace_detach(tracer));
	options.cut_size = false;
	options.size = status.size + sizeof(struct ptrace_pebs_sample);
	EXPECT_EQ(pebs_attach_cpu(this_cpu()->index, &options, &tracer), -ENOMEM);
	EXPECT_EQ(account.used, 0);
	expect_samples();
	sampled_close(&sampled);
}

TEST(samples_refused_without_pebs, .group = "samples", .ids = "", .needs = 0,
     .claim =
	     "where there is no Debug Store, or no counter that PEBS could use, no tracer of samples is to be had: -ENODEV",
     .source = "kernel/trace/pebs/pebs.h")
{
	struct pebs_options options = sampled_options(SAMPLED_BRANCHES, PERIOD, 10);
	struct tracer *tracer = NULL;

	if (pebs_present())
		test_skip("the processor takes samples");
	EXPECT_EQ(pebs_attach(current_task(), &options, &tracer), -ENODEV);
	EXPECT_EQ(pebs_attach_cpu(0, &options, &tracer), -ENODEV);
	EXPECT(!tracer && !current_task()->trace);
}
