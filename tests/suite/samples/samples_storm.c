// SPDX-License-Identifier: MIT
// Tasks that move and are killed, with tracers of both kinds, while others come and go.
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/pebs/pebs.h"
#include "tests/framework/test.h"
#include "tests/lib/sampled.h"

#define TASKS	4
#define KILLED	2 /* of them, half-way */
#define VISITS	12
#define PERIOD	37
#define SAMPLES 200

static struct sampled tasks[TASKS];
static struct tracer *samples_of[TASKS], *branches_of[TASKS];
static struct ptrace_pebs_sample samples[SAMPLES];
static unsigned disturbances;

static void move(struct sampled *sampled)
{
	test_keep_on(sampled->task, (sampled->visited * 5 + sampled->number) % cpu_count());
	if (sampled->number < KILLED && sampled->visited == VISITS / 2)
		task_kill(sampled->task);
}

static void prepare(unsigned i)
{
	struct pebs_options options = sampled_options(sampled_portable(), PERIOD, SAMPLES);
	struct bts_options branches = {.view = TRACE_USER,
				       .overflow = i % 2 ? TRACE_STOP : TRACE_WRAP,
				       .size = 20000 * sizeof(struct ptrace_bts_record)};

	tasks[i] = (struct sampled){.number = i, .visits = VISITS, .between = move};
	samples_of[i] = sampled_open_traced(&tasks[i], &options);
	REQUIRE_EQ(bts_attach(tasks[i].task, 0, &branches, &branches_of[i]), 0);
}

static int attach_any(const struct sampled *sampled, struct tracer **tracer)
{
	struct pebs_options options =
		sampled_options(sampled_portable(), 2 + test_random() % 500, 5);
	struct bts_options branches = {
		.view = 1 + (unsigned)(test_random() % 3), .privileged = true, .size = 4096};
	bool of_cpu = test_random() % 3 == 0;
	unsigned cpu = (unsigned)test_random() % cpu_count();

	options.view = 1 + (unsigned)(test_random() % 3);
	options.period += options.view & TRACE_KERNEL ? 2000 : 0;
	if (test_random() % 2)
		return of_cpu ? pebs_attach(NULL, cpu, &options, tracer)
			      : pebs_attach(sampled->task, 0, &options, tracer);
	return of_cpu ? bts_attach(NULL, cpu, &branches, tracer)
		      : bts_attach(sampled->task, 0, &branches, tracer);
}

/* A tracer for a moment. Where a processor has one counter that may be refused. */
static bool disturb(void)
{
	struct tracer *tracer = NULL;
	int error = attach_any(&tasks[test_random() % TASKS], &tracer);

	if (error)
		return error == -ESRCH || error == -EBUSY;
	disturbances++;
	task_sleep(test_random() % 300);
	return trace_detach(tracer);
}

static bool have_all_ended(void)
{
	for (unsigned i = 0; i < TASKS; i++)
		if (!tasks[i].task->ended)
			return false;
	return true;
}

/* All visits are there: the whole ones of a task that was killed in the kernel. */
static void expect_everything(unsigned i)
{
	enum sampled_kind kind = sampled_portable();
	size_t count = pebs_read(samples_of[i], samples, SAMPLES);
	uint64_t visits = i < KILLED ? VISITS / 2 : VISITS;
	struct pebs_status status;

	pebs_status(samples_of[i], &status);
	EXPECT(!status.blocked && !status.truncated && !status.lost);
	EXPECT_EQ(count, visits * sampled_events(kind) / (PERIOD + 1));
	sampled_expect(&tasks[i], samples, count, kind, PERIOD);
	EXPECT(bts_available(branches_of[i]) > 0);
	EXPECT(trace_detach(branches_of[i]));
	EXPECT(trace_detach(samples_of[i]));
	sampled_close(&tasks[i]);
}

TEST(samples_storm, .group = "samples", .ids = "", .needs = NEED_BTS | NEED_SAMPLES,
     .claim = "tasks that move and are killed lose no sample while tracers of branches and "
	      "samples, of theirs and of CPUs, come and go; no page is left",
     .source = "docs/design.md#samples")
{
	unsigned wrong = 0;

	sampled_needs_exact();
	disturbances = 0;
	sched_set_slice(10000); /* a slow emulator spends one of a millisecond on switches alone */
	for (unsigned i = 0; i < TASKS; i++)
		prepare(i);
	for (unsigned i = 0; i < TASKS; i++)
		task_start(tasks[i].task);
	while (!have_all_ended() ||
	       !disturbances) /* a CPU can be traced when all have ended, too */
		wrong += !disturb();
	sched_set_slice(1000);
	EXPECT_EQ(wrong, 0);
	EXPECT(disturbances > 0);
	for (unsigned i = 0; i < TASKS; i++) {
		task_join(tasks[i].task);
		expect_everything(i);
	}
}
