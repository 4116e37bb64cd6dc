/* SPDX-License-Identifier: MIT */
/* Writes an MSR that may refuse the value, with no branch between the write and its undoing. */
#ifndef SPOOR_TESTS_LIB_MSR_TRIAL_H
#define SPOOR_TESTS_LIB_MSR_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

struct msr_trial {
	bool refused;	    /* the write raised an exception: trap_caught() says which */
	uint64_t read_back; /* what the MSR held after the write; 0 if it cannot be read */
};

/*
 * Writes `value` to MSR `index`, reads it back, writes `restore`. With IF = 0 meanwhile.
 * IA32_DEBUGCTL and IA32_DS_AREA: only while they are lent (ds_checkout).
 */
struct msr_trial msr_try(uint32_t index, uint64_t value, uint64_t restore);

/* The outcome for `bits`: "gp", "ignored" or "kept" (any of them). */
const char *msr_trial_word(const struct msr_trial *trial, uint64_t bits);

#endif
