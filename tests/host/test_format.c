// SPDX-License-Identifier: MIT
/* sources: lib/format.c */
#include "lib/format.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tests/host/host.h"

/* Ours and libc's agree on the text and on the length, with room and without. */
static volatile size_t small = 4; /* the compiler would warn of a truncation that it sees */

#define same(...)                                                                                  \
	do {                                                                                       \
		char own[128], libc[128];                                                          \
		int length = snprintf(libc, sizeof(libc), __VA_ARGS__);                            \
		assert_int_equal(format(own, sizeof(own), __VA_ARGS__), length);                   \
		assert_string_equal(own, libc);                                                    \
		assert_int_equal(format(own, small, __VA_ARGS__), length);                         \
		snprintf(libc, small, __VA_ARGS__);                                                \
		assert_string_equal(own, libc);                                                    \
	} while (0)

UNIT(numbers)
{
	same("%d %i %u", 0, -1, 4000000000u);
	same("%d %d", INT_MIN, INT_MAX);
	same("%ld %lld %lu", LONG_MIN, LLONG_MAX, ULONG_MAX);
	same("%x %X %lx", 0xabcdu, 0xabcdu, 0xfedcba9876543210ul);
	same("%zu", (size_t)12345678901);
}

UNIT(widths)
{
	same("[%5d] [%-5d] [%05d] [%05d]", 42, 42, 42, -42);
	same("[%08x] [%16lx] [%-16lx]", 0xbeefu, 0xbeeful, 0xbeeful);
	same("[%2d] [%-2d]", 12345, 12345);
	same("[%*d]", 7, 42);
}

UNIT(texts)
{
	same("[%s] [%8s] [%-8s]", "abc", "abc", "abc");
	same("[%.2s] [%8.2s] [%.*s] [%.0s]", "abc", "abc", 1, "abc", "abc");
	same("%c%c %%", 'x', 'y');
	same("%s", "");
}

/* The precision bounds the reading, not only the writing: no NUL after these. */
UNIT(text_without_end)
{
	const char bytes[3] = {'a', 'b', 'c'};

	same("%.3s", bytes);
}

UNIT(pointers)
{
	char text[32];

	assert_int_equal(format(text, sizeof(text), "%p", (void *)0xffff800000001000), 18);
	assert_string_equal(text, "0xffff800000001000");
	format(text, sizeof(text), "%p", (void *)0);
	assert_string_equal(text, "0x0000000000000000");
}

/* Whatever its bytes are, a text stays one value between the quotes of a line. */
UNIT(plain_text)
{
	char every[256], text[] = "Intel(R) \"x\" a=b\n# y=\x7f\xe9";

	for (unsigned i = 0; i < 255; i++)
		every[i] = (char)(i + 1);
	every[255] = '\0';
	assert_ptr_equal(format_plain(text), text);
	assert_string_equal(text, "Intel(R) ?x? a=b?# y=??");
	assert_int_equal(strlen(format_plain(every)), 255);
	for (unsigned i = 0; i < 255; i++)
		assert_int_equal(every[i],
				 i + 1 < ' ' || i + 1 > '~' || i + 1 == '"' ? '?' : (char)(i + 1));
}

UNIT(odd_cases)
{
	char text[16] = "untouched";
	const char *volatile null = NULL, *volatile template = "a%y%";

	assert_int_equal(format(text, 0, "abc"), 3);
	assert_string_equal(text, "untouched");
	format(text, sizeof(text), "%s", null);
	assert_string_equal(text, "(null)");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	format(text, sizeof(text), template);
#pragma GCC diagnostic pop
	assert_string_equal(text, "a%y%");
	format(text, 1, "abc");
	assert_string_equal(text, "");
}
