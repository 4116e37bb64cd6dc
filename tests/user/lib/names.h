/* SPDX-License-Identifier: MIT */
/* Names for addresses of a program that has no table of symbols when it runs. */
#ifndef SPOOR_TESTS_USER_LIB_NAMES_H
#define SPOOR_TESTS_USER_LIB_NAMES_H

#include "tests/user/lib/user.h"

/* For a function that shall have branches of its own. */
#define NOINLINE __attribute__((noinline))

struct name {
	const void *start;
	const char *name;
};

/* The functions that the program wants to be told by name; the last entry is NULL. */
extern const struct name names[];

/* The function that `address` is in; NULL: none of these. */
const struct name *find_name(uint64_t address);

/* Adds to a line on the console: the function that `address` is in and the offset, or the address.
 */
void say_place(uint64_t address);

#endif
