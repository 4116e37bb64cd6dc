/* SPDX-License-Identifier: MIT */
/*
 * splitmix64: a pseudo-random sequence that a printed seed repeats, for all tests. Any context,
 * also programs of ring 3 and of the build machine.
 */
#pragma once

#include <stdint.h>

/* The next number of the sequence whose seed `state` was at first; one below `below`, which is not
 * 0. */
uint64_t random_next(uint64_t *state);
uint64_t random_below(uint64_t *state, uint64_t below);
