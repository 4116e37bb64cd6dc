/* SPDX-License-Identifier: MIT */
/* A walker that halts after every STAGE walks until the test has done something. */
#ifndef SPOOR_TESTS_LIB_STAGE_H
#define SPOOR_TESTS_LIB_STAGE_H

#include "tests/lib/walker.h"

#define STAGE 10

/* What `between` is, or calls. */
void stage_halt(struct walker *walker);

/* A walker in kernel and ring 3 that halts so and does nothing else between. */
struct walker stage_walker(struct user_chain *user, uint64_t walks);

/* Lets it go on, and waits until it has halted again after `walks` walks in all. */
void stage_next(struct walker *walker, uint64_t walks);

/* Lets it go on to its end, which comes before it halts again. */
void stage_last(struct walker *walker);

#endif
