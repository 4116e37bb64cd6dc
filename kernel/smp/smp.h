/* SPDX-License-Identifier: MIT */
/* More than one CPU: starting them, calling one from another, stopping them. */
#pragma once

#include "abi/boot_info.h"

#include <stdbool.h>
#include <stdint.h>

struct cpu;

/*
 * Starts every CPU that the MADT lists as enabled, one after the other (SDM Vol 3, 8.4.4). Those
 * that do not start in time, or find no room, are left out: a line says how many are used. Boot
 * CPU, once it has its clocks.
 */
void smp_start(const struct boot_info *info);

/*
 * INIT to a CPU, and start-up IPIs to `function`, which has 1 KiB of stack and the boot tables (SDM
 * Vol 3, 8.4.4.1). False: it is not online within `wait` microseconds. Such a CPU then sets its
 * registers as the kernel needs them, once it is in the kernel's address space.
 */
bool smp_send_start(const struct cpu *cpu, void (*function)(void), uint64_t wait);
void smp_load_processor(struct cpu *cpu);

/*
 * Runs `function(argument)` on CPU `index`, with IF = 0, and returns when it is done; directly if
 * that is the caller's. Does nothing if that CPU is not online. The function must not wait for
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
