/* SPDX-License-Identifier: MIT */
/* The result of a test, which the suite begins and settles around it for test.h. */
#pragma once

#include "kernel/code.h"
#include "kernel/end.h"
#include "tests/framework/test.h"

struct trap_frame;

enum outcome {
	OUTCOME_PASS,
	OUTCOME_OBS,
	OUTCOME_SKIP,
	OUTCOME_XFAIL,
	OUTCOME_ERROR,
	OUTCOME_FAIL
};

struct result {
	enum outcome outcome;
	unsigned checks, failures, observations;
	bool slow;	     /* a SKIP for want of time */
	uint64_t seed;	     /* of what the test draws */
	uint64_t began;	     /* clock_us(); 0: it never ran */
	const char *erratum; /* a check failed as this one says */
	char why[160];	     /* of SKIP, XFAIL, ERROR */
};

/* What a restart of the kernel keeps. */
struct totals {
	unsigned count[OUTCOME_FAIL + 1];
	unsigned with_unit; /* tests that need a trace unit and ran */
	unsigned slow;	    /* skips for want of time */
	unsigned restarts;
};

/* The result of the running test, settled once it is over. */
extern struct result test_result;
void result_begin(uint64_t seed);
void result_settle(const struct test *test);

/* "# time ..." and "ok 7 name # SKIP why" or the like, counted into `totals` and for its unit. */
void result_print(unsigned number, const struct test *test, const struct result *result,
		  struct totals *totals);

/* Fills in those that were printed, and hands them to the code on the screen (kernel/code.h). */
void result_codes(struct code_results *results);

/* "pass=1 fail=0 skip=0 error=0 xfail=0 obs=0", of results by their outcome. */
enum { RESULT_COUNTS = 96 };
void result_counts(const unsigned count[OUTCOME_FAIL + 1], char *text, size_t size);

/* --- By unit: which tests and rules of the manual are whose, and how they ended --------------- */

/* In the order of all lists. */
enum { UNIT_BTS, UNIT_PEBS, UNIT_COUNTERS, UNIT_LBR, UNIT_PT, UNITS };

/* `tools/assertions --units` writes these from tests/assertions.txt and tools/Spoor/Units.pm. They
   are the suite's: the framework is linked without any for its size alone (`make bench`). */
#define OF_SUITE __attribute__((weak))
extern OF_SUITE const char *const unit_names[UNITS];
extern OF_SUITE const char *const unit_tests[UNITS]; /* globs, comma-separated */

/* The rules of a unit whose ids have these letters and a number from 32 * block on, a bit each:
   those that hold by the manual (class M). `letters` is 0 in the last row. */
extern OF_SUITE const struct rule_row {
	uint16_t letters; /* a byte each */
	uint8_t unit, block;
	uint32_t rules;
} rule_rows[];

/* What lines by unit and the code on the screen say of the results that were printed: a restart of
   the kernel keeps it. */
enum { MOST_CODES = 8192, ROWS_MOST = 64 };
extern struct counted {
	uint8_t codes[MOST_CODES]; /* no code has room for as many */
	unsigned code_count;
	uint32_t tested[ROWS_MOST]; /* of each of rule_rows: those that a test found kept or broken
				     */
	struct {
		unsigned count[OUTCOME_FAIL + 1];
		unsigned votes; /* skips for `why` less others; that of most of them if one is */
		char why[sizeof(((struct result *)0)->why)];
	} units[UNITS];
} counted;

/* Reads units= of the command line. False: it has a word that is none of the units. */
bool units_read(void);

/* True if each unit of units= is there, one of its tests passed, and none of them failed or is in
   error; `otherwise` without that word. */
bool units_passed(bool otherwise);

/* The line of each unit, before the DONE line. The end of a run. */
void units_print(void);

/* --- The run --------------------------------------------------------------------------------- */

/* The verdict of a whole run: the most severe outcome; all skipped where no test of a trace unit
   ran, or there is no BTS. With units=: where one of them is absent or was not tested. */
enum verdict totals_verdict(const struct totals *totals);

/* The last line of the run. */
void totals_print(const struct totals *totals, enum verdict verdict);

/* Unless this holds: a failure of the running test, "# the test " and `otherwise`. */
void test_expect_left(bool holds, const char *otherwise);

/*
 * Gives back the debug MSRs, preemption and interrupts of this CPU if a test kept them: a failure
 * of a test that returned, and none of one that ended in the middle.
 */
void test_put_in_order(bool returned);

/* Ends the tasks that the test has not given back, a failure of one that returned: they use what is
   about to be freed. Waits up to a second for them. */
void test_end_tasks(void);

/* Frees what test_area() gave out. */
void test_release_areas(void);

/* Starts the sequence of test_random() anew. */
void test_seed(uint64_t seed);

/*
 * Runs `run` as the body of the calling task, the test's own. If this task raises an exception that
 * nobody expects, with nothing held, the test is an ERROR and the task ends.
 */
void test_run_body(void (*run)(void));

/* For exception_unexpected (trap.h): true if the exception ends the test and no more. */
bool test_claim_exception(struct trap_frame *frame);

/*
 * Ends the test that hangs at `frame` with the result `why`, an ERROR, once the handler that calls
 * this returns. False: something may be held there, or the test's own task does not run.
 */
bool test_claim_hang(struct trap_frame *frame, const char *why);
