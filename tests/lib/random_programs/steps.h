/* SPDX-License-Identifier: MIT */
/*
 * A random program run step by step: a #DB handler of the test's own notes the address behind each
 * instruction. With preemption off; takes the IDT (own_tables.h) and DR6 meanwhile.
 */
#ifndef SPOOR_TESTS_LIB_RANDOM_PROGRAMS_STEPS_H
#define SPOOR_TESTS_LIB_RANDOM_PROGRAMS_STEPS_H

#include "tests/lib/random_programs/program.h"
#include "tests/lib/rig.h"

struct steps {
	uint32_t *noted; /* low halves of RIP, in the order of execution */
	size_t count, most;
};

/* Room for `most` steps, until the test is over. */
void steps_open(struct steps *steps, size_t most);

/* As machine_run() of the program, with TF set. Ends the test if there is too little room. */
void steps_run(struct steps *steps, const struct program *program, struct machine *machine,
	       uint64_t debugctl);

/* How many of the steps were branch instructions of the program, taken or not. */
size_t steps_branches(const struct steps *steps, const struct program *program);

/*
 * Fails the test unless `rig` holds the branches that the steps took, and no other: the call of
 * the program first, its return last.
 */
void steps_expect(const struct steps *steps, const struct program *program, const struct rig *rig);

#endif
