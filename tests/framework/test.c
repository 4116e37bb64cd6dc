// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"

#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/mm/area.h"
#include "kernel/options.h"
#include "kernel/sched/task.h"
#include "lib/format.h"
#include "tests/framework/errata.h"
#include "tests/framework/random.h"
#include "tests/framework/resources.h"
#include "tests/framework/result.h"

#define MOST_AREAS 64

static struct {
	void *area;
	size_t pages;
} areas[MOST_AREAS];
static unsigned area_count;

/* A test may end in the middle of what it does: the CPU is put back in order first. */
static _Noreturn void leave(void)
{
	struct cpu *cpu = this_cpu();

	if (ds_is_lent(&cpu->ds))
		ds_checkin(&cpu->ds);
	cpu->preemption_off = 0;
	__asm__ volatile("sti");
	task_exit();
}

bool test_check(bool holds, int line, const char *file, const char *text)
{
	test_result.checks++;
	if (holds)
		return true;
	test_result.failures++;
	printk("# %s:%d: failed: %s\n", file, line, text);
	return false;
}

bool test_check_equal(uint64_t actual, uint64_t expected, int line, const char *file,
		      const char *text)
{
	test_result.checks++;
	if (actual == expected)
		return true;
	test_result.failures++;
	printk("# %s:%d: failed: %s: 0x%lx, expected 0x%lx\n", file, line, text, actual, expected);
	return false;
}

bool test_check_erratum(bool holds, const char *id, int line, const char *file, const char *text)
{
	const struct erratum *erratum = erratum_here(id);

	if (holds || !erratum)
		return test_check(holds, line, file, text);
	test_result.checks++;
	test_result.erratum = erratum->id;
	printk("# %s:%d: erratum %s, %s: %s\n", file, line, erratum->id, erratum->symptom, text);
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
	current_task()->affinity = 1ul << this_cpu()->index;
	preemption_enable();
}

uint64_t test_scaled(uint64_t amount)
{
	uint64_t scaled = amount * options.scale / 100;

	return scaled ? scaled : 1;
}

static struct random sequence;

void test_seed(uint64_t seed)
{
	random_seed(&sequence, seed);
}

uint64_t test_random(void)
{
	return random_next(&sequence);
}
