// SPDX-License-Identifier: MIT
// Samples of tasks: how many, of which events, whose.
#include "drivers/ds/pebs.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/context.h"
#include "kernel/trace/pebs/pebs.h"
#include "lib/format.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/sampled.h"

#include <stdatomic.h>

#define PERIOD	157 /* a visit has fewer events: SAMPLES periods end in the last one */
#define SAMPLES 100
#define FEW	15 /* visits */
#define MOST	256
#define RING	2000	      /* records of branches */
enum { INSTRUCTIONS = 0xc0 }; /* SDM Vol 3, table 18-1 */

static struct ptrace_pebs_sample samples[MOST];

/* As many visits as SAMPLES periods need. */
static uint64_t visits_for(enum sampled_kind kind)
{
	return (SAMPLES * (PERIOD + 1) + sampled_events(kind) - 1) / sampled_events(kind);
}

static uint64_t samples_in(const struct sampled *sampled, enum sampled_kind kind, uint64_t period)
{
	return sampled->visits * sampled_events(kind) / (period + 1);
}

/* Reads a tracer's samples and ends it; all are there, each of the right event. */
static void expect_all(const struct sampled *sampled, struct tracer *tracer, enum sampled_kind kind,
		       uint64_t period)
{
	size_t count = pebs_read(tracer, samples, MOST);
	struct pebs_status status;

	pebs_status(tracer, &status);
	EXPECT_EQ(status.lost, 0);
	EXPECT(!status.truncated && !status.blocked);
	EXPECT_EQ(count, samples_in(sampled, kind, period));
	sampled_expect(sampled, samples, count, kind, period);
	EXPECT(trace_detach(tracer));
}

static void sample_exactly(bool nmi)
{
	enum sampled_kind kind = sampled_portable();
	struct pebs_options options = sampled_options(kind, PERIOD, MOST);
	struct sampled sampled = {.visits = visits_for(kind)};
	struct tracer *tracer;

	sampled_needs_exact();
	trace_deliver_pmi(nmi);
	tracer = sampled_open_traced(&sampled, &options);
	sampled_run(&sampled);
	EXPECT_EQ(samples_in(&sampled, kind, PERIOD), SAMPLES);
	expect_all(&sampled, tracer, kind, PERIOD);
	sampled_close(&sampled);
	trace_deliver_pmi(true);
}

TEST(samples_exact_nmi, .group = "samples", .ids = "PE12 PE19", .needs = NEED_SAMPLES,
     .claim = "a task is sampled at every N+1st event that it causes, with the PMI as NMI",
     .source = "SDM Vol 3, 18.4.4; kernel/trace/pebs/pebs.h")
{
	sample_exactly(true);
}

TEST(samples_exact_fixed, .group = "samples", .ids = "PE12", .needs = NEED_SAMPLES,
     .claim = "a task is sampled at every N+1st event that it causes, with the PMI by fixed vector",
     .source = "SDM Vol 3, 18.4.4; kernel/trace/pebs/pebs.h")
{
	sample_exactly(false);
}

static void leave_overflow(void)
{
	static const struct pmu_owner owner = {.name = "test"};
	struct pmu_cpu *pmu = &this_cpu()->trace->pmu;

	REQUIRE_EQ(pmu_request(pmu, 0, &owner), 0);
	REQUIRE_EQ(pmu_start(pmu, 0, &owner, INSTRUCTIONS | PMU_OS, 1), 0);
	EXPECT_EQ(pmu_release(pmu, 0, &owner), 0);
	REQUIRE(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1);
}

/* A departure looks at what has overflowed, and is wrong about it only where the task has caused
   events since it arrived. The end of a slice may be before the first: each arrival has an
   overflow. */
static void depart(struct sampled *sampled)
{
	(void)sampled;
	task_sleep(10);
}

TEST(samples_after_an_overflow, .group = "samples", .ids = "PE12", .needs = NEED_SAMPLES,
     .claim = "a task's samples are exact where its counter's last owner left an overflow",
     .source = "SDM Vol 3, 18.2.2; drivers/pmu/pmu.h")
{
	enum sampled_kind kind = sampled_portable();
	struct pebs_options options = sampled_options(kind, PERIOD, MOST);
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = visits_for(kind),
							   .between = depart};
	struct tracer *tracer;

	sampled_needs_exact();
	if (pmu_lacks_event(INSTRUCTIONS))
		test_skip("CPUID.0AH says that instructions are not counted");
	pmu_rig_need(0);
	tracer = sampled_open_traced(&sampled, &options);
	task_start(sampled.task);
	do {
		preemption_disable();
		leave_overflow();
		preemption_enable();
		task_sleep(10);
	} while (!sampled.task->ended);
	task_join(sampled.task);
	expect_all(&sampled, tracer, kind, PERIOD);
}

/* --- A task that moves, beside a tracer of its branches --- */

static uint64_t moves;

static void move(struct sampled *sampled)
{
	unsigned from = this_cpu()->index;

	test_keep_on(sampled->task, sampled->visited % cpu_count());
	moves += this_cpu()->index != from;
}

static struct tracer *trace_branches(const struct sampled *sampled, enum trace_overflow overflow,
				     unsigned view, size_t records)
{
	struct bts_options options = {.view = view,
				      .privileged = true,
				      .overflow = overflow,
				      .size = records * sizeof(struct ptrace_bts_record)};
	struct tracer *tracer = NULL;

	REQUIRE_EQ(bts_attach(sampled->task, 0, &options, &tracer), 0);
	return tracer;
}

/* The branch that the sample is of is at its place among all branches of ring 3. */
static bool has_edge(struct tracer *branches, const struct sampled_place *place)
{
	struct ptrace_bts_record record;
	size_t count = bts_available(branches);

	return place->edge < count && !bts_get(branches, count - 1 - place->edge, &record) &&
	       record.from == place->event_ip && record.to == place->ip;
}

static void expect_edges(const struct sampled *sampled, struct tracer *tracer,
			 struct tracer *branches, enum sampled_kind kind)
{
	size_t count = pebs_peek(tracer, 0, samples, MOST);
	uint64_t taken = 0, found = 0;

	EXPECT_EQ(count, SAMPLES);
	for (size_t i = 0; i < count; i++) {
		uint64_t n = (i + 1) * (PERIOD + 1) - 1;
		struct sampled_place place;

		if (!sampled_find(sampled, kind, n, &samples[i], &place) || !place.taken)
			continue;
		taken++;
		found += has_edge(branches, &place);
	}
	EXPECT(taken > SAMPLES / 2);
	EXPECT_EQ(found, taken);
}

static void sample_one_that_moves(bool nmi)
{
	enum sampled_kind kind = sampled_portable();
	struct pebs_options options = sampled_options(kind, PERIOD, MOST);
	struct sampled sampled = {.visits = visits_for(kind), .between = move};
	struct tracer *tracer, *branches;

	sampled_needs_exact();
	moves = 0;
	trace_deliver_pmi(nmi);
	sampled_open(&sampled);
	branches = trace_branches(&sampled, TRACE_STOP, TRACE_USER, 20000);
	REQUIRE_EQ(pebs_attach(sampled.task, 0, &options, &tracer), 0);
	sampled_run(&sampled);
	expect_edges(&sampled, tracer, branches, kind);
	EXPECT(trace_detach(branches));
	expect_all(&sampled, tracer, kind, PERIOD);
	EXPECT(cpu_count() == 1 || moves > sampled.visits / 2);
	sampled_close(&sampled);
	trace_deliver_pmi(true);
}

TEST(samples_of_one_that_moves, .group = "samples", .ids = "PE12 PE15",
     .needs = NEED_BTS | NEED_SAMPLES,
     .claim = "a task that moves from CPU to CPU beside a tracer of its branches has its samples, "
	      "in order and exactly 100 of 100 * (N + 1) events, and each branch of them among its "
	      "branches: as NMI",
     .source = "SDM Vol 3, 18.4.4; docs/design.md#contexts")
{
	sample_one_that_moves(true);
}

TEST(samples_of_one_that_moves_fixed, .group = "samples", .ids = "PE12 PE15",
     .needs = NEED_BTS | NEED_SAMPLES,
     .claim = "a task that moves from CPU to CPU beside a tracer of its branches has its samples, "
	      "in order and exactly 100 of 100 * (N + 1) events, and each branch of them among its "
	      "branches: by a fixed vector",
     .source = "SDM Vol 3, 18.4.4; docs/design.md#contexts")
{
	sample_one_that_moves(false);
}

TEST(samples_beside_circular_branches, .group = "samples", .ids = "PE12",
     .needs = NEED_BTS | NEED_SAMPLES,
     .claim = "a task's samples are exact while the hardware writes its branches into a ring of "
	      "its tracer's, and that has the newest",
     .source = "SDM Vol 3, 18.4.4; docs/design.md#shapes")
{
	enum sampled_kind kind = sampled_portable();
	struct pebs_options options = sampled_options(kind, PERIOD, MOST);
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = visits_for(kind),
							   .between = move};
	struct tracer *tracer, *branches;
	struct bts_status status;

	sampled_needs_exact();
	sampled_open(&sampled);
	branches = trace_branches(&sampled, TRACE_WRAP, TRACE_USER | TRACE_KERNEL, RING);
	REQUIRE_EQ(pebs_attach(sampled.task, 0, &options, &tracer), 0);
	sampled_run(&sampled);
	bts_status(branches, &status);
	EXPECT(status.circular);
	EXPECT_EQ(status.available, RING);
	EXPECT(trace_detach(branches));
	expect_all(&sampled, tracer, kind, PERIOD);
}

/* --- A switch between the event that brings the counter to zero and the one that is sampled --- */

static atomic_bool waits, may_go_on;

/* Where the CPU is shared it has been given to the test, which lets it go on. A sleep that is over
 * before it has begun, on a slow host, switches nothing. */
static void leave_once(struct sampled *sampled)
{
	uint64_t given = sampled->task->switches;

	atomic_store(&waits, true);
	do
		task_sleep(1000);
	while (!atomic_load(&may_go_on) || sampled->task->switches == given);
}

static void run_and_leave(struct sampled *sampled)
{
	atomic_store(&waits, false);
	atomic_store(&may_go_on, false);
	task_start(sampled->task);
	while (!atomic_load(&waits))
		task_sleep(100);
	task_sleep(2000);
	atomic_store(&may_go_on, true);
	task_join(sampled->task);
}

static bool is_of_event(const struct sampled *sampled, const struct ptrace_pebs_sample *sample,
			enum sampled_kind kind, uint64_t n)
{
	struct sampled_place place = sampled_place(sampled, kind, n);

	if (!(ds_sample_has() & DS_SAMPLE_REGISTERS))
		return sample->event_ip == place.event_ip;
	return sample->general[8] == place.visit && sample->general[1] == place.rcx &&
	       (ds_caps()->pebs_fault || sample->ip == place.ip);
}

/* A period is a visit's events: the last one of the first visit, its system call, arms. */
TEST(samples_switched_while_armed, .group = "samples", .ids = "PE12", .needs = NEED_SAMPLES,
     .claim = "of a task that is switched out when its counter has reached zero and before the "
	      "sample, the sample is of one event later, and no other: their number stays exact",
     .source = "docs/ptrace-pebs.2, Exactness")
{
	enum sampled_kind kind = sampled_portable();
	uint64_t period = sampled_events(kind);
	struct pebs_options options = sampled_options(kind, period, MOST);
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = FEW, .between = leave_once};
	struct tracer *tracer;

	sampled_needs_exact();
	tracer = sampled_open_traced(&sampled, &options);
	sched_set_slice(UINT32_MAX); /* the end of a slice would switch it a second time */
	run_and_leave(&sampled);
	sched_set_slice(1000);
	REQUIRE_EQ(pebs_peek(tracer, 0, samples, 1), 1);
	if (!sampled_skid())
		EXPECT(is_of_event(&sampled, &samples[0], kind, period + 1));
	expect_all(&sampled, tracer, kind, period);
}

/* --- Several readers --- */

static void take_turns(struct sampled *sampled)
{
	(void)sampled;
	task_yield();
}

static bool are_counters_enough(void)
{
	return ds_caps()->pebs_format > 0;
}

/* Each has its counter; both reach zero at the same event, and the records have to be told apart.
 */
TEST(samples_of_two_readers, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "two readers of one task have each its own samples, by counters of their own; where "
	      "there is one counter the second is refused, and learns who has it",
     .source = "kernel/trace/pebs/pebs.h; docs/design.md#samples")
{
	enum sampled_kind kind = sampled_portable();
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = FEW, .between = move};
	struct pebs_options options = sampled_options(kind, PERIOD, MOST), other = options;
	char holder[PTRACE_PEBS_HOLDER] = "", expected[PTRACE_PEBS_HOLDER];
	struct tracer *first, *second = NULL;

	sampled_needs_exact();
	other.holder = holder;
	first = sampled_open_traced(&sampled, &options);
	EXPECT_EQ(pebs_attach(sampled.task, 0, &other, &second),
		  are_counters_enough() ? 0 : -EBUSY);
	sampled_run(&sampled);
	if (second)
		expect_all(&sampled, second, kind, PERIOD);
	format(expected, sizeof(expected), "tracer of task %u", sampled.task->pid);
	EXPECT(second || !strcmp(holder, expected));
	expect_all(&sampled, first, kind, PERIOD);
}

#define OFTEN	  12 /* branches: the period */
#define MOST_LATE (OFTEN / 2)

/*
 * Beside another event a late sample is not made up for: one that is late by `*late` events leaves
 * those after it late by as many, and each may be later still. A lost one is 12.
 */
static bool is_due(const struct sampled *sampled, const struct ptrace_pebs_sample *sample,
		   uint64_t n, uint64_t *late)
{
	struct sampled_place place;

	for (; *late <= MOST_LATE; ++*late) {
		struct sampled_place due = sampled_place(sampled, SAMPLED_BRANCHES, n + *late);

		if (sampled_find(sampled, SAMPLED_BRANCHES, n + *late, sample, &place) &&
		    place.event_ip == due.event_ip)
			return true;
	}
	return false;
}

/* Reads a tracer's samples and ends it: one of each period, to the last that is whole. */
static void expect_branches(const struct sampled *sampled, struct tracer *tracer)
{
	uint64_t events = sampled->visits * sampled_events(SAMPLED_BRANCHES), late = 0;
	size_t count = pebs_read(tracer, samples, MOST), right = 0;
	struct pebs_status status;

	pebs_status(tracer, &status);
	EXPECT_EQ(status.lost, 0);
	EXPECT(!status.truncated && !status.blocked);
	for (size_t i = 0; i < count; i++)
		right += is_due(sampled, &samples[i], (i + 1) * (OFTEN + 1) - 1, &late);
	EXPECT_EQ(right, count);
	EXPECT(count * (OFTEN + 1) + late + OFTEN + 1 >= events);
	EXPECT(trace_detach(tracer));
}

/* All are of loads; most are there, but where each interrupt of the other begins a skid again. */
static void expect_loads(const struct sampled *sampled, struct tracer *tracer)
{
	uint64_t load = sampled_place(sampled, SAMPLED_LOADS, 0).event_ip;
	size_t count = pebs_read(tracer, samples, MOST), right = 0;

	for (size_t i = 0; i < count; i++)
		right += samples[i].event_ip == load;
	EXPECT(sampled_skid() || count > samples_in(sampled, SAMPLED_LOADS, 2) / 2);
	EXPECT_EQ(right, count);
	EXPECT(trace_detach(tracer));
}

/* Of one that waits for its event while the other has many: formats 1 and 2 would name both then.
 */
TEST(samples_of_two_events, .group = "samples", .ids = "PE16", .needs = NEED_SAMPLES,
     .claim = "the samples of a rare event and those of a frequent one go each to its own reader; "
	      "where records do not say of which counter they are the second reader is refused",
     .source = "SDM Vol 3, 18.8.1.1; docs/ptrace-pebs.2")
{
	struct pebs_options often = sampled_options(SAMPLED_BRANCHES, OFTEN, MOST);
	struct pebs_options seldom = sampled_options(SAMPLED_LOADS, 2, MOST);
	bool told_apart = ds_sample_has() & DS_SAMPLE_COUNTERS;
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = FEW};
	char holder[PTRACE_PEBS_HOLDER] = "";
	struct tracer *first, *second = NULL;

	if (!are_counters_enough())
		test_skip("format 0 has one counter");
	sampled_needs_exact();
	seldom.holder = holder;
	first = sampled_open_traced(&sampled, &often);
	EXPECT_EQ(pebs_attach(sampled.task, 0, &seldom, &second), told_apart ? 0 : -EBUSY);
	EXPECT_EQ(holder[0], told_apart ? 0 : 't');
	sampled_run(&sampled);
	if (second) {
		expect_branches(&sampled, first);
		expect_loads(&sampled, second);
	} else {
		expect_all(&sampled, first, SAMPLED_BRANCHES, OFTEN);
	}
}

/* Each count of a task's events is that of its instructions, whatever ran in between. */
TEST(samples_of_two_tasks, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "two tasks that take turns on one CPU each have their own instructions' samples",
     .source = "docs/design.md#contexts")
{
	enum sampled_kind kind = sampled_portable();
	struct pebs_options options = sampled_options(kind, PERIOD, MOST);
	struct sampled both[2] = {{.number = 0}, {.number = 1}};
	struct tracer *tracers[2];

	sampled_needs_exact();
	test_pin();
	for (unsigned i = 0; i < 2; i++) {
		both[i].visits = FEW;
		both[i].between = take_turns;
		tracers[i] = sampled_open_traced(&both[i], &options);
	}
	task_start(both[0].task);
	sampled_run(&both[1]);
	task_join(both[0].task);
	for (unsigned i = 0; i < 2; i++) {
		expect_all(&both[i], tracers[i], kind, PERIOD);
		sampled_close(&both[i]);
	}
}

/* --- The CPU's own --- */

TEST(samples_of_a_cpu, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim = "a tracer of a CPU has the samples of each task that runs there, and says whose each "
	      "is",
     .source = "kernel/trace/pebs/pebs.h; docs/design.md#contexts")
{
	enum sampled_kind kind = sampled_portable();
	struct pebs_options options = sampled_options(kind, PERIOD, MOST);
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = visits_for(kind)};
	size_t count, own = 0;
	struct tracer *tracer;

	sampled_needs_exact();
	test_pin();
	sampled_open(&sampled);
	REQUIRE_EQ(pebs_attach(NULL, this_cpu()->index, &options, &tracer), 0);
	sampled_run(&sampled);
	count = pebs_read(tracer, samples, MOST);
	EXPECT_EQ(count, SAMPLES);
	sampled_expect(&sampled, samples, count, kind, PERIOD);
	for (size_t i = 0; i < count; i++)
		own += samples[i].pid_cpu ==
		       (sampled.task->pid | (uint64_t)this_cpu()->index << 32);
	EXPECT_EQ(own, count);
	EXPECT(trace_detach(tracer));
}
