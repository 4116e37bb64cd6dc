/* SPDX-License-Identifier: MIT */
/* How many instructions code takes: counted by single steps. */
#ifndef SPOOR_TESTS_LIB_INSTRUCTIONS_H
#define SPOOR_TESTS_LIB_INSTRUCTIONS_H

#include <stdint.h>

/* Of `function(argument)`, with its call and return. IF = 0 meanwhile. Preemption off. */
uint64_t instructions_of(void (*function)(void *argument), void *argument);

#endif
