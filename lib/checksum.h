/* SPDX-License-Identifier: MIT */
/* The checksum by which an image finds out that it was damaged on its way into memory. */
#pragma once

#include <stdint.h>

/*
 * Returns the checksum of the words from `start` to `end`, `sum` being that of what is before
 * them (first: 0). Any context. tools/checksum computes the same.
 */
static inline uint64_t checksum(uint64_t sum, const uint64_t *start, const uint64_t *end)
{
	/* Multiplication by an odd number loses nothing: a word that differs makes another sum. */
	for (const uint64_t *word = start; word < end; word++)
		sum = (sum ^ *word) * 0x9e3779b97f4a7c15;
	return sum;
}
