// SPDX-License-Identifier: MIT
/* Runs the tests of a program in the order of their file. */
#include "tests/host/host.h"

#include <stdlib.h>

enum { MOST = 64 };

/* The linker's: those of UNIT(). */
extern const struct unit_test *const __start_unit_tests[], *const __stop_unit_tests[];

static int by_line(const void *a, const void *b)
{
	return (*(const struct unit_test *const *)a)->line -
	       (*(const struct unit_test *const *)b)->line;
}

int main(void)
{
	const struct unit_test *units[MOST];
	struct CMUnitTest tests[MOST];
	size_t count = (size_t)(__stop_unit_tests - __start_unit_tests);

	if (count > MOST)
		abort();
	for (size_t n = 0; n < count; n++)
		units[n] = __start_unit_tests[n];
	qsort(units, count, sizeof(units[0]), by_line);
	for (size_t n = 0; n < count; n++)
		tests[n] = units[n]->test;
	return _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
}
