// SPDX-License-Identifier: MIT
// Samples with the newest branches: the LBR group of adaptive records.
#include "drivers/ds/pebs.h"
#include "drivers/lbr/lbr.h"
#include "drivers/lbr/registers.h"
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
#include "tests/lib/sampled.h"

#define PERIOD	157
#define SAMPLES 100
#define MOST	128
#define RECORDS 20000

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
	REQUIRE_EQ(pebs_attach(task, &options, &tracer), 0);
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

/* A switch empties the stack: a sample soon after one has fewer. */
static void expect_branches(unsigned wanted)
{
	const struct pebs_options options = sampled_options(SAMPLED_BRANCHES, PERIOD, MOST);
	const struct bts_options all = {.view = TRACE_USER,
					.privileged = true,
					.overflow = TRACE_STOP,
					.size = RECORDS * sizeof(struct ptrace_bts_record)};
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = visits_for(SAMPLES)};
	struct tracer *tracer, *branches = NULL;
	unsigned whole = 0, taken = 0;
	size_t count;

	sampled_open(&sampled);
	REQUIRE_EQ(bts_attach(sampled.task, &all, &branches), 0);
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
	sampled_needs_exact();
	expect_branches(1);
	expect_branches(7);
	expect_branches(16);
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
	task_yield();
}

/*
 * The entries that an earlier task left are in the processor's registers: the sources alone are
 * emptied at a switch. A sample that copied them showed one task the addresses of another.
 */
TEST(samples_branches_isolated, .group = "samples", .ids = "PE123", .needs = NEED_SAMPLES,
     .claim = "of two tasks that take turns on a CPU no sample has a branch of the other's, or an "
	      "address of the kernel's, whatever number its tracer wants",
     .source = "docs/design.md#views; docs/ptrace-pebs.2, Branches")
{
	const struct pebs_options options = sampled_options(SAMPLED_BRANCHES, 11, MOST);
	struct sampled sampled[2] = {{.number = 1, .visits = 15, .between = take_turns},
				     {.number = 2, .visits = 15, .between = take_turns}};
	struct tracer *tracers[2];

	need_branches();
	sampled_needs_exact();
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
		EXPECT(branches > count);
		sampled_close(&sampled[i]);
	}
}

/* --- Calls that have not returned --- */

enum { OUTER = 0, INNER = 7, BODY = 13, JUMPS = 40, ROUNDS = 60 };
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

static void expect_calls(size_t count)
{
	unsigned in_body = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t at = samples[i].sample.event_ip - START;

		if (at < BODY || at >= BODY + 2 * JUMPS)
			continue;
		in_body++;
		EXPECT(is_call(&samples[i].branch[0], INNER, BODY));
		EXPECT(is_call(&samples[i].branch[1], OUTER, INNER));
		EXPECT_EQ(samples[i].branch[2].from, 0);
	}
	EXPECT(in_body > ROUNDS);
}

TEST(samples_with_calls, .group = "samples", .ids = "PE124", .needs = NEED_SAMPLES,
     .claim = "a sample of a tracer of the call stack has the calls that have not returned, newest "
	      "first, and no other, across switches of its task",
     .source = "SDM Vol 3, 17.9; docs/ptrace-pebs.2, Branches")
{
	struct pebs_options options = sampled_options(SAMPLED_BRANCHES, 17, MOST);
	uint8_t *page = test_area(1), *stack = test_area(1);
	struct tracer *tracer;
	struct task *task;

	need_branches();
	if (!(lbr_caps()->select & LBR_SELECT_CALL_STACK))
		test_skip("no EN_CALLSTACK in MSR_LBR_SELECT");
	sampled_needs_exact();
	write_calls(page);
	code_map(START, page, VM_USER);
	code_map_data(START + PAGE_SIZE, stack, VM_USER);
	task = task_create_stopped("calls", make_calls, NULL);
	REQUIRE(task);
	options.call_stack = true;
	tracer = attach(task, 8, options);
	task_start(task);
	task_join(task);
	expect_calls(read_samples(tracer, 8));
	task_put(task);
	code_unmap(START);
	code_unmap(START + PAGE_SIZE);
}

/* --- What is refused --- */

static void refuse(struct task *task, struct pebs_options options, int error)
{
	char holder[PTRACE_PEBS_HOLDER] = "";
	struct tracer *tracer = NULL;

	options.holder = holder;
	options.size = MOST * pebs_sample_size(options.branches);
	EXPECT_EQ(pebs_attach(task, &options, &tracer), error);
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
	REQUIRE_EQ(branch_stack_attach(sampled.task, &returns, &newest), 0);
	refuse(sampled.task, options, -EBUSY);
	options.kinds = PTRACE_LBR_RETURN;
	EXPECT(trace_detach(attach(sampled.task, 4, options)));
	EXPECT(trace_detach(newest));
}
