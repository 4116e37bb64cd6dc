/* SPDX-License-Identifier: MIT */
/*
 * Every host unit test includes this: cmocka, with the headers that it wants before it.
 *
 *	UNIT(wraps_long_lines, .setup_func = draw, .teardown_func = reset)
 *	{
 *		assert_int_equal(lines(), 2);
 *	}
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct unit_test {
	int line;
	struct CMUnitTest test;
};

/* A test with cmocka's fixtures, if it has any; main.c finds it by the linker. */
#define UNIT(test_name, ...)                                                                       \
	static void test_name(void **state);                                                       \
	static const struct unit_test test_name##_unit = {                                         \
		__LINE__, {.name = #test_name, .test_func = test_name, __VA_ARGS__}};              \
	static const struct unit_test *const test_name##_at                                        \
		__attribute__((section("unit_tests"), used)) = &test_name##_unit;                  \
	static void test_name(void **state)
