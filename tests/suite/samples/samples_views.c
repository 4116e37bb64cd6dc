// SPDX-License-Identifier: MIT
// The samples that a tracer may see, and those that it has at the end of its buffer.
#include "drivers/ds/ds.h"
#include "drivers/ds/pebs.h"
#include "drivers/ds/registers.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/pebs/pebs.h"
#include "kernel/trace/pebs/private.h"
#include "lib/string.h"
#include "tests/framework/pages.h"
#include "tests/framework/test.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/sampled.h"

#define MOST 400

static struct ptrace_pebs_sample samples[MOST];

static bool shows_kernel(const struct ptrace_pebs_sample *sample)
{
	bool shows = (sample->ip | sample->event_ip | sample->address) >> 63;

	for (unsigned i = 0; i < 16; i++)
		shows |= sample->general[i] >> 63;
	return shows;
}

/* Some thousands of instructions of the kernel. */
static void spin(struct sampled *sampled)
{
	(void)sampled;
	for (unsigned i = 0; i < 2000; i++)
		__asm__ volatile("");
}

/* By the event's name, or by `code`, if that is not 0. */
static size_t sample_view(unsigned view, enum sampled_kind kind, uint64_t period, uint32_t code)
{
	struct pebs_options options = sampled_options(kind, period, MOST);
	struct sampled sampled = {.visits = 20, .between = spin};
	struct tracer *tracer;
	size_t count;

	options.view = view;
	options.privileged = view & TRACE_KERNEL;
	options.raw = code;
	options.event = code ? code : options.event;
	tracer = sampled_open_traced(&sampled, &options);
	sampled_run(&sampled);
	count = pebs_read(tracer, samples, MOST);
	EXPECT(trace_detach(tracer));
	sampled_close(&sampled);
	return count;
}

/* Every other event, the system calls among them: their registers are the kernel's. */
TEST(samples_hide_the_kernel, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "a tracer of ring 3 finds no address of the kernel in any sample, also not in the "
	      "registers of a system call",
     .source = "docs/design.md#views; kernel/trace/pebs/pebs.h")
{
	size_t count, hidden = 0, shown = 0;
	/* One sample a visit, of its system call. */
	enum sampled_kind kind = sampled_portable();

	sampled_needs_exact();
	count = sample_view(TRACE_USER, kind, sampled_events(kind) - 1, 0);
	EXPECT_EQ(count, 20);
	for (size_t i = 0; i < count; i++) {
		hidden += !(samples[i].has & (PTRACE_PEBS_HAS_IP | PTRACE_PEBS_HAS_REGISTERS));
		shown += shows_kernel(&samples[i]);
	}
	/* Records of the state before show it. */
	EXPECT_EQ(hidden, ds_caps()->pebs_fault && ds_sample_has() & DS_SAMPLE_REGISTERS ? 0 : 20);
	EXPECT_EQ(shown, 0);
}

TEST(samples_of_the_kernel, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "a tracer of the kernel's events has samples of the kernel's instructions",
     .source = "docs/design.md#views; kernel/trace/pebs/pebs.h")
{
	size_t count = sample_view(TRACE_KERNEL, SAMPLED_INSTRUCTIONS, 2100, 0), shown = 0;

	EXPECT(count > 10);
	for (size_t i = 0; i < count; i++)
		shown += shows_kernel(&samples[i]);
	EXPECT(shown > count / 2);
}

/* 81D0H: MEM_INST_RETIRED.ALL_LOADS of formats 2 and later: chapter 19. */
TEST(samples_of_loads, .group = "samples", .ids = "SE1", .needs = NEED_SAMPLES,
     .claim =
	     "a sample of a load has the address where the record has one, and marks it absent else",
     .source = "SDM Vol 3, 18.11.2; include/abi/ptrace_pebs.h")
{
	bool coded = ds_caps()->pebs_format >= 2;
	bool addresses = coded && ds_sample_has() & DS_SAMPLE_ADDRESS;
	size_t count, wrong = 0;

	if (!ds_caps()->pebs_format)
		test_skip("format 0 has no event of loads");
	sampled_needs_exact();
	for (unsigned raw = 0; raw <= coded; raw++) {
		count = sample_view(TRACE_USER, SAMPLED_LOADS, 5, raw * 0x81d0);
		/* A departure makes one late by the skid: the last one beyond the end. */
		EXPECT(count == 10 || (sampled_skid() && count == 9));
		for (size_t i = 0; i < count; i++) {
			bool has = samples[i].has & PTRACE_PEBS_HAS_ADDRESS;

			wrong += has != addresses;
			wrong += samples[i].address != (has ? samples[i].general[6] : 0);
		}
	}
	EXPECT_EQ(wrong, 0);
}

/* --- The end of the buffer --- */

TEST(samples_stop_on_full, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "a tracer that stops when it is full keeps the oldest samples, each of its event, "
	      "and goes on when it is resumed",
     .source = "docs/design.md#overflow")
{
	enum sampled_kind kind = sampled_portable();
	struct pebs_options options = sampled_options(kind, 200, 30);
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = 50};
	struct pebs_status status;
	struct tracer *tracer;

	sampled_needs_exact();
	tracer = sampled_open_traced(&sampled, &options);
	sampled_run(&sampled);
	pebs_status(tracer, &status);
	EXPECT(status.full && !status.truncated);
	EXPECT_EQ(pebs_peek(tracer, 29, samples, MOST), 1);
	EXPECT_EQ(pebs_peek(tracer, 30, samples, MOST), 0);
	EXPECT_EQ(pebs_read(tracer, samples, MOST), 30);
	sampled_expect(&sampled, samples, 30, kind, 200);
	trace_resume(tracer);
	pebs_status(tracer, &status);
	EXPECT(!status.full);
	EXPECT(trace_detach(tracer));
}

static atomic_uint told;

static void tell(struct tracer *tracer, void *argument)
{
	(void)tracer;
	EXPECT(argument == &told);
	atomic_fetch_add(&told, 1);
}

static size_t read_until_ended(const struct sampled *sampled, struct tracer *tracer, unsigned *held)
{
	size_t count = 0;

	while (!((volatile struct task *)sampled->task)->ended) {
		if (trace_is_held(tracer)) {
			count += pebs_read(tracer, samples + count, MOST - count);
			++*held;
			trace_resume(tracer);
		}
		task_yield();
	}
	return count + pebs_read(tracer, samples + count, MOST - count);
}

/* Between two samples is time for an interrupt that is some hundred instructions late. */
static void sample_with_threshold(size_t size, size_t threshold, bool nmi)
{
	enum { DISTANCE = 600, CALLS = 200 };
	enum sampled_kind kind = sampled_portable();
	struct pebs_options options = sampled_options(kind, DISTANCE - 1, size);
	struct sampled sampled = {.visits = CALLS};
	struct tracer *tracer;
	unsigned held = 0;
	size_t count, expected = CALLS * sampled_events(kind) / DISTANCE;

	sampled_needs_exact();
	atomic_store(&told, 0);
	trace_deliver_pmi(nmi);
	options.overflow = TRACE_SIGNAL;
	options.threshold = threshold;
	options.overflowed = tell;
	options.argument = &told;
	tracer = sampled_open_traced(&sampled, &options);
	sampled.held = tracer;
	task_start(sampled.task);
	count = read_until_ended(&sampled, tracer, &held);
	task_join(sampled.task);
	EXPECT_EQ(count, expected);
	sampled_expect(&sampled, samples, count, kind, DISTANCE - 1);
	EXPECT_EQ(held, expected / (threshold ? threshold : size));
	EXPECT_EQ(atomic_load(&told), held);
	EXPECT(trace_detach(tracer));
	sampled_close(&sampled);
	trace_deliver_pmi(true);
}

TEST(samples_signal_exact, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "a tracer that is called at its threshold reads each sample once, whatever its "
	      "buffer, as NMI and by a fixed vector",
     .source = "docs/design.md#overflow")
{
	sample_with_threshold(1, 1, true);
	sample_with_threshold(40, 0, true);
	sample_with_threshold(40, 7, false);
}

// Refusals, after which nothing has changed; the pages that a tracer is charged.

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
	EXPECT_EQ(after.pages, before->pages);
	EXPECT_EQ(after.used, before->used);
	EXPECT_EQ(after.enable, before->enable);
	EXPECT_EQ(after.control, before->control);
	EXPECT_EQ(after.selects, before->selects);
	EXPECT_EQ(after.area, before->area);
}

/* Of a task, and of this CPU. */
static void expect_refused(struct pebs_options options, int expected)
{
	struct tracer *tracer = NULL;
	struct machine before = machine_now();

	options.account = &account;
	options.holder = holder;
	refused(pebs_attach(sampled.task, 0, &options, &tracer), expected, &before, tracer);
	EXPECT(!sampled.task->trace);
	refused(pebs_attach(NULL, this_cpu()->index, &options, &tracer), expected, &before, tracer);
	EXPECT(!this_cpu()->trace->context.tracers[TRACE_PEBS]);
}

static struct pebs_options options_now(void)
{
	return sampled_options(sampled_portable(), PERIOD, 10);
}

/* Tasks measure once how late a sample is. */
static void open_task(void)
{
	(void)options_now();
	pages_settle();
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

	pmu_rig_need_all();
	open_task();
	take_all_counters(NULL);
	expect_refused(options_now(), -EBUSY);
	EXPECT(!strcmp(holder, "somebody"));
	give_all_counters(NULL);
	smp_call(cpu_count() - 1, take_all_counters, NULL);
	holder[0] = 0;
	options = options_now();
	options.holder = holder;
	EXPECT_EQ(pebs_attach(sampled.task, 0, &options, &tracer), -EBUSY);
	EXPECT(!strcmp(holder, "somebody"));
	smp_call(cpu_count() - 1, give_all_counters, NULL);
	EXPECT_EQ(pebs_attach(sampled.task, 0, &options, &tracer), 0);
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

	pmu_rig_need_all();
	open_task();
	REQUIRE_EQ(pebs_attach(sampled.task, 0, &options, &tracer), 0);
	take_all_counters(NULL);
	sampled_run(&sampled);
	give_all_counters(NULL);
	pebs_status(tracer, &status);
	EXPECT_EQ(status.available, 0);
	EXPECT(status.blocked && !strcmp(status.holder, "somebody"));
	trace_clear(tracer);
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

	REQUIRE_EQ(pebs_attach(NULL, this_cpu()->index, options, &tracer), 0);
	EXPECT(trace_detach(tracer));
	pages = pages_left();
	REQUIRE_EQ(pebs_attach(NULL, this_cpu()->index, options, &tracer), 0);
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
	REQUIRE_EQ(pebs_attach(sampled.task, 0, &options, &tracer), 0);
	sampled_run(&sampled);
	pebs_status(tracer, &status);
	EXPECT(status.available > 0);
	EXPECT(trace_detach(tracer));
	EXPECT_EQ(account.used, 0);
}

TEST(samples_accounts, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "a tracer of samples is charged for the pages that it takes, a limit cuts it to "
	      "these, and everything is given back",
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
	EXPECT_EQ(pebs_attach(NULL, this_cpu()->index, &options, &tracer), -ENOMEM);
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
	EXPECT_EQ(pebs_attach(current_task(), 0, &options, &tracer), -ENODEV);
	EXPECT_EQ(pebs_attach(NULL, 0, &options, &tracer), -ENODEV);
	EXPECT(!tracer && !current_task()->trace);
}
