/* SPDX-License-Identifier: MIT */
/* Which tests a run is made of, and in what order. */
#pragma once

#include "tests/framework/test.h"

#define MAX_TESTS 1024

/*
 * Reads the rows that TEST() left, before all that follows is called. Panics where they are more
 * than MAX_TESTS: a run leaves none out without a word.
 */
void tests_read(void);

/*
 * Fills `selected` with the tests that the globs of `globs` (comma-separated, '-' first leaves
 * out, empty: all) and the groups of `groups` (comma-separated, empty: all) name, in the order of
 * the groups in the reference and of names within a group. Tests that break the run on purpose are
 * only taken when a glob without wildcard names them. Returns how many.
 */
unsigned select_tests(const char *globs, const char *groups,
		      const struct test *selected[MAX_TESTS]);

/* True if a skip of `test` is a failure: require= names it. */
bool select_required(const struct test *test);

/* The first glob of require= that names none of the `count` tests of `selected`; NULL: none. */
const char *select_required_none(const struct test *const *selected, unsigned count);

/*
 * The list of all tests, from which tools/judge knows those of a photograph: sorted by name, a line
 * `name group 0|1` each, 1 where a run takes the test if no word chooses any. Returns its CRC32C;
 * `count` gets how many tests there are.
 */
uint32_t select_list(unsigned *count);

/* True if this run takes the test at this place of that list. */
bool select_takes(unsigned place);

/* True if `name` matches one of these globs (comma-separated, '-' first leaves out), or there is
   none but those that leave out, and it matches none of these. */
bool globs_match(const char *globs, const char *name);

/* The next element of the comma-separated `list`, which moves past it; false at its end. */
bool list_next(const char **list, const char **element, size_t *length);

/* '*' matches any run of characters, '?' one; `pattern` need not end in NUL. */
bool glob_match(const char *pattern, size_t length, const char *text);
