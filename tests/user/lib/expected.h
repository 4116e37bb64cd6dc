/* SPDX-License-Identifier: MIT */
/*
 * The branches of the program that generate() made last, in order, as single-stepping shows them.
 * They are numbered from 0.
 */
#ifndef SPOOR_TESTS_USER_LIB_EXPECTED_H
#define SPOOR_TESTS_USER_LIB_EXPECTED_H

#include "abi/ptrace_bts.h"
#include "tests/user/lib/generated.h"

#define EXPECTED_MOST 8192

/* Steps a child through the program, to its end. */
void expected_find(void);

/* How many there are. */
uint32_t expected_count(void);

/* The branch `number` as a record. */
struct ptrace_bts_record expected_branch(uint32_t number);

/* How many a child with these registers has taken. */
uint32_t expected_taken(const struct ptrace_registers *registers);

#endif
