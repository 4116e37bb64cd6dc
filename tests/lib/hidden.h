/* SPDX-License-Identifier: MIT */
/* Debug controls that must not be had where CPUID hides the Debug Store. */
#ifndef SPOOR_TESTS_LIB_HIDDEN_H
#define SPOOR_TESTS_LIB_HIDDEN_H

#include "drivers/ds/ds.h"
#include "tests/framework/test.h"

/*
 * Fails the test if IA32_DEBUGCTL takes any bit of `bits`, or if a refused write changed it;
 * observes under `key` how it was refused. What it held before is put back. Task context.
 */
void hidden_expect_refused(const char *key, uint64_t bits);

#endif
