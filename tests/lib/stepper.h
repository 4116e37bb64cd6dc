/* SPDX-License-Identifier: MIT */
/*
 * A branch tracer without any trace hardware: the trap flag, and a #DB handler that stores a
 * record wherever the instruction pointer does not simply go on. The peer that BTS is measured
 * against. It takes a forward jump over less than 15 bytes for no branch.
 */
#ifndef SPOOR_TESTS_LIB_STEPPER_H
#define SPOOR_TESTS_LIB_STEPPER_H

#include <stddef.h>
#include <stdint.h>

/* As large as a BTS record, so that both move the same memory. */
struct stepped_branch {
	uint64_t from, to, flags;
};

/*
 * The workload: `n` times five instructions, the fifth a branch back; n - 1 of them are taken.
 * IF = 0 meanwhile. `untraced` is the bare loop; `stepped` records into the `size` records of
 * `ring`, round and round, and returns how many it stored; `recorded` runs it with IA32_DEBUGCTL =
 * `debugctl` under a rig. Preemption off. Each returns cycles of the time-stamp counter in
 * `cycles`.
 */
void loop_untraced(uint64_t n, uint64_t *cycles);
void loop_recorded(uint64_t debugctl, uint64_t n, uint64_t *cycles);
uint64_t loop_stepped(struct stepped_branch *ring, size_t size, uint64_t n, uint64_t *cycles);

/* The one branch of the loop. */
extern const char loop_start[], loop_branch[];

#endif
