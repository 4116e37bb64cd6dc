// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"

#include "drivers/apic/lapic.h"
#include "drivers/processor.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/mm/vm.h"
#include "kernel/options.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/symbols.h"
#include "kernel/time.h"
#include "lib/format.h"
#include "lib/string.h"
#include "tests/framework/needs.h"
#include "tests/framework/random.h"
#include "tests/framework/result.h"

#define MOST_AREAS  64
#define FLAG_IF	    0x200u
#define FLAGS_FIXED 0x002u
#define DR7_RESET   0x400ul /* SDM Vol 3, table 9-1 */

#define MSR_SMI_COUNT 0x34u /* SDM Vol 3, chapter 35: Nehalem and later */

static struct {
	void *area;
	size_t pages;
} areas[MOST_AREAS];
static unsigned area_count;

#define MOST_TASKS 64
static struct task *tasks[MOST_TASKS]; /* that the test has not given back */
static unsigned task_count;
static bool body_returned; /* or the test ended midway */

/* The task that runs the body of a test, and where that begins on its stack. */
static struct task *body_task;
static uint64_t body_stack;

uint64_t smi_count(void)
{
	uint64_t count = 0;

	rdmsr_safe(MSR_SMI_COUNT, &count);
	return count & 0xffffffff;
}

void test_expect_left(bool holds, const char *otherwise)
{
	if (holds)
		return;
	test_result.failures++;
	printk("# the test %s\n", otherwise);
}

static nmi_handler handles_nmis;

void test_handle_nmis(nmi_handler handler)
{
	nmi_remove_handler(handles_nmis);
	handles_nmis = handler;
	if (handler)
		nmi_add_handler(handler);
}

/* Neither a lent Debug Store nor a task without preemption gets through the scheduler. */
void test_put_in_order(bool returned)
{
	struct cpu *cpu;
	bool lent;

	preemption_disable(); /* or it might be another CPU's meanwhile */
	cpu = this_cpu();
	lent = ds_is_lent(&cpu->trace->ds);
	test_expect_left(!returned || cpu->preemption_off == 1, "kept preemption off");
	test_expect_left(!returned || !apic_read(APIC_TPR), "kept interrupts waiting");
	test_expect_left(!returned || !lent, "kept the debug MSRs");
	if (lent) {
		ds_checkin(&cpu->trace->ds);
		trace_deliver_pmi(true);
	}
	lapic_set_task_priority(0);
	test_handle_nmis(NULL);
	cpu->preemption_off = 1;
	preemption_enable();
}

/* A test may end in the middle of what it does. */
static _Noreturn void leave(void)
{
	if (current_task() == body_task)
		body_task = NULL;
	test_put_in_order(false);
	__asm__ volatile("sti");
	task_exit();
}

void test_run_body(void (*run)(void))
{
	body_stack = (uint64_t)__builtin_frame_address(0);
	body_task = current_task();
	body_returned = false;
	run();
	body_returned = true;
	body_task = NULL;
}

/* As if called from test_run_body(), whose frame nobody returns to. */
static _Noreturn void died(void)
{
	trap_load(); /* the test may have loaded its own table */
	__asm__ volatile("mov %0, %%dr7" : : "r"(DR7_RESET));
	leave();
}

/*
 * With interrupts on, outside a handler and with preemption on, nothing of the kernel is locked. A
 * test that has borrowed the debug MSRs turned these off itself, and its end gives them back.
 */
static bool nothing_held(const struct trap_frame *frame)
{
	const struct cpu *cpu = this_cpu();

	if (cpu->interrupts)
		return false;
	return ds_is_lent(&cpu->trace->ds) || (frame->rflags & FLAG_IF && !cpu->preemption_off);
}

/* True if `frame` is in the body of the test, and nothing is held there. */
static bool is_body(const struct trap_frame *frame)
{
	return body_task && current_task() == body_task && !trap_from_user(frame) &&
	       nothing_held(frame) && frame->rsp >= (uint64_t)body_task->stack &&
	       frame->rsp <= body_stack;
}

static void end_body(struct trap_frame *frame)
{
	test_result.outcome = OUTCOME_ERROR;
	frame->rip = (uint64_t)died;
	frame->rsp = (body_stack & ~15ul) - 8;
	frame->rflags = FLAGS_FIXED;
}

bool test_claim_hang(struct trap_frame *frame, const char *why)
{
	if (!is_body(frame) || ds_is_lent(&this_cpu()->trace->ds))
		return false;
	end_body(frame);
	format(test_result.why, sizeof(test_result.why), "%s", why);
	return true;
}

bool test_claim_exception(struct trap_frame *frame)
{
	struct trace_paused paused;
	char place[64];

	if (frame->vector == VECTOR_DF || frame->vector == VECTOR_MC || !is_body(frame))
		return false;
	paused = trace_pause_cpu();
	symbol_describe(frame->rip, place, sizeof(place));
	printk("\n# unexpected %s (vector %lu) on CPU %u\n", exception_name(frame->vector),
	       frame->vector, this_cpu()->index);
	print_trap(frame);
	trace_resume_cpu(paused);
	format(test_result.why, sizeof(test_result.why), "unexpected %s at %s",
	       exception_name(frame->vector), place);
	end_body(frame);
	return true;
}

enum { FAILURES_PRINTED = 50 };

/* Counts a failure. False: it is not printed, for broken hardware fails often and serial lines are
   slow. */
static bool count_failure(void)
{
	if (++test_result.failures == FAILURES_PRINTED)
		printk("# further failures of this test are counted, not printed\n");
	return test_result.failures < FAILURES_PRINTED;
}

static const char *file_of(const char *path)
{
	const char *slash = strchr(path, '/');

	return slash ? file_of(slash + 1) : path;
}

static unsigned line_of(uint32_t place)
{
	return place >> 22;
}

/* The offset may be within a text: the linker keeps one that another ends with there. */
static const char *text_of(uint32_t place, char text[CHECK_TEXT_SIZE])
{
	size_t offset = place & 0x3fffff, length = 0;
	const uint8_t *packed = check_texts;

	for (; offset > packed[0]; packed += 2 + packed[1])
		offset -= packed[0] + 1u;
	for (unsigned i = 0; i < packed[1]; i++)
		length = symbol_unpack(packed[2 + i], text, CHECK_TEXT_SIZE, length);
	text[length] = 0;
	return text + offset;
}

bool test_check(bool holds, uint32_t place, const char *path)
{
	char text[CHECK_TEXT_SIZE];

	test_result.checks++;
	if (holds)
		return true;
	if (count_failure())
		printk("# %s:%u: failed: %s\n", file_of(path), line_of(place),
		       text_of(place, text));
	return false;
}

bool test_check_equal(uint64_t actual, uint64_t expected, uint32_t place, const char *path)
{
	char text[CHECK_TEXT_SIZE];

	test_result.checks++;
	if (actual == expected)
		return true;
	if (count_failure())
		printk("# %s:%u: failed: %s: 0x%lx, expected 0x%lx\n", file_of(path),
		       line_of(place), text_of(place, text), actual, expected);
	return false;
}

bool test_check_erratum(bool holds, const char *id, uint32_t place, const char *path)
{
	const struct erratum *erratum = erratum_here(id);
	char text[CHECK_TEXT_SIZE];

	if (holds || !erratum)
		return test_check(holds, place, path);
	test_result.checks++;
	test_result.erratum = erratum->id;
	printk("# %s:%u: erratum %s, %s: %s\n", file_of(path), line_of(place), erratum->id,
	       erratum->symptom, text_of(place, text));
	return false;
}

void test_require(bool holds)
{
	if (!holds)
		leave();
}

static _Noreturn void end_with(enum outcome outcome, const char *template, va_list arguments)
{
	test_result.outcome = outcome;
	vformat(test_result.why, sizeof(test_result.why), template, arguments);
	leave();
}

void test_error(const char *template, ...)
{
	va_list arguments;

	va_start(arguments, template);
	end_with(OUTCOME_ERROR, template, arguments);
}

void test_skip(const char *template, ...)
{
	va_list arguments;

	va_start(arguments, template);
	end_with(OUTCOME_SKIP, template, arguments);
}

void test_slow(const char *template, ...)
{
	char why[sizeof(test_result.why) - sizeof("too slow: ")];
	va_list arguments;

	va_start(arguments, template);
	vformat(why, sizeof(why), template, arguments);
	va_end(arguments);
	test_result.slow = true;
	test_skip("too slow: %s", why);
}

uint64_t test_seconds(void)
{
	return (options.timeout + 1) / 2;
}

bool test_has_time(void)
{
	return clock_us() - test_result.began < test_seconds() * 1000000;
}

void test_observe(const char *key, const char *template, ...)
{
	char value[160];
	va_list arguments;

	va_start(arguments, template);
	vformat(value, sizeof(value), template, arguments);
	va_end(arguments);
	test_result.observations++;
	printk("# obs %s=%s\n", key, value);
}

void test_note(const char *template, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, template);
	vformat(text, sizeof(text), template, arguments);
	va_end(arguments);
	printk("# %s\n", text);
}

void test_figure(const char *name, uint64_t value, const char *unit)
{
	test_result.observations++;
	printk("# bench name=%s val=%lu unit=%s\n", name, value, unit);
}

void *test_area(size_t pages)
{
	void *area = area_count < MOST_AREAS ? area_alloc(pages, VM_WRITE) : NULL;

	if (!area)
		test_error("no memory for %zu pages", pages);
	areas[area_count].area = area;
	areas[area_count++].pages = pages;
	return area;
}

void test_release_areas(void)
{
	while (area_count) {
		area_count--;
		area_free(areas[area_count].area, areas[area_count].pages);
	}
}

void test_pin(void)
{
	preemption_disable();
	current_task()->affinity = cpu_set_of(this_cpu()->index);
	preemption_enable();
}

void test_go_to(size_t cpu)
{
	test_keep_on(current_task(), cpu);
}

void test_keep_on(struct task *task, size_t cpu)
{
	task_set_affinity(task, cpu_set_of(cpu));
}

struct task *test_task(const char *name, void (*entry)(void *argument), void *argument)
{
	struct task *task = task_create_stopped(name, entry, argument);

	if (!task)
		test_error("no memory for task %s", name);
	if (task_count < MOST_TASKS)
		tasks[task_count++] = task;
	return task;
}

void test_task_put(struct task *task)
{
	for (unsigned i = 0; i < task_count; i++)
		if (tasks[i] == task)
			tasks[i] = tasks[--task_count];
	task_put(task);
}

void test_task_end(struct task *task)
{
	task_join(task);
	test_task_put(task);
}

void test_end_tasks(void)
{
	test_expect_left(!body_returned || !task_count, "left a task");
	for (unsigned i = 0; i < task_count; i++)
		if (!tasks[i]->ended)
			task_kill(tasks[i]);
	for (unsigned turn = 0; task_count; task_count--) {
		while (!tasks[task_count - 1]->ended && turn++ < 100)
			task_sleep(10000);
		if (tasks[task_count - 1]->ended)
			task_put(tasks[task_count - 1]);
	}
}

uint64_t test_scaled(uint64_t amount)
{
	uint64_t scaled = amount * options.scale / 100;

	return scaled ? scaled : 1;
}

uint64_t test_time_left(void)
{
	uint64_t end = test_result.began + options.timeout * 750000;
	uint64_t least = options.timeout * 80000, now = clock_us();

	return now + least < end ? end - now : least;
}

static uint64_t sequence;

void test_seed(uint64_t seed)
{
	sequence = seed;
}

uint64_t test_random(void)
{
	return random_next(&sequence);
}
