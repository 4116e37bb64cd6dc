/* SPDX-License-Identifier: MIT */
/* What a program of ring 3 said on the console. */
#ifndef SPOOR_TESTS_LIB_SAID_H
#define SPOOR_TESTS_LIB_SAID_H

#include "tests/lib/programs.h"

/* Runs a program to its end, with the right to kernel addresses if `privileged`: its status. */
int said_run(const char *name, uint64_t argument, bool privileged);

/* A line of that run that `pattern` (with * and ?) matches, behind `line` (NULL: any); or NULL. */
const char *said(const char *pattern, const char *line);

#endif
