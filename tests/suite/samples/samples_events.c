// SPDX-License-Identifier: MIT
// Events by their codes, counters that take no samples, and whose turn it is at a counter.
#include "drivers/ds/pebs.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/task.h"
#include "kernel/trace/context.h"
#include "kernel/trace/pebs/pebs.h"
#include "lib/format.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/sampled.h"

enum { PERIOD = 157, MOST = 256, FEW = 15 };
enum { GOLDMONT_PLUS = 0x7a, ARCHITECTURAL = 7 };

/* SDM Vol 3, tables 18-1 and 18-8. */
enum { CYCLES = 0x003c, INSTRUCTIONS = 0x00c0 };

static struct ptrace_pebs_sample samples[MOST];

/* BR_INST_RETIRED.ALL_BRANCHES, or INST_RETIRED.ANY_P where branches are no precise event: SDM
   Vol 3, tables 18-10, 18-12, 18-19, 18-22 and chapter 19. */
static uint32_t portable_code(void)
{
	uint32_t signature = cpuid(1, 0).eax;
	unsigned model = (signature >> 4 & 0xf) | (signature >> 12 & 0xf0);

	if (!ds_caps()->pebs_format)
		return INSTRUCTIONS;
	if (ds_caps()->pebs_format >= 4 || ds_configuration->pebs_reserved ||
	    model == GOLDMONT_PLUS)
		return 0x00c4;
	return 0x04c4;
}

static struct pebs_options options_of_code(uint32_t code, uint64_t period)
{
	struct pebs_options options = sampled_options(sampled_portable(), period, MOST);

	options.event = code;
	options.raw = true;
	return options;
}

/* A tracer that counts what ring 3 causes. */
static struct pebs_options counting(uint32_t code)
{
	struct pebs_options options = options_of_code(code, PERIOD);

	options.period = 0;
	options.count = true;
	return options;
}

static uint64_t events_of(struct tracer *tracer)
{
	struct pebs_status status;

	pebs_status(tracer, &status);
	EXPECT_EQ(status.available, 0);
	return status.events;
}

static void move(struct sampled *sampled)
{
	test_keep_on(sampled->task, sampled->visited % cpu_count());
}

/* Reads a tracer's samples and ends it; all are there, each of the right event. */
static void expect_all(const struct sampled *sampled, struct tracer *tracer, uint64_t period)
{
	enum sampled_kind kind = sampled_portable();
	size_t count = pebs_read(tracer, samples, MOST);

	EXPECT_EQ(count, sampled->visits * sampled_events(kind) / (period + 1));
	sampled_expect(sampled, samples, count, kind, period);
	EXPECT(trace_detach(tracer));
}

/* --- Codes --- */

TEST(samples_by_code, .group = "samples", .ids = "SE1", .needs = NEED_SAMPLES,
     .claim = "an event by its code is sampled as by its name, and beside it",
     .source = "docs/ptrace-pebs.2; SDM Vol 3, chapter 19")
{
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = FEW, .between = move};
	struct pebs_options raw = options_of_code(portable_code(), PERIOD);
	struct pebs_options named = sampled_options(sampled_portable(), PERIOD, MOST);
	struct tracer *by_code = NULL, *by_name = NULL;

	if (pmu_lacks_event(portable_code()))
		test_skip("CPUID.0AH:EBX says that branches are not counted");
	sampled_needs_exact();
	by_code = sampled_open_traced(&sampled, &raw);
	if (ds_caps()->pebs_format)
		EXPECT_EQ(pebs_attach(sampled.task, 0, &named, &by_name), 0);
	sampled_run(&sampled);
	expect_all(&sampled, by_code, PERIOD);
	if (by_name)
		expect_all(&sampled, by_name, PERIOD);
}

/* BR_INST_RETIRED.COND_TAKEN of Ice Lake and later cores: the loop's, which its last round does not
   take. False: the code is another event here, as of an Atom, and counts something else. */
static bool sample_taken_loops(void)
{
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = FEW};
	struct pebs_options options = options_of_code(0x01c4, 4), counted = counting(0x01c4);
	uint64_t events = FEW * (SAMPLED_ROUNDS - 1);
	struct tracer *tracer, *counter;
	size_t count, right = 0;
	bool is_known;

	counter = sampled_open_traced(&sampled, &counted);
	REQUIRE_EQ(pebs_attach(sampled.task, 0, &options, &tracer), 0);
	sampled_run(&sampled);
	count = pebs_read(tracer, samples, MOST);
	is_known = events_of(counter) == events;
	EXPECT(!is_known || count == events / 5);
	for (size_t i = 0; i < count; i++)
		right += samples[i].ip == (ds_caps()->pebs_fault ? 0 : sampled.start);
	EXPECT(!is_known || right == count);
	EXPECT(trace_detach(tracer));
	EXPECT(trace_detach(counter));
	return is_known;
}

TEST(samples_without_a_name, .group = "samples", .ids = "SE1", .needs = NEED_SAMPLES,
     .claim = "an event that has no name here is sampled by its code",
     .source = "SDM Vol 3, chapter 19; docs/ptrace-pebs.2")
{
	if (!ds_caps()->pebs_baseline)
		test_skip("no PEBS_BASELINE");
	sampled_needs_exact();
	if (sampled_skid())
		test_skip("samples are late by more events than a visit has");
	if (!sample_taken_loops())
		test_skip("C4H, 01H is another event of this processor");
}

static void expect_refused(const struct sampled *sampled, const struct pebs_options *options,
			   int expected)
{
	struct tracer *tracer = NULL;

	EXPECT_EQ(pebs_attach(sampled->task, 0, options, &tracer), expected);
	EXPECT(!tracer && !sampled->task->trace);
}

static void expect_code_refused(const struct sampled *sampled, uint32_t code, int expected)
{
	struct pebs_options options = options_of_code(code, PERIOD);

	expect_refused(sampled, &options, expected);
}

/* The bits of a select that are the kernel's, or of what it does not offer: USR, OS, PC, INT,
   AnyThread, EN. */
TEST(samples_refuse_codes, .group = "samples", .ids = "SE2 SE3", .needs = NEED_SAMPLES,
     .claim =
	     "of a code bits of the kernel's are refused, for samples CMASK, INV and E as well: -EINVAL; one that is not known as precise: -ENOENT",
     .source = "SDM Vol 3, 18.8.1.1; docs/ptrace-pebs.2")
{
	static const uint8_t reserved[] = {16, 17, 19, 20, 21, 22},
			     counting_only[] = {18, 23, 24, 31};
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = 1};
	uint32_t code = portable_code();
	struct pebs_options options;

	sampled_skid();
	test_pin();
	sampled_open(&sampled);
	expect_code_refused(&sampled, 0, -EINVAL);
	for (unsigned i = 0; i < sizeof(reserved); i++) {
		expect_code_refused(&sampled, code | 1u << reserved[i], -EINVAL);
		options = counting(code | 1u << reserved[i]);
		expect_refused(&sampled, &options, -EINVAL);
	}
	for (unsigned i = 0; i < sizeof(counting_only); i++)
		expect_code_refused(&sampled, code | 1u << counting_only[i], -EINVAL);
	expect_code_refused(&sampled, 0xffff, -ENOENT);
	expect_code_refused(&sampled, 0x04c4 ^ (code == 0x04c4 ? 0x3c00 : 0), -ENOENT);
	/* Two levels of cache at a time; MEM_LOAD_UOPS_L3_MISS_RETIRED, of Haswell's list alone. */
	expect_code_refused(&sampled, 0x03d1, -ENOENT);
	if (ds_caps()->pebs_format != 2)
		expect_code_refused(&sampled, 0x01d3, -ENOENT);
}

/* An event that leaf 0AH says is there can be counted; one that it says is not is refused. */
TEST(samples_absent_events, .group = "samples", .ids = "SE4", .needs = NEED_SAMPLES,
     .claim =
	     "an architectural event is counted if leaf 0AH says that it is available, and refused else: -EOPNOTSUPP",
     .source = "SDM Vol 2, CPUID; SDM Vol 3, table 18-1")
{
	static const uint16_t events[ARCHITECTURAL] = {0x003c, 0x00c0, 0x013c, 0x4f2e,
						       0x412e, 0x00c4, 0x00c5};
	struct cpuid_result leaf = cpuid(0xa, 0);
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = 1};
	unsigned available = 0;

	sampled_skid();
	test_pin();
	sampled_open(&sampled);
	for (unsigned i = 0; i < ARCHITECTURAL; i++) {
		bool absent = leaf.eax >> 24 <= i || leaf.ebx >> i & 1;
		struct pebs_options options = counting(events[i]);
		struct tracer *tracer = NULL;

		if (absent) {
			expect_refused(&sampled, &options, -EOPNOTSUPP);
			options.event |= 1u << 24;
			expect_refused(&sampled, &options, -EOPNOTSUPP);
			expect_code_refused(&sampled, events[i], -EOPNOTSUPP);
			continue;
		}
		available++;
		REQUIRE_EQ(pebs_attach(sampled.task, 0, &options, &tracer), 0);
		EXPECT(trace_detach(tracer));
	}
	EXPECT(available > 0);
}

/* --- Counting --- */

static void need_event(uint32_t code)
{
	if (pmu_lacks_event(code))
		test_skip("CPUID.0AH says that event %x is not counted", code);
}

static uint64_t count_visit(bool interrupted)
{
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = 1, .interrupted = interrupted};
	struct pebs_options options = counting(INSTRUCTIONS);
	struct tracer *tracer;
	uint64_t events;

	tracer = sampled_open_traced(&sampled, &options);
	sampled_run(&sampled);
	events = events_of(tracer);
	EXPECT(trace_detach(tracer));
	EXPECT(events < 2 * sampled_events(SAMPLED_INSTRUCTIONS)); /* none of the kernel's */
	return events;
}

static void need_exact_instructions(void)
{
	need_event(INSTRUCTIONS);
	sampled_needs_exact();
	if (count_visit(true) != count_visit(false))
		test_skip("an interrupt of ring 3 is an instruction of ring 3");
}

TEST(samples_count_exactly, .group = "samples", .ids = "SE5", .needs = NEED_SAMPLES,
     .claim = "a count has each instruction of a task that moves, beside samples of it",
     .source = "docs/ptrace-pebs.2; SDM Vol 3, 18.2.2")
{
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = FEW, .between = move};
	struct pebs_options options = counting(INSTRUCTIONS);
	struct pebs_options taken = sampled_options(sampled_portable(), PERIOD, MOST);
	struct tracer *counter, *sampler;

	need_exact_instructions();
	counter = sampled_open_traced(&sampled, &options);
	REQUIRE_EQ(pebs_attach(sampled.task, 0, &taken, &sampler), 0);
	sampled_run(&sampled);
	EXPECT_EQ(events_of(counter), FEW * sampled_events(SAMPLED_INSTRUCTIONS));
	trace_clear(counter);
	EXPECT_EQ(events_of(counter), 0);
	expect_all(&sampled, sampler, PERIOD);
	EXPECT(trace_detach(counter));
}

static uint64_t selects;

/* In the kernel, on the CPU where the task's counters are. */
static void look_at_selects(struct sampled *sampled)
{
	(void)sampled;
	for (unsigned i = 0; i < pmu_caps()->general; i++)
		selects += (rdmsr(IA32_PERFEVTSEL0 + i) & PTRACE_PEBS_RAW_BITS) ==
			   (CYCLES | 0x5u << 24 | 1u << 23 | 1u << 18);
}

TEST(samples_count_selects, .group = "samples", .ids = "SE5", .needs = NEED_SAMPLES,
     .claim = "CMASK, INV and E are in the event select while the task runs, and not after it",
     .source = "SDM Vol 3, 18.2.1.1; docs/ptrace-pebs.2")
{
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = FEW,
							   .between = look_at_selects};
	struct pebs_options options = counting(CYCLES | 0x5u << 24 | 1u << 23 | 1u << 18);
	struct tracer *tracer;

	selects = 0;
	need_event(CYCLES);
	test_pin();
	tracer = sampled_open_traced(&sampled, &options);
	sampled_run(&sampled);
	EXPECT_EQ(selects, FEW);
	look_at_selects(NULL);
	EXPECT_EQ(selects, FEW);
	EXPECT(trace_detach(tracer));
}

/* --- Fixed counters --- */

static const struct pmu_owner somebody = {.name = "somebody"};

/* Takes, or gives back, the fixed counters or the general ones. */
static void use_counters(bool fixed, bool take)
{
	struct pmu_cpu *pmu = &this_cpu()->trace->pmu;
	unsigned first = fixed ? PMU_FIXED : 0;

	for (unsigned i = 0; i < (fixed ? pmu_caps()->fixed : pmu_caps()->general); i++)
		EXPECT_EQ((take ? pmu_request : pmu_release)(pmu, first + i, &somebody), 0);
}

/* Instructions of visits that are made on this CPU, while another has its counters. */
static void count_beside(bool fixed)
{
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = FEW};
	struct pebs_options options = counting(INSTRUCTIONS);
	struct tracer *tracer = NULL;

	sampled_open(&sampled);
	use_counters(fixed, true);
	EXPECT_EQ(pebs_attach(sampled.task, 0, &options, &tracer), 0);
	sampled_run(&sampled);
	use_counters(fixed, false);
	EXPECT_EQ(tracer ? events_of(tracer) : 0, FEW * sampled_events(SAMPLED_INSTRUCTIONS));
	EXPECT(!tracer || trace_detach(tracer));
}

TEST(samples_fixed_or_general, .group = "samples", .ids = "SE6", .needs = NEED_SAMPLES,
     .claim =
	     "instructions are counted by the fixed counter or a general one, whichever is free, or not: -EBUSY",
     .source = "SDM Vol 3, 18.2.2; docs/ptrace-pebs.2")
{
	char holder[PTRACE_PEBS_HOLDER] = "";
	struct pebs_options options = counting(INSTRUCTIONS);
	struct tracer *tracer = NULL;
	bool fixed;

	if (!pmu_caps()->fixed)
		test_skip("no fixed counters");
	pmu_rig_need_all();
	need_exact_instructions();
	sampled_skid();
	count_beside(false);
	count_beside(true);
	REQUIRE_EQ(pebs_attach(NULL, this_cpu()->index, &options, &tracer), 0);
	fixed = pmu_owner(&this_cpu()->trace->pmu, PMU_FIXED);
	EXPECT(trace_detach(tracer) && fixed);
	use_counters(false, true);
	use_counters(true, true);
	options.holder = holder;
	EXPECT_EQ(pebs_attach(NULL, this_cpu()->index, &options, &tracer), -EBUSY);
	EXPECT(!strcmp(holder, "somebody"));
	use_counters(true, false);
	use_counters(false, false);
}

TEST(samples_of_fixed_counter, .group = "samples", .ids = "SE6 PE97", .needs = NEED_SAMPLES,
     .claim =
	     "with PEBS_BASELINE fixed counter 0 samples instructions where the general ones are taken",
     .source = "Linux 6.1, perf_event.h; docs/ptrace-pebs.2")
{
	struct sampled sampled CLOSED_BY(sampled_close) = {.visits = FEW};
	struct pebs_options options = sampled_options(SAMPLED_INSTRUCTIONS, PERIOD, MOST);
	struct tracer *tracer = NULL;

	if (!ds_caps()->pebs_baseline)
		test_skip("no PEBS_BASELINE");
	sampled_needs_exact();
	if (sampled_skid())
		options.period = PERIOD; /* fixed counter 0 has none: SDM Vol 3, 18.9.4.4 */
	pmu_rig_need_all();
	sampled_open(&sampled);
	use_counters(false, true);
	EXPECT_EQ(pebs_attach(sampled.task, 0, &options, &tracer), 0);
	sampled_run(&sampled);
	use_counters(false, false);
	REQUIRE(tracer);
	EXPECT_EQ(pebs_read(tracer, samples, MOST),
		  FEW * sampled_events(SAMPLED_INSTRUCTIONS) / (PERIOD + 1));
	sampled_expect(&sampled, samples, FEW * sampled_events(SAMPLED_INSTRUCTIONS) / (PERIOD + 1),
		       SAMPLED_INSTRUCTIONS, PERIOD);
	EXPECT(trace_detach(tracer));
}

/* --- A CPU's tracer and those of the tasks there --- */

TEST(samples_cpu_gives_way, .group = "samples", .ids = "SE7", .needs = NEED_SAMPLES,
     .claim =
	     "a CPU's tracer keeps no profiler of a task away: where both cannot be it waits, says for whom, and goes on afterwards",
     .source = "docs/ptrace-pebs.2, Several users")
{
	enum sampled_kind kind = sampled_portable();
	enum sampled_kind other = kind == SAMPLED_BRANCHES ? SAMPLED_LOADS : kind;
	struct pebs_options whole = sampled_options(kind, PERIOD, MOST);
	struct pebs_options options = sampled_options(other, 8, MOST);
	bool shares = ds_sample_has() & DS_SAMPLE_COUNTERS;
	struct sampled sampled = {.visits = FEW};
	struct tracer *of_cpu, *of_task = NULL;
	char expected[PTRACE_PEBS_HOLDER];
	struct pebs_status status;

	sampled_needs_exact();
	if (sampled_skid())
		test_skip("samples are late by more events than a visit has");
	test_pin();
	sampled_open(&sampled);
	REQUIRE_EQ(pebs_attach(NULL, this_cpu()->index, &whole, &of_cpu), 0);
	EXPECT_EQ(pebs_attach(sampled.task, 0, &options, &of_task), 0);
	sampled_run(&sampled);
	pebs_status(of_cpu, &status);
	format(expected, sizeof(expected), "tracer of task %u", sampled.task->pid);
	EXPECT_EQ(status.blocked, !shares);
	EXPECT(!strcmp(status.holder, shares ? "" : expected));
	EXPECT_EQ(status.available > 0, shares);
	if (of_task) {
		pebs_status(of_task, &status);
		EXPECT(!status.blocked && !status.lost);
		EXPECT(status.available + 1 >= FEW * sampled_events(other) / 9);
		EXPECT(trace_detach(of_task));
	}
	sampled_close(&sampled);
	sampled_open(&sampled); /* one without a tracer */
	sampled_run(&sampled);
	sampled_close(&sampled);
	EXPECT(pebs_available(of_cpu) >= FEW * sampled_events(kind) / (PERIOD + 1));
	EXPECT(trace_detach(of_cpu));
}
