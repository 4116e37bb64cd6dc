/* SPDX-License-Identifier: MIT */
/*
 * Random programs for the virtual processor of interp_rig.h, of all that control flow knows. They
 * have no end.
 */
#pragma once

#include "tests/host/interp_rig.h"

enum { FUNCTIONS = 24, FUNCTION_BYTES = 512, VECTOR = 0x80 };
/* Where the second half is: of an address there two bytes are not enough. */
enum { FAR_CODE = 0x2a000 };

/* A number below `n`, of the same sequence as the program; where function `n` of it begins. */
unsigned below(unsigned n);
uint8_t *function(unsigned n);

/* The program of this seed; with INT n and UD2 if there are to be events. */
void make_program(uint64_t with_seed, bool events);

enum { SYSCALL_ENTRY = 0x28000 };

/* Ring 3 calls the system after each call of function `first`; the kernel's side is a branch and
   SYSRET. */
void make_user_program(uint64_t with_seed, unsigned first, bool events);
