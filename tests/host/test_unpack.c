/* SPDX-License-Identifier: MIT */
/* sources: lib/unpack.c */
#include "lib/unpack.h"

#include "tests/host/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 20000

static uint8_t original[MOST], packed[2 * MOST], result[MOST];

/* Packs original[0..size) with tools/pack, and finds the bytes behind the header of the one file.
 */
static size_t pack(size_t size)
{
	char name[] = "/tmp/test_unpack-XXXXXX", command[128];
	FILE *file = fdopen(mkstemp(name), "wb"), *pipe;
	size_t count;

	assert_non_null(file);
	assert_int_equal(fwrite(original, 1, size, file), size);
	fclose(file);
	snprintf(command, sizeof(command), "tools/pack x=%s", name);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	count = fread(packed, 1, sizeof(packed), pipe);
	assert_int_equal(pclose(pipe), 0);
	remove(name);
	return count;
}

static void expect_whole(size_t size)
{
	static uint8_t room[MOST + 64];
	size_t count = pack(size);
	uint32_t bytes;

	memcpy(&bytes, packed, 4);
	assert_int_equal(bytes, (32 + size + 7) / 8 * 8);
	assert_int_equal(unpack(packed + 4, count - 4, room, bytes), bytes);
	assert_string_equal((char *)room, "x");
	assert_memory_equal(room + 32, original, size);
}

static void what_was_packed_comes_back(void **state)
{
	static const size_t sizes[] = {0, 1, 5, 12, 13, 31, 270, 271, 300, 4096, MOST};
	static const unsigned kinds[] = {1, 2, 5, 256}; /* different bytes */

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			for (size_t at = 0; at < sizes[i]; at++)
				original[at] = (uint8_t)((unsigned)rand() % kinds[k]);
			expect_whole(sizes[i]);
		}
}

static void a_copy_may_reach_into_itself(void **state)
{
	static const uint8_t bytes[] = {0x24, 'a', 'b', 2, 0, 0x10, 'c'};

	assert_int_equal(unpack(bytes, sizeof(bytes), result, sizeof(result)), 11);
	assert_memory_equal(result,
			    "ababababab"
			    "c",
			    11);
}

static void damage_is_refused(void **state)
{
	static const uint8_t far[] = {0x14, 'a', 2, 0, 0x10, 'c'}, none[] = {0x14, 'a', 0, 0, 0},
			     cut[] = {0x50, 'a'}, half[] = {0x14, 'a', 1},
			     whole[] = {0x14, 'a', 1, 0, 0x10, 'c'};

	assert_int_equal(unpack(far, sizeof(far), result, MOST), 0);
	assert_int_equal(unpack(none, sizeof(none), result, MOST), 0);
	assert_int_equal(unpack(cut, sizeof(cut), result, MOST), 0);
	assert_int_equal(unpack(half, sizeof(half), result, MOST), 0);
	assert_int_equal(unpack(whole, 4, result, MOST), 0);
	assert_int_equal(unpack(whole, sizeof(whole), result, 9), 0);
	assert_int_equal(unpack(whole, sizeof(whole), result, 10), 10);
}

static void random_bytes_stay_inside(void **state)
{
	for (unsigned i = 0; i < 20000; i++) {
		size_t size = (size_t)rand() % 64, room = (size_t)rand() % 64;
		uint8_t *in = malloc(size ? size : 1), *out = malloc(room ? room : 1);

		for (size_t at = 0; at < size; at++)
			in[at] = (uint8_t)rand();
		assert_true(unpack(in, size, out, room) <= room);
		free(in);
		free(out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_packed_comes_back),
		cmocka_unit_test(a_copy_may_reach_into_itself),
		cmocka_unit_test(damage_is_refused),
		cmocka_unit_test(random_bytes_stay_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
