/* SPDX-License-Identifier: MIT */
/* Records on their way from a task's small buffer to its ring, many times over. */
#ifndef SPOOR_TESTS_LIB_HAND_OVER_H
#define SPOOR_TESTS_LIB_HAND_OVER_H

#include <stdbool.h>

/*
 * Two traced tasks walk and take turns with buffers that fill up every few walks. Fails the test
 * unless records were handed over again and again and every branch came through, once.
 */
void hand_over_walks(bool nmi);

#endif
