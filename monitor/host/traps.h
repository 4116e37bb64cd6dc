/* SPDX-License-Identifier: MIT */
/*
 * Interrupts of the monitor itself, on each of its processors. It runs with IF = 0; an external
 * interrupt is taken only in the two windows below and is meant for the guest, which owns the
 * interrupt controllers: nothing here acknowledges it. An NMI is noted wherever it arrives.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A stack is as long as it is aligned; at its lower end is what its processor's traps leave. */
#define STACK_BYTES 0x8000

/* Builds the IDT and loads it. Before anything that may fault. */
void traps_init(void);

/* Loads it on another processor, or another stack; nothing is noted there yet. */
void traps_load(void);

/* From now on every processor that takes an NMI stops permanently. */
void traps_stop_at_nmi(void);

#define NO_VECTOR (-1)

/* Takes at most one pending external interrupt: its vector, or NO_VECTOR. */
int take_interrupt(void);

/*
 * Halts until an NMI or, where `interruptible`, an external interrupt is taken: its vector, or
 * NO_VECTOR. Returns at once if an NMI was noted before.
 */
int wait_for_interrupt(bool interruptible);

/* From now on every NMI also sets `*flag`. */
void nmi_announce(volatile bool *flag);

/* From now on an NMI that finds a processor in [`start`, `end`) continues at `target`. Once. */
void nmi_leaves(const char *start, const char *end, const char *target);

/* Of this processor: whether an NMI came since the last nmi_take(). */
const volatile bool *nmi_flag(void);
bool nmi_take(void);
