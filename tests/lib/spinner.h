/* SPDX-License-Identifier: MIT */
/* A traced task that spins on one branch, in ring 3 or in the kernel, while another has its turns.
 */
#ifndef SPOOR_TESTS_LIB_SPINNER_H
#define SPOOR_TESTS_LIB_SPINNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPINNER_MOST 64

/* The kernel's own records between two spins that the timer parted. */
struct preemption {
	uint32_t departure; /* from the interrupt to the end of recording */
	uint32_t arrival;   /* from the start of recording to the spin */
};

/* Lets the timer preempt the spinner for a while and returns what that left in its buffer. */
size_t spinner_run(bool in_user, struct preemption preemptions[SPINNER_MOST]);

#endif
