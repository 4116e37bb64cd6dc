// SPDX-License-Identifier: MIT
// The samples that a tracer may see, and those that it has at the end of its buffer.
#include "drivers/ds/ds.h"
#include "drivers/ds/pebs.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/trace/pebs/pebs.h"
#include "tests/framework/test.h"
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

static size_t sample_view(unsigned view, enum sampled_kind kind, uint64_t period)
{
	struct pebs_options options = sampled_options(kind, period, MOST);
	struct sampled sampled = {.visits = 20, .between = spin};
	struct tracer *tracer;
	size_t count;

	options.view = view;
	options.privileged = view & TRACE_KERNEL;
	sampled_open(&sampled);
	REQUIRE_EQ(pebs_attach(sampled.task, &options, &tracer), 0);
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
	count = sample_view(TRACE_USER, kind, sampled_events(kind) - 1);
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
	size_t count = sample_view(TRACE_KERNEL, SAMPLED_INSTRUCTIONS, 2100), shown = 0;

	EXPECT(count > 10);
	for (size_t i = 0; i < count; i++)
		shown += shows_kernel(&samples[i]);
	EXPECT(shown > count / 2);
}

TEST(samples_of_loads, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim =
	     "a sample of a load has the address where the record has one, and marks it absent else",
     .source = "SDM Vol 3, 18.11.2; include/abi/ptrace_pebs.h")
{
	bool addresses = ds_caps()->pebs_format >= 2 && ds_sample_has() & DS_SAMPLE_ADDRESS;
	size_t count, wrong = 0;

	if (!ds_caps()->pebs_format)
		test_skip("format 0 has no event of loads");
	sampled_needs_exact();
	count = sample_view(TRACE_USER, SAMPLED_LOADS, 5);
	/* A departure makes one late by the skid: the last one beyond the end. */
	EXPECT(count == 10 || (sampled_skid() && count == 9));
	for (size_t i = 0; i < count; i++) {
		bool has = samples[i].has & PTRACE_PEBS_HAS_ADDRESS;

		wrong += has != addresses;
		wrong += samples[i].address != (has ? samples[i].general[6] : 0);
	}
	EXPECT_EQ(wrong, 0);
}

/* --- The end of the buffer --- */

TEST(samples_stop_on_full, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim =
	     "a tracer that stops when it is full keeps the oldest samples, each of its event, and "
	     "goes on when it is resumed",
     .source = "docs/design.md#overflow")
{
	enum sampled_kind kind = sampled_portable();
	struct pebs_options options = sampled_options(kind, 10, 30);
	struct sampled sampled = {.visits = 10};
	struct pebs_status status;
	struct tracer *tracer;

	sampled_needs_exact();
	sampled_open(&sampled);
	REQUIRE_EQ(pebs_attach(sampled.task, &options, &tracer), 0);
	sampled_run(&sampled);
	pebs_status(tracer, &status);
	EXPECT(status.full && !status.truncated);
	EXPECT_EQ(pebs_peek(tracer, 29, samples, MOST), 1);
	EXPECT_EQ(pebs_peek(tracer, 30, samples, MOST), 0);
	EXPECT_EQ(pebs_read(tracer, samples, MOST), 30);
	sampled_expect(&sampled, samples, 30, kind, 10);
	trace_resume(tracer);
	pebs_status(tracer, &status);
	EXPECT(!status.full);
	EXPECT(trace_detach(tracer));
	sampled_close(&sampled);
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

static void sample_with_threshold(size_t size, size_t threshold, bool nmi)
{
	enum sampled_kind kind = sampled_portable();
	struct pebs_options options = sampled_options(kind, 20, size);
	struct sampled sampled = {.visits = 20};
	struct tracer *tracer;
	unsigned held = 0;
	size_t count, expected = 20 * sampled_events(kind) / 21;

	sampled_needs_exact();
	atomic_store(&told, 0);
	trace_deliver_pmi(nmi);
	options.overflow = TRACE_SIGNAL;
	options.threshold = threshold;
	options.overflowed = tell;
	options.argument = &told;
	sampled_open(&sampled);
	REQUIRE_EQ(pebs_attach(sampled.task, &options, &tracer), 0);
	sampled.held = tracer;
	task_start(sampled.task);
	count = read_until_ended(&sampled, tracer, &held);
	task_join(sampled.task);
	EXPECT_EQ(count, expected);
	sampled_expect(&sampled, samples, count, kind, 20);
	EXPECT_EQ(held, expected / (threshold ? threshold : size));
	EXPECT_EQ(atomic_load(&told), held);
	EXPECT(trace_detach(tracer));
	sampled_close(&sampled);
	trace_deliver_pmi(true);
}

TEST(samples_signal_exact, .group = "samples", .ids = "", .needs = NEED_SAMPLES,
     .claim =
	     "a tracer that is called at its threshold reads each sample once, whatever its buffer, "
	     "as NMI and by a fixed vector",
     .source = "docs/design.md#overflow")
{
	sample_with_threshold(1, 1, true);
	sample_with_threshold(40, 0, true);
	sample_with_threshold(40, 7, false);
}
