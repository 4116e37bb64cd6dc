// SPDX-License-Identifier: MIT
/* lib/string.c under other names, so that libc's stay in place. */
#include <string.h>

#include "tests/host/host.h"

#define memcpy	own_memcpy
#define memmove own_memmove
#define memset	own_memset
#define memcmp	own_memcmp
#define strlen	own_strlen
#define strnlen own_strnlen
#define strcmp	own_strcmp
#define strncmp own_strncmp
#define strchr	own_strchr
#include "lib/string.c"
#undef memcpy
#undef memmove
#undef memset

enum { SIZE = 64 };

static void fill(unsigned char *bytes)
{
	for (unsigned i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)(i * 7 + 1);
}

UNIT(copies_and_moves_every_length_and_overlap)
{
	unsigned char own[SIZE], reference[SIZE];

	for (size_t from = 0; from < 20; from++) {
		for (size_t to = 0; to < 20; to++) {
			for (size_t length = 0; length <= SIZE - 20; length++) {
				fill(own);
				fill(reference);
				assert_ptr_equal(own_memmove(own + to, own + from, length),
						 own + to);
				memmove(reference + to, reference + from, length);
				assert_memory_equal(own, reference, SIZE);
			}
		}
	}
}

UNIT(copies)
{
	unsigned char from[SIZE], own[SIZE] = {0}, reference[SIZE] = {0};

	fill(from);
	assert_ptr_equal(own_memcpy(own + 3, from + 1, 29), own + 3);
	memcpy(reference + 3, from + 1, 29);
	assert_memory_equal(own, reference, SIZE);
}

UNIT(sets_every_length)
{
	unsigned char own[SIZE], reference[SIZE];

	for (size_t length = 0; length < SIZE; length++) {
		fill(own);
		fill(reference);
		assert_ptr_equal(own_memset(own + 1, 0x1a5, length), own + 1);
		memset(reference + 1, 0x1a5, length);
		assert_memory_equal(own, reference, SIZE);
	}
}

UNIT(compares_as_unsigned_bytes)
{
	assert_true(own_memcmp("ab\200", "ab\1", 3) > 0);
	assert_int_equal(own_memcmp("ab\200", "ab\1", 2), 0);
	assert_true(own_strcmp("ab\1", "ab\200") < 0);
	assert_true(own_strcmp("ab", "abc") < 0);
	assert_int_equal(own_strcmp("", ""), 0);
	assert_int_equal(own_strncmp("abx", "aby", 2), 0);
	assert_int_equal(own_strncmp("ab\0x", "ab\0y", 4), 0);
}

UNIT(measures_and_finds)
{
	const char *text = "name=value";

	assert_int_equal(own_strlen(text), 10);
	assert_int_equal(own_strnlen(text, 4), 4);
	assert_int_equal(own_strnlen(text, 40), 10);
	assert_ptr_equal(own_strchr(text, '='), text + 4);
	assert_ptr_equal(own_strchr(text, '\0'), text + 10);
	assert_null(own_strchr(text, 'z'));
}
