// SPDX-License-Identifier: MIT
#include "tests/framework/result.h"

#include "drivers/ds/ds.h"
#include "drivers/pmu/pmu.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/options.h"
#include "kernel/time.h"
#include "kernel/trace/unit.h"
#include "lib/format.h"
#include "lib/string.h"
#include "tests/framework/select.h"

struct result test_result;

void result_begin(uint64_t seed)
{
	memset(&test_result, 0, sizeof(test_result));
	test_result.seed = seed;
	test_result.began = clock_us();
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

struct counted counted;

static void note_code(enum outcome outcome)
{
	static const uint8_t code_of[] = {
		[OUTCOME_PASS] = CODE_PASS,   [OUTCOME_OBS] = CODE_OBS,
		[OUTCOME_SKIP] = CODE_SKIP,   [OUTCOME_XFAIL] = CODE_XFAIL,
		[OUTCOME_ERROR] = CODE_ERROR, [OUTCOME_FAIL] = CODE_FAIL};

	if (counted.code_count < MOST_CODES)
		counted.codes[counted.code_count++] = code_of[outcome];
}

void result_codes(struct code_results *results)
{
	results->count = counted.code_count;
	results->result = counted.codes;
	code_set_results(results);
}

/* --- By unit --------------------------------------------------------------------------------- */

static unsigned asked; /* a bit for each unit of units= */

bool units_read(void)
{
	const char *list = options.units, *word;
	size_t length;

	while (list_next(&list, &word, &length)) {
		unsigned unit = 0;

		while (unit < UNITS && (strlen(unit_names[unit]) != length ||
					memcmp(unit_names[unit], word, length)))
			unit++;
		if (unit == UNITS)
			return false;
		asked |= 1u << unit;
	}
	return true;
}

static unsigned unit_of(const char *test)
{
	unsigned unit = 0;

	while (unit < UNITS && !globs_match(unit_tests[unit], test))
		unit++;
	return unit;
}

static void note_rule(unsigned letters, unsigned number)
{
	for (unsigned i = 0; i < ROWS_MOST && rule_rows[i].letters; i++)
		if (rule_rows[i].letters == letters && rule_rows[i].block == number / 32)
			counted.tested[i] |= 1u << number % 32;
}

/* Ids are separated by a blank: letters, then a number. */
static void note_rules(const char *ids)
{
	while (*ids) {
		unsigned letters = 0, number = 0;

		for (; *ids >= 'A'; ids++)
			letters = letters << 8 | (unsigned char)*ids;
		for (; *ids >= '0'; ids++)
			number = number * 10 + (unsigned)(*ids - '0');
		note_rule(letters, number);
		ids += *ids != 0;
	}
}

static void units_count(const struct test *test, const struct result *result)
{
	unsigned unit = unit_of(test->name);
	enum outcome outcome = result->outcome;

	if (outcome == OUTCOME_PASS || outcome == OUTCOME_FAIL || outcome == OUTCOME_XFAIL)
		note_rules(test->ids);
	if (unit == UNITS)
		return;
	counted.units[unit].count[outcome]++;
	if (outcome != OUTCOME_SKIP)
		return;
	if (!counted.units[unit].votes)
		memcpy(counted.units[unit].why, result->why, sizeof(result->why));
	counted.units[unit].votes += strcmp(counted.units[unit].why, result->why) ? -1u : 1;
}

static bool is_present(unsigned unit)
{
	static const uint8_t trace[UNITS] = {[UNIT_BTS] = TRACE_BTS,
					     [UNIT_PEBS] = TRACE_PEBS,
					     [UNIT_COUNTERS] = TRACE_UNITS,
					     [UNIT_LBR] = TRACE_LBR,
					     [UNIT_PT] = TRACE_PT};

	if (trace[unit] < TRACE_UNITS)
		return trace_units[trace[unit]]->is_present();
	return pmu_caps()->version;
}

static enum verdict unit_verdict(unsigned unit)
{
	if (counted.units[unit].count[OUTCOME_FAIL])
		return VERDICT_FAIL;
	if (counted.units[unit].count[OUTCOME_ERROR])
		return VERDICT_ERROR;
	return counted.units[unit].count[OUTCOME_PASS] && is_present(unit) ? VERDICT_PASS
									   : VERDICT_ALL_SKIPPED;
}

bool units_passed(bool otherwise)
{
	for (unsigned unit = 0; unit < UNITS; unit++)
		if (asked >> unit & 1 && unit_verdict(unit) != VERDICT_PASS)
			return false;
	return asked || otherwise;
}

/* How many of the unit's rules there are; or were tested. */
static unsigned count_rules(unsigned unit, bool of_tested)
{
	unsigned count = 0;

	for (unsigned i = 0; i < ROWS_MOST && rule_rows[i].letters; i++) {
		uint32_t left = rule_rows[i].rules & (of_tested ? counted.tested[i] : UINT32_MAX);

		for (; rule_rows[i].unit == unit && left; left &= left - 1)
			count++;
	}
	return count;
}

void units_print(void)
{
	for (unsigned unit = 0; unit < UNITS; unit++) {
		const char *why = counted.units[unit].why, *quote = *why ? "\"" : "";
		char text[RESULT_COUNTS];

		result_counts(counted.units[unit].count, text, sizeof(text));
		printk("# unit=%s rc=%d rules=%u/%u %s%s%s%s%s\n", unit_names[unit],
		       end_rc(unit_verdict(unit)), count_rules(unit, true),
		       count_rules(unit, false), text, *why ? " why=" : "", quote, why, quote);
	}
}

/* --------------------------------------------------------------------------------------------- */

void result_print(unsigned number, const struct test *test, const struct result *result,
		  struct totals *totals)
{
	static const char *const words[] = {
		[OUTCOME_PASS] = "",	       [OUTCOME_OBS] = " # OBS",
		[OUTCOME_SKIP] = " # SKIP ",   [OUTCOME_XFAIL] = " # XFAIL ",
		[OUTCOME_ERROR] = " # ERROR ", [OUTCOME_FAIL] = ""};
	bool bad = result->outcome >= OUTCOME_ERROR;
	uint64_t took = result->began ? clock_us() - result->began : 0;

	note_code(result->outcome);
	totals->count[result->outcome]++;
	units_count(test, result);
	totals->slow += result->slow && result->outcome == OUTCOME_SKIP;
	if (test->needs & (NEED_BTS | NEED_PEBS | NEED_SAMPLES | NEED_PT | NEED_LBR | NEED_UNIT) &&
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
	return units_passed(totals->with_unit && ds_has_bts()) ? VERDICT_PASS : VERDICT_ALL_SKIPPED;
}

void result_counts(const unsigned count[OUTCOME_FAIL + 1], char *text, size_t size)
{
	format(text, size, "pass=%u fail=%u skip=%u error=%u xfail=%u obs=%u", count[OUTCOME_PASS],
	       count[OUTCOME_FAIL], count[OUTCOME_SKIP], count[OUTCOME_ERROR], count[OUTCOME_XFAIL],
	       count[OUTCOME_OBS]);
}

void totals_print(const struct totals *totals, enum verdict verdict)
{
	end_print_done(verdict, &(struct end_counts){
					totals->count[OUTCOME_PASS], totals->count[OUTCOME_FAIL],
					totals->count[OUTCOME_SKIP], totals->count[OUTCOME_ERROR],
					totals->count[OUTCOME_XFAIL], totals->count[OUTCOME_OBS],
					totals->slow, options.units, totals->restarts});
}
