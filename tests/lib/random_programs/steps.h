/* SPDX-License-Identifier: MIT */
/*
 * A random program run step by step: a #DB handler of the test's own notes the address after each
 * instruction. With preemption off; takes the IDT (own_tables.h) and DR6 meanwhile.
 */
#pragma once

#include "tests/lib/random_programs/program.h"
#include "tests/lib/rig.h"

struct steps {
	uint32_t *noted; /* low halves of RIP, in the order of execution */
	size_t count, most;
};

/* Room for `most` steps, until the test is over. */
void steps_open(struct steps *steps, size_t most);

/*
 * From here on #DB of the own IDT notes steps, which own_idt_copy() has made and the caller loads;
 * steps_finish() ends the test if there was too little room.
 */
void steps_begin(struct steps *steps);
void steps_finish(struct steps *steps);

/* As machine_run() of the program, with TF set. Ends the test if there is too little room. */
void steps_run(struct steps *steps, const struct program *program, struct machine *machine,
	       uint64_t debugctl);

/*
 * True if this processor steps the last iteration of a repeated string instruction twice, the
 * second time with a count of 0: the manual has one trap an iteration (SDM Vol 3, 17.3.1.4). As
 * steps_run().
 */
bool steps_repeat_last(void);

/* Removes from `steps` the second steps of last iterations that `other` does not have; returns how
   many. Where steps_repeat_last(). */
size_t steps_drop_repeated(struct steps *steps, const struct steps *other);

/* How many of the steps were branch instructions of the program, taken or not. */
size_t steps_branches(const struct steps *steps, const struct program *program);

/* A branch that the steps took; `step` is the index of the first step after it. */
struct step_branch {
	uint64_t from, to;
	size_t step;
};

/*
 * The first branch from the step `branch->step` on, which is 0 at first: each call moves it on, the
 * last is the program's return. Its call is not among them. False: there is none left.
 */
bool steps_next_branch(const struct steps *steps, const struct program *program,
		       struct step_branch *branch);

/*
 * Fails the test unless `rig` holds the branches that the steps took, and no other: the call of
 * the program first, its return last.
 */
void steps_expect(const struct steps *steps, const struct program *program, const struct rig *rig);
