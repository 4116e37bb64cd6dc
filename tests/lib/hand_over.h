/* SPDX-License-Identifier: MIT */
/* Records on their way from the hardware to a task's ring, many times over. */
#ifndef SPOOR_TESTS_LIB_HAND_OVER_H
#define SPOOR_TESTS_LIB_HAND_OVER_H

#include <stdbool.h>

/*
 * Two traced tasks walk and take turns, rarely enough that the hardware's buffer fills up. Fails
 * the test unless records were handed over again and again and every branch came through, once.
 */
void hand_over_walks(bool nmi);

#endif
