// SPDX-License-Identifier: MIT
#include "tests/framework/result.h"

#include "drivers/ds/ds.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/options.h"
#include "kernel/silicon.h"
#include "kernel/time.h"
#include "lib/format.h"
#include "lib/string.h"
#include "tests/framework/select.h"

struct result test_result;

void result_begin(uint64_t seed)
{
	memset(&test_result, 0, sizeof(test_result));
	test_result.seed = seed;
	test_result.began = time_now();
}

void result_settle(const struct test *test)
{
	struct result *r = &test_result;

	if (r->outcome == OUTCOME_SKIP && (select_required(test) || r->failures)) {
		printk("# %s: %s\n",
		       r->failures ? "failed before its skip" : "required, but skipped", r->why);
		r->why[0] = 0;
		r->outcome = OUTCOME_FAIL;
	}
	if (r->outcome >= OUTCOME_ERROR || r->outcome == OUTCOME_SKIP)
		return;
	if (r->failures)
		r->outcome = OUTCOME_FAIL;
	else if (r->erratum) {
		r->outcome = OUTCOME_XFAIL;
		format(r->why, sizeof(r->why), "%s", r->erratum);
	} else if (r->checks)
		r->outcome = OUTCOME_PASS;
	else if (r->observations)
		r->outcome = OUTCOME_OBS;
	else {
		r->outcome = OUTCOME_ERROR;
		format(r->why, sizeof(r->why), "the test checked nothing");
	}
}

/* With the words of this run that change what a test does. */
static void print_again(const struct test *test, uint64_t seed)
{
	static const char *const unsafe[] = {"", " -a unsafe=0", " -a unsafe=1",
					     " -a unsafe=force"};
	char scale[32] = "", processors[16] = "", required[80] = "";

	if (options.scale != 100)
		format(scale, sizeof(scale), " -a scale=%lu", options.scale);
	if (cpu_count() > 1)
		format(processors, sizeof(processors), " -s %u", cpu_count());
	if (select_required(test))
		format(required, sizeof(required), " -r %s", test->name);
	printk("# again: run-qemu.sh -t %s%s%s -a seed=%lu%s%s%s\n", test->name, required,
	       processors, seed, scale, unsafe[options.unsafe], options.x2apic ? " -a x2apic" : "");
}

/* Of the results that were printed; a code has no room for as many. */
enum { MOST_CODES = 8192 };
static uint8_t codes[MOST_CODES];
static unsigned code_count;

static void note_code(enum outcome outcome)
{
	static const uint8_t code_of[] = {
		[OUTCOME_PASS] = CODE_PASS,   [OUTCOME_OBS] = CODE_OBS,
		[OUTCOME_SKIP] = CODE_SKIP,   [OUTCOME_XFAIL] = CODE_XFAIL,
		[OUTCOME_ERROR] = CODE_ERROR, [OUTCOME_FAIL] = CODE_FAIL};

	if (code_count < MOST_CODES)
		codes[code_count++] = code_of[outcome];
}

void result_codes(struct code_results *results)
{
	results->count = code_count;
	results->result = codes;
	code_set_results(results);
}

void result_print(unsigned number, const struct test *test, const struct result *result,
		  struct totals *totals)
{
	static const char *const words[] = {
		[OUTCOME_PASS] = "",	       [OUTCOME_OBS] = " # OBS",
		[OUTCOME_SKIP] = " # SKIP ",   [OUTCOME_XFAIL] = " # XFAIL ",
		[OUTCOME_ERROR] = " # ERROR ", [OUTCOME_FAIL] = ""};
	bool bad = result->outcome >= OUTCOME_ERROR;
	uint64_t took = result->began ? time_now() - result->began : 0;

	note_code(result->outcome);
	totals->count[result->outcome]++;
	totals->slow += result->slow && result->outcome == OUTCOME_SKIP;
	if (test->needs & (NEED_BTS | NEED_PEBS | NEED_SAMPLES | NEED_PT | NEED_LBR) &&
	    result->outcome != OUTCOME_SKIP)
		totals->with_unit++;
	if (bad) {
		printk("# claim: %s (%s%s%s)\n", test->claim, test->ids, test->ids[0] ? "; " : "",
		       test->source);
		print_again(test, result->seed);
	}
	printk("# time group=%s us=%lu\n", test->group, took);
	printk("%sok %u %s%s%s\n", bad ? "not " : "", number, test->name, words[result->outcome],
	       result->why);
}

enum verdict totals_verdict(const struct totals *totals)
{
	if (totals->count[OUTCOME_FAIL])
		return VERDICT_FAIL;
	if (totals->count[OUTCOME_ERROR])
		return VERDICT_ERROR;
	return totals->with_unit && ds_has_bts() ? VERDICT_PASS : VERDICT_ALL_SKIPPED;
}

void totals_print(const struct totals *totals, enum verdict verdict)
{
	end_print_done(verdict, &(struct end_counts){
					totals->count[OUTCOME_PASS], totals->count[OUTCOME_FAIL],
					totals->count[OUTCOME_SKIP], totals->count[OUTCOME_ERROR],
					totals->count[OUTCOME_XFAIL], totals->count[OUTCOME_OBS],
					totals->slow});
}
