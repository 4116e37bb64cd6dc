/* SPDX-License-Identifier: MIT */
/*
 * A deadline that ends the run when it is missed. Two clocks watch: the LAPIC timer, and after it
 * an NMI from the HPET for code that keeps interrupts off. Where there is no HPET that can do so
 * the banner says it. A stop of the whole machine, of which its clocks tell, counts as a quarter of
 * the deadline at most.
 */
#pragma once

#include <stdint.h>

struct trap_frame;

void watchdog_init(void);

/* "timer+nmi", or "timer" where no NMI can be had. */
const char *watchdog_kind(void);

/* Sets the function for a missed deadline. It gets, and may change, the state of this CPU. */
void watchdog_set_handler(void (*handler)(struct trap_frame *frame));

void watchdog_arm(uint64_t seconds);
void watchdog_disarm(void);
void watchdog_silence(void); /* takes the NMI back, whatever is locked: the end of this kernel */
