/* SPDX-License-Identifier: MIT */
/* CPUs that record at the same time. */
#ifndef SPOOR_TESTS_LIB_OWN_H
#define SPOOR_TESTS_LIB_OWN_H

#include <stdint.h>

/*
 * On each CPU of the set (the first eight count) a task walks a chain of its own in ring 3, with a
 * tracer of the CPU: fails the test unless each has its own branches, all of them, and no other.
 */
void own_branches(uint64_t cpus);

#endif
