/* SPDX-License-Identifier: MIT */
/*
 * What an exact count needs around a TRACED() bracket: a control run without any branch before it,
 * and another try from an empty buffer when a system management interrupt came in between, since
 * the branches of its handler, or none at all from there on, may have been recorded.
 *
 *	EXACTLY(&rig)
 *		TRACED(rig_all(), "...");
 */
#ifndef SPOOR_TESTS_LIB_EXACT_H
#define SPOOR_TESTS_LIB_EXACT_H

#include "tests/lib/rig.h"

struct exact {
	struct rig *rig;
	uint64_t smi_count;
	unsigned tries;
};

#define EXACTLY(of_rig) for (struct exact exact = exact_begin(of_rig); exact_again(&exact);)

/* The control run: ends the test if a bracket without a branch leaves a record. */
struct exact exact_begin(struct rig *rig);

/* True if the bracket has to be run (again). */
bool exact_again(struct exact *exact);

/* System management interrupts so far; always 0 where no MSR counts them. Any context. */
uint64_t smi_count(void);

#endif
