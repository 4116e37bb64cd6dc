/* SPDX-License-Identifier: MIT */
/* What the filters by privilege level leave of a program in ring 3 and the kernel. */
#ifndef SPOOR_TESTS_LIB_OFF_H
#define SPOOR_TESTS_LIB_OFF_H

#include "tests/lib/sight.h"

#define OFF_WALKS 8

/* Walks in ring 3 and the kernel with IA32_DEBUGCTL = `debugctl`, on a rig: what was recorded. */
struct sight off_trace(uint64_t debugctl);

#endif
