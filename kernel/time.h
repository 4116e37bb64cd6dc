/* SPDX-License-Identifier: MIT */
/* Time since boot, and what shall happen later: one-shot timers on the LAPIC's. */
#pragma once

#include "drivers/clock/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct cpu;

struct timer {
	uint64_t deadline;		      /* microseconds since boot */
	void (*expired)(struct timer *timer); /* IF = 0, on the CPU that started it */
	struct timer *next;
	struct cpu *cpu; /* in whose list it is, or was */
	bool running;
};

/* Calibrates the clocks and takes the timer vector. NULL, or what is missing. Boot. */
const char *time_init(void);

/* The timer of another CPU, once its local APIC is on. */
void time_init_cpu(void);

/* Serves the timer interrupt that is due on `cpu`, this one. For the scheduler; IF = 0. */
void time_interrupt_work(struct cpu *cpu);

/* Starts, or restarts, `timer` on this CPU; it expires once, in `microseconds` at the soonest. */
void timer_start(struct timer *timer, uint64_t microseconds);

/*
 * Stops it wherever it was started; when this returns it does not expire any more, not even on
 * another CPU (whose `expired` must not need a lock that the caller holds).
 */
void timer_stop(struct timer *timer);
