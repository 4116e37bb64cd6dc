// SPDX-License-Identifier: MIT
// The first task of the kernel when the conformance suite is what it was linked with.
#include "drivers/console/console.h"
#include "drivers/processor.h"
#include "drivers/pt/pt.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/export/export.h"
#include "kernel/main.h"
#include "kernel/options.h"
#include "kernel/restart.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/time.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"
#include "kernel/watchdog.h"
#include "lib/format.h"
#include "lib/string.h"
#include "tests/framework/needs.h"
#include "tests/framework/pages.h"
#include "tests/framework/result.h"
#include "tests/framework/select.h"

#define LONGEST_SILENCE 10000000 /* microseconds */
#define MOST_TURNS	3	 /* of a test that is disturbed */

static const struct test *selected[MAX_TESTS];
static unsigned selected_count, number, plan;
static const struct test *running;
static struct totals totals;
static bool hung;		    /* the running test, which was ended */
static uint64_t unknown_interrupts; /* those that are reported */

/* For the kernel that goes on. */
struct carried {
	unsigned number;
	uint64_t seed;
	struct totals totals;
	struct pt_found pt_found;
	struct counted counted;
};
_Static_assert(sizeof(struct carried) <= RESTART_STATE, "restart.h");

/* What each processor has for itself may be right on the first one that does it alone, where a
   state is one for all. */
static void run_task(void *given)
{
	const struct cpu *here = this_cpu();
	const struct cpu *other = cpu_by_index(here->index ? 0 : cpu_count() - 1);
	const struct test *test = given;
	bool again = test->needs & ON_EACH_CPU && other != here && other->kind == here->kind;

	for (unsigned turn = 0; turn <= again; turn++) {
		if (turn)
			task_set_affinity(current_task(), cpu_set_of(other->index));
		watchdog_arm(options.timeout); /* of this CPU: a hang here can be ended alone */
		test_run_body(test->run);
		test_put_in_order(true);
	}
}

/* A test that hangs is named before it is ended. */
static uint64_t until_heartbeat(void)
{
	uint64_t half = options.timeout * 1000000 / 2;

	return half < LONGEST_SILENCE ? half : LONGEST_SILENCE;
}

static void heartbeat(struct timer *timer)
{
	printk("# beat ts=%lu test=%s\n", clock_us() / 1000000, running->name);
	timer_start(timer, until_heartbeat());
}

static bool records(void)
{
	return ds_has_bts() &&
	       rdmsr(IA32_DEBUGCTL) & (ds_configuration->tr | ds_configuration->bts);
}

/* The checks of every test: it leaves the trace off, and memory and the CPU as they were. */
static void check_left_behind(uint64_t pages_before)
{
	int64_t missing;

	test_put_in_order(true);
	test_expect_left(export_wants(EXPORT_CPUS) || (!this_cpu()->trace->ds.loaded && !records()),
			 "left branches being recorded");
	missing = pages_missing(pages_before);
	test_expect_left(!missing, "did not give back all memory");
	if (missing)
		printk("# pages that are missing: %ld\n", missing);
}

/* The same whichever tests are run with it; each repetition draws other numbers. */
static uint64_t seed_of(unsigned result_number)
{
	return options.seed + (result_number - 1) / selected_count;
}

/* A stray device, or a test that left something pending, shows here. */
static void report_unknown_interrupts(void)
{
	unsigned newest = 0;
	uint64_t count = interrupt_unknown_count(&newest);

	if (count != unknown_interrupts)
		printk("# interrupts without a handler: %lu, the newest of vector %u\n",
		       count - unknown_interrupts, newest);
	unknown_interrupts = count;
}

/* Starts the kernel again, for the other tests. Returns if it cannot, a sentence if it should. */
static const char *go_on(void)
{
	static struct carried carried; /* more than an interrupt stack has room for */

	carried.number = number;
	carried.seed = options.seed;
	carried.totals = totals;
	carried.pt_found = *pt_found();
	carried.counted = counted;
	running = NULL;
	return plan > 1 ? restart_kernel(&carried, sizeof(carried)) : NULL;
}

/* True if the kernel has started again, for what an earlier start left. */
static bool take_over(void)
{
	const struct carried *carried = restart_state();
	unsigned newest;

	if (!carried)
		return false;
	number = carried->number;
	options.seed = carried->seed;
	totals = carried->totals;
	counted = carried->counted;
	totals.restarts++;
	*pt_found() = carried->pt_found;
	unknown_interrupts = interrupt_unknown_count(&newest); /* of the earlier start's timer */
	printk("# restart: the kernel has started again after result %u\n", number);
	return true;
}

static void settle(void)
{
	report_unknown_interrupts();
	result_settle(running);
	result_print(number, running, &test_result, &totals);
	console_flush(); /* the next test may end the machine at once */
	running = NULL;
}

/*
 * Counts of events that disturb a test and are no fault of the processor: SMIs, in which branches
 * are not recorded and events are counted (SDM Vol 3, 17.4.9 and 18.18.1), NMIs of others, and what
 * tests told of.
 */
struct disturbances {
	uint64_t smis, nmis, losses;
};

static uint64_t losses;

void test_disturbed(void)
{
	losses++;
}

static void read_smis(void *smis)
{
	*(uint64_t *)smis = smi_count();
}

static struct disturbances disturbances_now(void)
{
	struct disturbances now = {.nmis = nmi_unknown_count(), .losses = losses};

	smp_call(0, read_smis, &now.smis);
	return now;
}

/* Whether the test has failed and they may be why: it runs again. */
static bool is_disturbed(const struct test *test, struct disturbances before)
{
	struct disturbances now;

	if (!test_result.failures || hung)
		return false;
	now = disturbances_now();
	if (!memcmp(&now, &before, sizeof(now)))
		return false;
	printk("# disturbed: %lu SMIs, %lu NMIs of others, %lu overflows of Intel PT: %s\n",
	       now.smis - before.smis, now.nmis - before.nmis, now.losses - before.losses,
	       test->name);
	return true;
}

/* Returns how many failures are what the test left. Without memory for its task: an ERROR. */
static unsigned run_once(const struct test *test)
{
	struct timer beat = {.expired = heartbeat};
	struct task *task;
	uint64_t pages_before;
	unsigned failures;

	result_begin(seed_of(number));
	test_seed(test_result.seed);
	sched_reap();
	pages_before = pages_left();
	task = task_create_stopped(test->name, run_task, (void *)(uintptr_t)test);
	if (!task) {
		test_result.outcome = OUTCOME_ERROR;
		format(test_result.why, sizeof(test_result.why), "no memory for its task");
		return 0;
	}
	timer_start(&beat, until_heartbeat());
	watchdog_arm(options.timeout);
	if (export_wants(EXPORT_TESTS))
		export_task(task, EXPORT_TESTS, test->name, 0);
	task_start(task);
	task_join(task);
	if (export_wants(EXPORT_TESTS))
		export_task_end(task);
	timer_stop(&beat);
	test_end_tasks();
	task_put(task);
	test_release_areas();
	failures = test_result.failures;
	check_left_behind(pages_before);
	watchdog_disarm();
	return test_result.failures - failures;
}

static void run(const struct test *test)
{
	const char *missing = needs_missing(test->needs);
	struct disturbances before;
	unsigned left, turns = 0;

	running = test;
	hung = false;
	number++;
	console_progress(number, plan, test->name);
	if (missing) {
		result_begin(seed_of(number));
		test_result.outcome = OUTCOME_SKIP;
		format(test_result.why, sizeof(test_result.why), "%s", missing);
		settle();
		return;
	}
	do {
		before = disturbances_now();
		left = run_once(test);
	} while (is_disturbed(test, before) && ++turns < MOST_TURNS);
	settle();
	if (hung && left)
		go_on();
}

/* The running test has died, and the run with it. */
static void print_died(const char *why)
{
	test_result.outcome = OUTCOME_ERROR;
	format(test_result.why, sizeof(test_result.why), "%s", why);
	result_print(number, running, &test_result, &totals);
}

/* Tracing is stopped on this CPU. */
static void print_hung(const struct trap_frame *frame)
{
	printk("# %s ran longer than timeout=%lu seconds; CPU %u is at:\n", running->name,
	       options.timeout, this_cpu()->index);
	print_backtrace(frame->rip, frame->rbp);
	print_last_branches(frame);
}

/*
 * Ends the test alone if it holds nothing. Else the state of the machine is unknown: the kernel
 * starts again, or what follows is not run.
 */
static void timed_out(struct trap_frame *frame)
{
	struct result not_run = {.outcome = OUTCOME_ERROR};
	const struct trap_frame at = *frame;
	const char *damaged;
	char why[64];

	format(why, sizeof(why), "hung: it ran longer than timeout=%lu seconds", options.timeout);
	if (options.restart && test_claim_hang(frame, why)) {
		struct trace_paused paused = trace_pause_cpu();

		hung = true;
		print_hung(&at);
		trace_resume_cpu(paused);
		return;
	}
	end_stop_others();
	print_hung(&at);
	print_died(why);
	format(not_run.why, sizeof(not_run.why), "not run: %s hung", running->name);
	damaged = go_on();
	if (damaged)
		end_run(VERDICT_PANIC, damaged);
	while (number < plan) {
		number++;
		not_run.seed = seed_of(number);
		result_print(number, selected[(number - 1) % selected_count], &not_run, &totals);
	}
	end_run(totals_verdict(&totals), NULL);
}

static void tell_code(void)
{
	static struct code_results results;

	results.list = select_list(&results.tests);
	results.is_selected = *options.test || *options.group ? select_takes : NULL;
	results.plan = plan;
	result_codes(&results);
}

/*
 * A panic is the running test's ERROR. Between tests, and where nothing that needs a trace unit
 * ran, no result says that the run is worth nothing, so `Bail out!` does.
 */
static void report(enum verdict verdict, const char *why)
{
	char died[160];

	format(died, sizeof(died), "%s%s", verdict == VERDICT_PANIC ? "panic: " : "",
	       why ? why : "");
	if (why && running) {
		print_died(died);
		why = go_on();
		format(died, sizeof(died), "%s", why ? why : "");
	}
	if (why && plan)
		printk("Bail out! %s\n", died);
	else if (verdict == VERDICT_ALL_SKIPPED && !totals.with_unit)
		printk("Bail out! no test that needs a branch trace ran: %s\n",
		       needs_missing(NEED_BTS) ? needs_missing(NEED_BTS) : "none was chosen");
	if (verdict == VERDICT_ERROR && !totals.count[OUTCOME_ERROR])
		totals.count[OUTCOME_ERROR] = 1; /* not a test: the environment */
	if (plan)
		units_print();
	totals_print(&totals, verdict);
	tell_code();
}

/* The test before result `from`, in which an earlier boot of this run ended. */
static void print_ended_boot(void)
{
	struct result ended = {.outcome = OUTCOME_ERROR, .why = "an earlier boot ended in it"};

	number = (unsigned)options.from - 1;
	ended.seed = seed_of(number);
	result_print(number, selected[(number - 1) % selected_count], &ended, &totals);
}

static void list(void)
{
	for (unsigned i = 0; i < selected_count; i++) {
		char needs[96];

		needs_names(selected[i]->needs, needs, sizeof(needs));
		printk("# test name=%s group=%s needs=%s ids=%s claim=\"%s\"\n", selected[i]->name,
		       selected[i]->group, needs, selected[i]->ids, selected[i]->claim);
	}
	printk("KTAP version 1\n1..0\n");
	end_run(VERDICT_PASS, NULL);
}

void init(void *argument)
{
	const char *unnamed;

	(void)argument;
	tests_read();
	end_report = report;
	exception_unexpected = test_claim_exception;
	if (!units_read())
		refuse("units=%s: the units are bts, pebs, counters, lbr, pt", options.units);
	selected_count = select_tests(options.test, options.group, selected);
	if (options.list)
		list();
	if (!selected_count)
		refuse("no test is named by test=%s group=%s; `list` prints them all", options.test,
		       options.group);
	unnamed = select_required_none(selected, selected_count);
	if (unnamed)
		refuse("require=%s names no test of this run; `list` prints them all", unnamed);
	watchdog_set_handler(timed_out);
	if (options.from > options.repeat * selected_count + 1)
		refuse("from=%lu: there are %lu results", options.from,
		       options.repeat * selected_count);
	plan = (unsigned)options.repeat * selected_count;
	if (!take_over()) {
		printk("KTAP version 1\n1..%u\n", plan);
		if (options.from > 1)
			print_ended_boot();
	}
	export_begin();
	while (number < plan)
		run(selected[number % selected_count]);
	export_end();
	end_run(totals_verdict(&totals), NULL);
}
