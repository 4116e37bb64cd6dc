/* SPDX-License-Identifier: MIT */
/*
 * The flight recorder: at a trigger all units of all CPUs stop, each CPU by an NMI. The contexts of
 * a frozen CPU come to rest once interrupts are on, for their readers, and trace_arrive() finds
 * none to record until the thaw: an untraced switch has nothing more to look at.
 */
#pragma once

#include "abi/ptrace.h"

#include <stdatomic.h>
#include <stdbool.h>

struct cpu;
struct trap_frame;

/* Of a CPU: an NMI is on its way; no unit starts; the units stopped; its contexts rest, too. */
struct freeze_cpu {
	atomic_bool called, frozen, stopped, rests;
	struct ptrace_freeze_cpu status; /* once it has stopped */
};

/* Takes the NMI, as the first, and the word freeze=. Boot. */
void freeze_init(void);

/*
 * `trigger`, PTRACE_FREEZE_..., has come in the state `frame` (NULL: not known). If it is armed all
 * CPUs freeze, this one first, which waits for the others, a second at most; those of a panic stop
 * anyway. Any context but NMI; spinlocks may be held.
 */
void freeze_on(unsigned trigger, const struct trap_frame *frame);

/*
 * Prints when a CPU stopped; false: nothing is frozen, or it has not stopped. Then: of all CPUs,
 * once, what a trigger has frozen. No spinlock held, but in a panic.
 */
bool freeze_say(unsigned index);
void freeze_say_all(void);

/* The contexts of this CPU are at rest: so is all of it, if it is frozen. IF = 0. */
void freeze_rest(struct cpu *cpu);

/* All CPUs are frozen and at rest: no trace changes until the thaw. Any context. */
bool freeze_is_whole(void);

/* PTRACE_FREEZE; `owner`, an address, says whose. -EBUSY. Task context, no lock held. */
int freeze_request(const void *owner, unsigned flags, const struct trap_frame *frame);
void freeze_owner_ended(const void *owner);

/* PTRACE_FREEZE_STATUS of a CPU. False: nothing is frozen. Any context. */
bool freeze_status(unsigned index, struct ptrace_freeze_cpu *status);
