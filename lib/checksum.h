/* SPDX-License-Identifier: MIT */
/* The checksum by which an image finds out that it was damaged on its way into memory. */
#ifndef SPOOR_LIB_CHECKSUM_H
#define SPOOR_LIB_CHECKSUM_H

#include <stdint.h>

/*
 * Returns the checksum of the words from `start` to `end`, `sum` being that of what comes before
 * (first: 0). Any context. tools/checksum computes the same.
 */
uint64_t checksum(uint64_t sum, const uint64_t *start, const uint64_t *end);

#endif
