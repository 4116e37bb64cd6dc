/* SPDX-License-Identifier: MIT */
/* What the runner does around a test on behalf of test.h. */
#ifndef SPOOR_TESTS_FRAMEWORK_RESOURCES_H
#define SPOOR_TESTS_FRAMEWORK_RESOURCES_H

#include <stdint.h>

/* Frees what test_area() gave out. */
void test_release_areas(void);

/* Starts the sequence of test_random() anew. */
void test_seed(uint64_t seed);

#endif
