// SPDX-License-Identifier: MIT
// Samples with the newest branches: the LBR group of adaptive records, and the stack that froze at
// a counter's interrupt.
#include "drivers/ds/pebs.h"
#include "drivers/lbr/lbr.h"
#include "drivers/lbr/registers.h"
#include "drivers/pmu/pmu.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/sampled.h"

#define PERIOD	157
#define SAMPLES 100
#define MOST	128
#define RECORDS 20000

#define BRANCHES_RETIRED 0x00c4 /* SDM Vol 3, table 18-1 */
#define LATEST		 400	/* branches between an event and its interrupt */

struct sample {
	struct ptrace_pebs_sample sample;
	struct ptrace_pebs_branch branch[LBR_MOST];
};

static struct sample samples[MOST];
static struct ptrace_pebs_sample plain[MOST];

static void need_branches(void)
{
	if (!lbr_caps()->depth || !ds_pebs_record_size_with(1))
		test_skip("records of samples have no entries of the LBR stack");
	if (!(lbr_caps()->select & LBR_SELECT_BY_LEVEL))
		test_skip("the kernel's branches cannot be left out: CPUID.1CH:EBX[0]");
}

/* Of ring 3 alone takes a filter. */
static void need_freeze(bool filter)
{
	if (!pmu_caps()->version || pmu_lacks_event(BRANCHES_RETIRED))
		test_skip("no counter of branches (CPUID.0AH)");
	if (!lbr_caps()->freezes)
		test_skip("no FREEZE_LBRS_ON_PMI in IA32_DEBUGCTL");
	if (filter && !(lbr_caps()->select & LBR_SELECT_BY_LEVEL))
		test_skip("no MSR_LBR_SELECT: the kernel's branches cannot be left out");
}

static struct pebs_options at_interrupts(uint64_t period)
{
	return (struct pebs_options){.event = BRANCHES_RETIRED,
				     .raw = true,
				     .interrupt = true,
				     .period = period,
				     .view = TRACE_USER,
				     .privileged = true,
				     .overflow = TRACE_STOP};
}

static uint64_t visits_for(uint64_t count)
{
	uint64_t events = sampled_events(SAMPLED_BRANCHES);

	return (count * (PERIOD + 1) + events - 1) / events;
}

static struct tracer *attach(struct task *task, unsigned branches, struct pebs_options options)
{
	struct tracer *tracer = NULL;

	options.branches = branches;
	options.size = MOST * pebs_sample_size(branches);
	REQUIRE_EQ(pebs_attach(task, 0, &options, &tracer), 0);
	return tracer;
}

/* Each with `branches` after it; ends the tracer. Returns how many. */
static size_t read_samples(struct tracer *tracer, unsigned branches)
{
	static unsigned char bytes[sizeof(samples)];
	size_t count = pebs_read(tracer, bytes, MOST), size = pebs_sample_size(branches);

	memset(samples, 0, sizeof(samples));
	for (size_t i = 0; i < count; i++)
		memcpy(&samples[i], bytes + i * size, size);
	EXPECT(trace_detach(tracer));
	return count;
}

static bool is_record(struct tracer *branches, uint64_t edge,
		      const struct ptrace_pebs_branch *branch)
{
	struct ptrace_bts_record record;
	size_t count = bts_available(branches);

	return edge < count && !bts_get(branches, count - 1 - edge, &record) &&
	       record.from == branch->from && record.to == branch->to;
}

/*
 * How many branches the sample has, each the one before it among all of ring 3: from its own on, or
 * from that before its own.
 */
static unsigned follow(struct tracer *branches, uint64_t edge, const struct sample *sample,
		       unsigned most)
{
	const struct ptrace_pebs_branch *branch = sample->branch;
	unsigned n = 0;

	if (!is_record(branches, edge, branch))
		edge--;
	for (; n < most && branch[n].from; n++)
		EXPECT(is_record(branches, edge - n, &branch[n]));
	for (unsigned i = n; i < LBR_MOST; i++)
		EXPECT(!branch[i].from && !branch[i].to && !branch[i].flags);
	return n;
}

static const struct bts_options all = {.view = TRACE_USER,
				       .privileged = true,
				       .overflow = TRACE_STOP,
				       .size = RECORDS * sizeof(struct ptrace_bts_record)};

/* A switch empties the stack: a sample soon after one has fewer. */
static void expect_branches(unsigned wanted)
{
	const struct pebs_options options = sampled_options(SAMPLED_BRANCHES, PERIOD, MOST);
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = visits_for(SAMPLES)};
	struct tracer *tracer, *branches = NULL;
	unsigned whole = 0, taken = 0;
	size_t count;

	sampled_open(&sampled);
	REQUIRE_EQ(bts_attach(sampled.task, 0, &all, &branches), 0);
	tracer = attach(sampled.task, wanted, options);
	sampled_run(&sampled);
	count = read_samples(tracer, wanted);
	EXPECT_EQ(count, SAMPLES);
	for (size_t i = 0; i < count; i++) {
		uint64_t n = (i + 1) * (PERIOD + 1) - 1;
		struct sampled_place place;

		EXPECT(samples[i].sample.has & PTRACE_PEBS_HAS_BRANCHES);
		if (!sampled_find(&sampled, SAMPLED_BRANCHES, n, &samples[i].sample, &place) ||
		    !place.taken)
			continue;
		taken++;
		whole += follow(branches, place.edge, &samples[i], wanted) == wanted;
	}
	EXPECT(taken > SAMPLES / 2);
	EXPECT(whole > taken / 2);
	EXPECT(trace_detach(branches));
}

TEST(samples_with_branches, .group = "samples", .ids = "PE121", .needs = NEED_SAMPLES | NEED_BTS,
     .claim =
	     "a sample has as many of its task's newest branches as its tracer wants, newest "
	     "first, each the one that all branches of the same run have there, and zeros after them",
     .source = "Linux 6.1, perf_event.h; docs/ptrace-pebs.2, Branches")
{
	need_branches();
	if (ds_caps()->excludes_lbr)
		test_skip("BTS and the LBR stack exclude each other");
	sampled_needs_exact();
	expect_branches(1);
	expect_branches(7);
	expect_branches(lbr_caps()->depth < 16 ? lbr_caps()->depth : 16);
	EXPECT_EQ(pebs_sample_size(LBR_MOST + 1), pebs_sample_size(lbr_caps()->depth));
}

/* The staging is as that of the other: its records have the group, what its reader gets has not. */
TEST(samples_without_branches, .group = "samples", .ids = "PE122", .needs = NEED_SAMPLES,
     .claim = "beside a tracer of samples with branches one that wants none has the same samples, "
	      "exactly, without any",
     .source = "docs/ptrace-pebs.2, Branches")
{
	const struct pebs_options options = sampled_options(SAMPLED_BRANCHES, PERIOD, MOST);
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = visits_for(SAMPLES)};
	struct tracer *with, *without;
	size_t count;

	need_branches();
	sampled_needs_exact();
	sampled_open(&sampled);
	without = attach(sampled.task, 0, options);
	with = attach(sampled.task, 5, options);
	sampled_run(&sampled);
	count = pebs_read(without, plain, MOST);
	EXPECT_EQ(count, SAMPLES);
	sampled_expect(&sampled, plain, count, SAMPLED_BRANCHES, PERIOD);
	for (size_t i = 0; i < count; i++)
		EXPECT(!(plain[i].has & PTRACE_PEBS_HAS_BRANCHES));
	EXPECT(trace_detach(without));
	EXPECT_EQ(read_samples(with, 5), SAMPLES);
	EXPECT(samples[0].branch[0].from);
}

static void take_turns(struct sampled *sampled)
{
	(void)sampled;
	task_sleep(10);
}

/*
 * The entries that an earlier task left are in the processor's registers: the sources alone are
 * emptied at a switch. A sample that copied them showed one task the addresses of another.
 */
static void expect_isolated(const struct pebs_options options, size_t least)
{
	struct sampled sampled[2] = {{.number = 1, .visits = 15, .between = take_turns},
				     {.number = 2, .visits = 15, .between = take_turns}};
	struct tracer *tracers[2];

	test_pin();
	for (unsigned i = 0; i < 2; i++) {
		sampled_open(&sampled[i]);
		tracers[i] = attach(sampled[i].task, LBR_MOST, options);
	}
	for (unsigned i = 0; i < 2; i++)
		task_start(sampled[i].task);
	for (unsigned i = 0; i < 2; i++) {
		size_t branches = 0, count;

		task_join(sampled[i].task);
		count = read_samples(tracers[i], LBR_MOST);
		for (size_t n = 0; n < count; n++)
			for (unsigned at = 0; at < LBR_MOST && samples[n].branch[at].from; at++) {
				const struct ptrace_pebs_branch *branch = &samples[n].branch[at];

				branches++;
				EXPECT(branch->from - sampled[i].start < PAGE_SIZE &&
				       branch->to - sampled[i].start < PAGE_SIZE);
			}
		EXPECT(branches > count * least);
		sampled_close(&sampled[i]);
	}
}

TEST(samples_branches_isolated, .group = "samples", .ids = "PE123", .needs = NEED_SAMPLES,
     .claim = "of two tasks that take turns on a CPU no sample has a branch of the other's, or an "
	      "address of the kernel's, whatever number its tracer wants",
     .source = "docs/design.md#views; docs/ptrace-pebs.2, Branches")
{
	need_branches();
	sampled_needs_exact();
	expect_isolated(sampled_options(SAMPLED_BRANCHES, 11, MOST), 1);
}

TEST(samples_interrupt_isolated, .group = "samples", .ids = "PE123 PE127", .needs = NEED_LBR,
     .claim = "so do samples that are taken at interrupts, each with most of a stack",
     .source = "docs/design.md#views; docs/ptrace-pebs.2, Samples at interrupts")
{
	need_freeze(true);
	expect_isolated(at_interrupts(11), lbr_caps()->depth / 2);
}

/* --- Calls that have not returned --- */

enum { OUTER = 0, INNER = 7, BODY = 13, JUMPS = 800, ROUNDS = 20 };
#define START 0x2c000000ul

/* CALL INNER; SYSCALL; INNER: CALL BODY; RET; BODY: jumps to the next instruction; RET. */
static void write_calls(uint8_t *page)
{
	static const uint8_t calls[] = {0xe8, 2, 0, 0, 0, 0x0f, 0x05, 0xe8, 1, 0, 0, 0, 0xc3};

	memcpy(page, calls, sizeof(calls));
	for (unsigned i = 0; i < JUMPS; i++) {
		page[BODY + 2 * i] = 0xeb;
		page[BODY + 2 * i + 1] = 0;
	}
	page[BODY + 2 * JUMPS] = 0xc3;
}

static void make_calls(void *argument)
{
	(void)argument;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct trap_frame frame = {.rip = START, .rsp = START + 2 * PAGE_SIZE - 64};

		do {
			user_run(&frame);
			atomic_store(&current_task()->user_break, false);
		} while (frame.vector != VECTOR_SYSCALL);
		task_yield();
	}
}

static bool is_call(const struct ptrace_pebs_branch *branch, uint64_t from, uint64_t to)
{
	return branch->from == START + from && branch->to == START + to;
}

/* From `first` on, since a stack may freeze some branches before the interrupt arrives. */
static void expect_calls(size_t count, uint64_t first)
{
	unsigned in_body = 0;

	for (size_t i = 0; i < count; i++) {
		bool precise = samples[i].sample.has & PTRACE_PEBS_HAS_EVENT_IP;
		uint64_t at = (precise ? samples[i].sample.event_ip : samples[i].sample.ip) - START;

		if (at < first || at >= BODY + 2 * JUMPS)
			continue;
		in_body++;
		EXPECT(is_call(&samples[i].branch[0], INNER, BODY));
		EXPECT(is_call(&samples[i].branch[1], OUTER, INNER));
		EXPECT_EQ(samples[i].branch[2].from, 0);
	}
	EXPECT(in_body > 0);
}

static void sample_calls(struct pebs_options options, uint64_t first)
{
	uint8_t *page = test_area(1), *stack = test_area(1);
	struct tracer *tracer;
	struct task *task;

	if (~lbr_caps()->select & (LBR_SELECT_CALL_STACK | LBR_SELECT_WITHOUT(0)))
		test_skip("no call stack, or no kinds: MSR_LBR_SELECT, CPUID.1CH:EBX");
	write_calls(page);
	code_map(START, page, VM_USER);
	code_map_data(START + PAGE_SIZE, stack, VM_USER);
	task = test_task("calls", make_calls, NULL);
	options.call_stack = true;
	tracer = attach(task, 8, options);
	task_start(task);
	task_join(task);
	expect_calls(read_samples(tracer, 8), first);
	test_task_put(task);
	code_unmap(START);
	code_unmap(START + PAGE_SIZE);
}

TEST(samples_with_calls, .group = "samples", .ids = "PE124", .needs = NEED_SAMPLES,
     .claim = "a sample of a tracer of the call stack has the calls that have not returned, newest "
	      "first, and no other, across switches of its task",
     .source = "SDM Vol 3, 17.9; docs/ptrace-pebs.2, Branches")
{
	need_branches();
	sampled_needs_exact();
	sample_calls(sampled_options(SAMPLED_BRANCHES, 17, MOST), BODY);
}

TEST(samples_interrupt_calls, .group = "samples", .ids = "PE124", .needs = NEED_LBR,
     .claim = "a sample at an interrupt, of a tracer of the call stack, has the calls that have "
	      "not returned, newest first, and no other, across switches of its task",
     .source = "SDM Vol 3, 17.9; docs/ptrace-pebs.2, Samples at interrupts")
{
	need_freeze(true);
	sample_calls(at_interrupts(17), BODY + 2 * LATEST);
}

/* --- Where the counter's interrupt arrives --- */

/* The branch, of all those of its visit, that the sample follows at once. False: there is none. */
static bool find_event(const struct sampled *sampled, const struct ptrace_pebs_sample *sample,
		       uint64_t *event)
{
	uint64_t events = sampled_events(SAMPLED_BRANCHES);
	uint64_t first = sample->general[8] * events;

	for (*event = first; *event < first + events; ++*event) {
		struct sampled_place place = sampled_place(sampled, SAMPLED_BRANCHES, *event);

		if (!place.call && place.ip == sample->ip && place.rcx == sample->general[1])
			return true;
	}
	return false;
}

/*
 * Each is after its event and before the next one's. A processor that counts what leads to ring 3
 * as its event, or too much, is known by the count: the places of its samples are in order.
 */
static void expect_places(const struct sampled *sampled, size_t count, bool exact)
{
	uint64_t last = 0, event;
	unsigned found = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t due = (i + 1) * (PERIOD + 1) - 1;

		EXPECT(plain[i].has & PTRACE_PEBS_HAS_SKID && plain[i].has & PTRACE_PEBS_HAS_TSC);
		EXPECT(!(plain[i].has & (PTRACE_PEBS_HAS_EVENT_IP | PTRACE_PEBS_HAS_BRANCHES)));
		if (!(plain[i].has & PTRACE_PEBS_HAS_IP) || !find_event(sampled, &plain[i], &event))
			continue;
		EXPECT(!found || event > last);
		EXPECT(!exact || (event >= due && event < due + PERIOD));
		last = event;
		found++;
	}
	EXPECT(found > 0);
}

TEST(samples_interrupt_counts, .group = "samples", .ids = "PE126",
     .claim = "a tracer at interrupts has a sample of each period + 1 events that a counter beside "
	      "it counts, no more and no fewer, at the event or a few later, each marked so",
     .source = "docs/ptrace-pebs.2, Samples at interrupts")
{
	struct pebs_options counting = {.event = BRANCHES_RETIRED,
					.raw = true,
					.count = true,
					.view = TRACE_USER,
					.overflow = TRACE_STOP,
					.size = sizeof(uint64_t)};
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = visits_for(SAMPLES),
							   .between = take_turns};
	struct tracer *tracer, *counter = NULL;
	struct pebs_status status;
	size_t count;

	if (!pmu_caps()->version || pmu_lacks_event(BRANCHES_RETIRED))
		test_skip("no counter of branches (CPUID.0AH)");
	pmu_rig_need_two();
	sampled_open(&sampled);
	tracer = attach(sampled.task, 0, at_interrupts(PERIOD));
	REQUIRE_EQ(pebs_attach(sampled.task, 0, &counting, &counter), 0);
	sampled_run(&sampled);
	pebs_status(counter, &status);
	count = pebs_read(tracer, plain, MOST);
	EXPECT(count >= SAMPLES);
	EXPECT_EQ(count, status.events / (PERIOD + 1));
	expect_places(&sampled, count,
		      status.events == sampled.visits * sampled_events(SAMPLED_BRANCHES));
	EXPECT(trace_detach(tracer));
	EXPECT(trace_detach(counter));
}

/* How many branches the sample has, if they are those up to `edge`; else 0. */
static unsigned ends_at(struct tracer *branches, uint64_t edge, const struct sample *sample)
{
	unsigned n = 0;

	for (; n < LBR_MOST && sample->branch[n].from; n++)
		if (n > edge || !is_record(branches, edge - n, &sample->branch[n]))
			return 0;
	return n;
}

/*
 * Those before the newest; that is the one at which the sample is, or a stack froze before: "on the
 * overflowed condition" (17.4.7), of which the manual does not say how late it interrupts.
 */
static unsigned follow_frozen(struct tracer *branches, uint64_t edge, const struct sample *sample)
{
	unsigned n = 0;

	for (unsigned late = 0; !n && late < LATEST && late < edge; late++)
		n = ends_at(branches, edge - late, sample);
	EXPECT(n);
	for (unsigned i = n; n && i < LBR_MOST; i++)
		EXPECT(!sample->branch[i].from && !sample->branch[i].to &&
		       !sample->branch[i].flags);
	return n;
}

static void expect_frozen(unsigned wanted)
{
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = visits_for(SAMPLES)};
	struct tracer *tracer, *branches = NULL;
	unsigned whole = 0, taken = 0;
	uint64_t event;
	size_t count;

	sampled_open(&sampled);
	REQUIRE_EQ(bts_attach(sampled.task, 0, &all, &branches), 0);
	tracer = attach(sampled.task, wanted, at_interrupts(PERIOD));
	sampled_run(&sampled);
	count = read_samples(tracer, wanted);
	for (size_t i = 0; i < count; i++) {
		struct sampled_place place;

		EXPECT(samples[i].sample.has & PTRACE_PEBS_HAS_BRANCHES);
		if (!find_event(&sampled, &samples[i].sample, &event))
			continue;
		place = sampled_place(&sampled, SAMPLED_BRANCHES, event);
		if (!place.taken)
			continue;
		taken++;
		whole += follow_frozen(branches, place.edge, &samples[i]) == wanted;
	}
	EXPECT(taken > 0);
	EXPECT(whole > taken / 2);
	EXPECT(trace_detach(branches));
}

/* All of a stack would not be there if the interrupt's return had taken an entry of it. */
TEST(samples_interrupt_branches, .group = "samples", .ids = "PE127", .needs = NEED_LBR | NEED_BTS,
     .claim = "a sample at an interrupt has as many of its task's newest branches as its tracer "
	      "wants, all of the stack too, newest first, each the one that all branches of the "
	      "same run have there",
     .source = "SDM Vol 3, 17.4.7; docs/ptrace-pebs.2, Samples at interrupts")
{
	need_freeze(true);
	if (ds_caps()->excludes_lbr)
		test_skip("BTS and the LBR stack exclude each other");
	expect_frozen(1);
	expect_frozen(7);
	expect_frozen(lbr_caps()->depth);
}

/* 2000 branches, each to where it is from. */
static void turn_in_kernel(struct sampled *sampled)
{
	uint64_t left = 2000;

	(void)sampled;
	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(left) : : "cc");
}

/* The interrupt's handler has run some hundred branches before anything can read the stack. */
TEST(samples_interrupt_kernel, .group = "samples", .ids = "PE128", .needs = NEED_LBR,
     .claim = "a sample at an interrupt of the kernel has the branches that led to it, and none of "
	      "the interrupt's own",
     .source = "SDM Vol 3, 17.4.7; docs/ptrace-pebs.2, Samples at interrupts")
{
	struct pebs_options options = at_interrupts(2100);
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = SAMPLES,
							   .between = turn_in_kernel};
	unsigned of_kernel = 0, led = 0;
	struct tracer *tracer;
	size_t count;

	need_freeze(false);
	options.view = TRACE_USER | TRACE_KERNEL;
	sampled_open(&sampled);
	tracer = attach(sampled.task, 4, options);
	sampled_run(&sampled);
	count = read_samples(tracer, 4);
	for (size_t i = 0; i < count; i++) {
		uint64_t ip = samples[i].sample.ip, to = samples[i].branch[0].to;

		of_kernel += (unsigned)(ip >> 63);
		led += ip >> 63 && to <= ip && ip - to < 256;
	}
	EXPECT(of_kernel > SAMPLES / 2);
	EXPECT(led > of_kernel / 2);
}

/* --- What is refused --- */

static void refuse(struct task *task, struct pebs_options options, int error)
{
	char holder[PTRACE_PEBS_HOLDER] = "";
	struct tracer *tracer = NULL;

	options.holder = holder;
	options.size = MOST * pebs_sample_size(options.branches);
	EXPECT_EQ(pebs_attach(task, 0, &options, &tracer), error);
	EXPECT(error != -EBUSY || !strcmp(holder, "tracer of the newest branches"));
}

TEST(samples_branches_refused, .group = "samples", .ids = "PE125", .needs = NEED_SAMPLES,
     .claim =
	     "branches are refused where records have none, kinds and a call stack without "
	     "branches, and kinds that a tracer of the newest branches of the same task does not want",
     .source = "kernel/trace/pebs/pebs.h")
{
	struct pebs_options options = sampled_options(sampled_portable(), PERIOD, MOST);
	const struct branch_stack_options returns = {.kinds = PTRACE_LBR_RETURN, .entries = 4};
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = 1};
	struct tracer *newest = NULL;

	sampled_open(&sampled);
	options.kinds = PTRACE_LBR_CALL;
	refuse(sampled.task, options, -EINVAL);
	options.kinds = 0;
	options.call_stack = true;
	refuse(sampled.task, options, -EINVAL);
	options.call_stack = false;
	options.branches = 4;
	if (!lbr_caps()->depth || !ds_pebs_record_size_with(1)) {
		refuse(sampled.task, options, -EOPNOTSUPP);
		return;
	}
	options.kinds = PTRACE_LBR_KINDS + 1;
	refuse(sampled.task, options, -EINVAL);
	options.kinds = PTRACE_LBR_CALL;
	options.call_stack = true;
	refuse(sampled.task, options, -EINVAL);
	options.call_stack = false;
	if (~lbr_caps()->select & (LBR_SELECT_BY_LEVEL | LBR_SELECT_WITHOUT(0))) {
		refuse(sampled.task, options, -EOPNOTSUPP);
		return;
	}
	REQUIRE_EQ(branch_stack_attach(sampled.task, 0, &returns, &newest), 0);
	refuse(sampled.task, options, -EBUSY);
	options.kinds = PTRACE_LBR_RETURN;
	EXPECT(trace_detach(attach(sampled.task, 4, options)));
	EXPECT(trace_detach(newest));
}

TEST(samples_interrupt_refused, .group = "samples", .ids = "PE125",
     .claim = "samples at interrupts are refused without counters, with a count, and with a period "
	      "of which the counter holds one event less; their branches where no stack freezes or "
	      "leaves out what the view does; PEBS they do not need",
     .source = "kernel/trace/pebs/pebs.h")
{
	struct pebs_options options = at_interrupts(PERIOD);
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = 1};
	bool filter = lbr_caps()->select & LBR_SELECT_BY_LEVEL;

	sampled_open(&sampled);
	if (!pmu_caps()->version || pmu_lacks_event(BRANCHES_RETIRED)) {
		refuse(sampled.task, options, pmu_caps()->version ? -EOPNOTSUPP : -ENODEV);
		return;
	}
	EXPECT(trace_detach(attach(sampled.task, 0, options)));
	options.count = true;
	options.period = 0;
	refuse(sampled.task, options, -EINVAL);
	options.count = false;
	options.period = PMU_LARGEST_PERIOD;
	refuse(sampled.task, options, -EINVAL);
	options.period--;
	EXPECT(trace_detach(attach(sampled.task, 0, options)));
	options.overflow = TRACE_WRAP;
	refuse(sampled.task, options, -EOPNOTSUPP);
	options.overflow = TRACE_STOP;
	options.kinds = PTRACE_LBR_CALL;
	refuse(sampled.task, options, -EINVAL);
	options.kinds = 0;
	options.branches = 4;
	if (lbr_caps()->depth && lbr_caps()->freezes && filter)
		EXPECT(trace_detach(attach(sampled.task, 4, options)));
	else
		refuse(sampled.task, options, -EOPNOTSUPP);
}
