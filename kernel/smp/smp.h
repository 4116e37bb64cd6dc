/* SPDX-License-Identifier: MIT */
/* More than one CPU: starting them, calling one from another, stopping them. */
#pragma once

#include "abi/boot_info.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Starts every CPU that the MADT lists as enabled, one after the other (SDM Vol 3, 8.4.4). Those
 * that do not start in time, or find no room, are left out: a line says how many are used. Boot
 * CPU, once it has its clocks.
 */
void smp_start(const struct boot_info *info);

/*
 * Takes this CPU, not the boot CPU, through INIT: waits in a loop of one branch until another CPU
 * calls smp_unpark(), and returns when it has been started again. `started(argument)` is called
 * before anything of what INIT left is set: no per-CPU data, no IDT. IF = 0, preemption off, the
 * debug MSRs borrowed (ds_checkout()); what INIT did to them is the caller's to see to. One CPU at
 * a time.
 */
void smp_park(void (*started)(void *argument), void *argument);

/*
 * Sends INIT to CPU `index`, which waits in smp_park(), and starts it again (SDM Vol 3, 8.4.4.1).
 * False: it does not wait there, or did not return from there within two seconds. Task context.
 */
bool smp_unpark(unsigned index);

/*
 * Runs `function(argument)` on CPU `index`, with IF = 0, and returns when it is done; directly if
 * that is the caller's. Does nothing if that CPU is in smp_park(). The function must not wait for
 * another CPU. Not under a spinlock, not in an NMI.
 */
void smp_call(unsigned index, void (*function)(void *argument), void *argument);

/* The same on every CPU, the caller's included: on 16 of them at a time, in any order. */
void smp_call_all(void (*function)(void *argument), void *argument);

/* Lets CPU `index` look at its run queue. Any context but NMI. */
void smp_kick(unsigned index);

/* Forgets the translations of [start, start + bytes) on every CPU. As smp_call(). */
void smp_flush(uint64_t start, uint64_t bytes);

/*
 * Stops all other CPUs permanently, by NMI, with their tracing turned off; waits for them a bounded
 * time. Any context. For panics and the end of a run.
 */
void smp_stop_others(void);

/*
 * Lets the boot CPU call `function`, which does not return, in place of what it was stopped in;
 * this CPU halts. Returns if the boot CPU has not stopped, or does not answer within five seconds.
 * After smp_stop_others(). Any context.
 */
void smp_hand_over(void (*function)(void));

/*
 * Takes the other CPUs that are used through INIT: in its first instructions each writes 0 to
 * `msrs`, a list that ends with 0, and halts. False: one does not answer. Boot CPU; IF = 0.
 */
bool smp_reset_others(const uint32_t *msrs);

/* For start.c: takes the interrupts of all above. Boot. */
void smp_init_calls(void);
