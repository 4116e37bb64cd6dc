/* SPDX-License-Identifier: MIT */
/* TRACE_SIGNAL with rings of all sizes. */
#ifndef SPOOR_TESTS_LIB_SIGNAL_H
#define SPOOR_TESTS_LIB_SIGNAL_H

#include <stdbool.h>

/*
 * Traces ring 3 into rings from two records up, the interrupt delivered as NMI or by a fixed
 * vector: fails the test unless each branch is read exactly once.
 */
void signal_exact(bool nmi);

#endif
