/* SPDX-License-Identifier: MIT */
/*
 * Model-specific registers. Ordinary functions, so that host tests can link a bank of their own
 * in their place. CPL 0 only; any context.
 */
#ifndef SPOOR_DRIVERS_MSR_H
#define SPOOR_DRIVERS_MSR_H

#include <stdbool.h>
#include <stdint.h>

/* An MSR that does not exist raises #GP, which has no handler. */
uint64_t rdmsr(uint32_t index);
void wrmsr(uint32_t index, uint64_t value);

/*
 * False if the instruction raised #GP: then `*value` is unchanged, or nothing was written. Supplied
 * by the kernel, from when its exception table works.
 */
bool rdmsr_safe(uint32_t index, uint64_t *value);
bool wrmsr_safe(uint32_t index, uint64_t value);

#endif
