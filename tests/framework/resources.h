/* SPDX-License-Identifier: MIT */
/* What the suite does around a test on behalf of test.h. */
#ifndef SPOOR_TESTS_FRAMEWORK_RESOURCES_H
#define SPOOR_TESTS_FRAMEWORK_RESOURCES_H

#include <stdbool.h>
#include <stdint.h>

struct trap_frame;

/* Frees what test_area() gave out. */
void test_release_areas(void);

/* Starts the sequence of test_random() anew. */
void test_seed(uint64_t seed);

/*
 * Runs `run` as the body of the calling task, the test's own. If an exception comes that nobody
 * expects, in this task and with nothing held, the test is an ERROR and the task ends.
 */
void test_run_body(void (*run)(void));

/* For exception_unexpected (trap.h): true if the exception ends the test and no more. */
bool test_claim_exception(struct trap_frame *frame);

#endif
