// SPDX-License-Identifier: MIT
/* sources: lib/unpack.c */
#include "lib/unpack.h"

#include "tests/host/host.h"

#include <lz4hc.h>
#include <stdlib.h>
#include <string.h>

#define MOST 20000

static uint8_t original[MOST], packed[2 * MOST], result[MOST], expected[MOST];

/* Fills original[0..size) with so many different bytes and packs it; level 0: in a hurry. */
static size_t pack(size_t size, unsigned kinds, int level)
{
	int count;

	for (size_t at = 0; at < size; at++)
		original[at] = (uint8_t)((unsigned)rand() % kinds);
	count = level ? LZ4_compress_HC((char *)original, (char *)packed, (int)size, sizeof(packed),
					level)
		      : LZ4_compress_default((char *)original, (char *)packed, (int)size,
					     sizeof(packed));
	assert_true(count > 0);
	return (size_t)count;
}

UNIT(what_liblz4_packed_comes_back)
{
	static const size_t sizes[] = {0, 1, 5, 12, 13, 31, 270, 271, 300, 4096, MOST};
	static const unsigned kinds[] = {1, 2, 5, 256};

	for (int level = 0; level <= LZ4HC_CLEVEL_MAX; level += 3)
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
				size_t count = pack(sizes[i], kinds[k], level);

				assert_int_equal(unpack(packed, count, result, sizes[i]), sizes[i]);
				assert_memory_equal(result, original, sizes[i]);
			}
}

/* liblz4 alone refuses a block without the literals that the format wants at its end, and alone
   accepts an offset of 0. What both accept is the same. */
UNIT(a_damaged_block_gives_what_liblz4_gives)
{
	unsigned accepted = 0;

	for (unsigned i = 0; i < 20000; i++) {
		size_t count = pack(200 + (size_t)rand() % 200, 2, 9);
		int bytes;

		packed[(size_t)rand() % count] ^= (uint8_t)(1u << rand() % 8);
		bytes = LZ4_decompress_safe((char *)packed, (char *)expected, (int)count, MOST);
		if (bytes <= 0 || !unpack(packed, count, result, MOST))
			continue;
		accepted++;
		assert_int_equal(unpack(packed, count, result, MOST), bytes);
		assert_memory_equal(result, expected, (size_t)bytes);
	}
	assert_true(accepted > 1000);
}

UNIT(a_copy_may_reach_into_itself)
{
	static const uint8_t bytes[] = {0x24, 'a', 'b', 2, 0, 0x10, 'c'};

	assert_int_equal(unpack(bytes, sizeof(bytes), result, sizeof(result)), 11);
	assert_memory_equal(result,
			    "ababababab"
			    "c",
			    11);
}

UNIT(damage_is_refused)
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

UNIT(random_bytes_stay_inside)
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
