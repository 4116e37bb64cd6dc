/* SPDX-License-Identifier: MIT */
/* splitmix64: a pseudo-random sequence that a printed seed repeats. Any context. */
#ifndef SPOOR_TESTS_FRAMEWORK_RANDOM_H
#define SPOOR_TESTS_FRAMEWORK_RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state;
};

static inline void random_seed(struct random *random, uint64_t seed)
{
	random->state = seed;
}

static inline uint64_t random_next(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

#endif
