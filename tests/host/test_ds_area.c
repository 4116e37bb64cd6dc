// SPDX-License-Identifier: MIT
/* sources: drivers/ds/area.c drivers/ds/record.c drivers/ds/configuration.c */
#include <string.h>
#include <sys/mman.h>

#include "drivers/ds/record.h"
#include "tests/host/host.h"

enum { RECORD = 24, MOST = 1024 };

static _Alignas(64) uint64_t area[DS_AREA_SIZE / 8];
static _Alignas(64) uint64_t buffer[MOST * RECORD / 8];

static uint64_t base(void)
{
	return (uintptr_t)buffer;
}

static int set_up(void **state)
{
	ds_maximum = DS_MAXIMUM_AT_END;
	memset(area, 0xee, sizeof(area));
	memset(buffer, 0, sizeof(buffer));
	return 0;
}

/* Offsets as in the manual's figure; what is not BTS's stays as it was. */
UNIT(fields_stand_where_the_manual_has_them, .setup_func = set_up)
{
	assert_int_equal(ds_set_bts_buffer(area, buffer, 16 * RECORD + 23), 0);
	assert_int_equal(area[0], base());
	assert_int_equal(area[1], base());
	assert_int_equal(area[2], base() + 16 * RECORD);
	assert_int_equal(area[3], base() + 17 * RECORD); /* above the maximum */
	for (unsigned i = 4; i < DS_AREA_SIZE / 8; i++)
		assert_true(area[i] == 0xeeeeeeeeeeeeeeee);
	ds_set(area, DS_PEBS_INTERRUPT_THRESHOLD, 0x1234);
	assert_int_equal(area[7], 0x1234);
	assert_int_equal(ds_get(area, DS_PEBS_INTERRUPT_THRESHOLD), 0x1234);
}

UNIT(counts_in_records, .setup_func = set_up)
{
	assert_int_equal(ds_set_bts_buffer(area, buffer, 16 * RECORD), 0);
	assert_int_equal(ds_get_bts_end(area), 16);
	assert_int_equal(ds_get_bts_index(area), 0);
	area[1] = base() + 5 * RECORD;
	assert_int_equal(ds_get_bts_index(area), 5);
	area[1] = base() + 16 * RECORD;
	assert_int_equal(ds_get_bts_index(area), 16);
}

UNIT(both_conventions_hold_as_many, .setup_func = set_up)
{
	ds_maximum = DS_MAXIMUM_AT_END_PLUS_1;
	assert_int_equal(ds_set_bts_buffer(area, buffer, 16 * RECORD), 0);
	assert_int_equal(area[2], base() + 16 * RECORD + 1);
	assert_true(area[3] > area[2]);
	assert_int_equal(ds_get_bts_end(area), 16);
	assert_int_equal(ds_set_overflow(area, DS_O_SIGNAL, 4), 0);
	assert_int_equal(area[3], base() + 12 * RECORD);
}

/* Whatever the fields hold, a reader stays within the buffer. */
UNIT(survives_nonsense, .setup_func = set_up)
{
	struct bts_struct record;

	ds_set_bts_buffer(area, buffer, 16 * RECORD);
	area[1] = base() - RECORD;
	assert_int_equal(ds_get_bts_index(area), 0);
	area[1] = UINT64_MAX;
	assert_int_equal(ds_get_bts_index(area), 16);
	area[1] = base() + RECORD + 7;
	assert_int_equal(ds_get_bts_index(area), 1);
	area[2] = base() - 1;
	assert_int_equal(ds_get_bts_end(area), 0);
	assert_int_equal(ds_get_bts_end(area), 0);
	assert_int_equal(ds_read_bts(area, 0, &record), -EINVAL);
}

static void refuses(void *where, uint64_t address, size_t bytes)
{
	uint64_t before[DS_AREA_SIZE / 8];

	memcpy(before, area, sizeof(area));
	assert_int_equal(ds_set_bts_buffer(where, (void *)address, bytes), -EINVAL);
	assert_memory_equal(before, area, sizeof(area));
}

UNIT(bounds_the_buffer, .setup_func = set_up)
{
	refuses(NULL, base(), 16 * RECORD);
	refuses(area, 0, 16 * RECORD);
	refuses(area, base() + 4, 16 * RECORD);
	refuses(area, base(), 0);
	refuses(area, base(), 2 * RECORD - 1);
	assert_int_equal(ds_set_bts_buffer(area, buffer, 2 * RECORD), 0);

	/* Room for the threshold a record above the maximum, and for the 1. */
	assert_int_equal(ds_set_bts_buffer(area, (void *)(0 - 3ull * RECORD - 8), 2 * RECORD), 0);
	refuses(area, 0 - 3ull * RECORD, 2 * RECORD);
	refuses(area, 0 - 2ull * RECORD, 2 * RECORD);
	refuses(area, 0 - 1ull * RECORD, 2 * RECORD);
	refuses(area, base(), SIZE_MAX);
	refuses(area, base(), SIZE_MAX - base());
}

UNIT(thresholds, .setup_func = set_up)
{
	ds_set_bts_buffer(area, buffer, 100 * RECORD);
	assert_true(area[3] > area[2]);
	assert_int_equal(ds_set_overflow(area, DS_O_SIGNAL, 1), 0);
	assert_int_equal(area[3], base() + 99 * RECORD);
	assert_int_equal(ds_set_overflow(area, DS_O_SIGNAL, 99), 0);
	assert_int_equal(area[3], base() + 1 * RECORD);
	assert_int_equal(ds_set_overflow(area, DS_O_SIGNAL, 100), -EINVAL);
	assert_int_equal(ds_set_overflow(area, DS_O_SIGNAL, SIZE_MAX), -EINVAL);
	assert_int_equal(ds_set_overflow(area, (enum ds_overflow)(DS_O_SIGNAL + 1), 1), -EINVAL);
	assert_int_equal(ds_set_overflow(area, (enum ds_overflow) - 1, 1), -EINVAL);
	assert_int_equal(area[3], base() + 1 * RECORD);
	assert_int_equal(ds_set_overflow(area, DS_O_WRAP, 0), 0);
	assert_true(area[3] > area[2]);
}

/* 170 records where the buffer is twice as long, else half of it. */
UNIT(default_margins, .setup_func = set_up)
{
	static const struct {
		size_t records, margin;
	} known[] = {{2, 1}, {3, 1}, {100, 50}, {339, 169}, {340, 170}, {1024, 170}};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		ds_set_bts_buffer(area, buffer, known[i].records * RECORD);
		assert_int_equal(ds_set_overflow(area, DS_O_SIGNAL, 0), 0);
		assert_int_equal(area[3], base() + (known[i].records - known[i].margin) * RECORD);
	}
}

UNIT(records, .setup_func = set_up)
{
	const struct bts_struct in = {BTS_BRANCH, 0xffffffff80001234, 0x7fff00000000, 0x10};
	struct bts_struct out;

	ds_set_bts_buffer(area, buffer, 4 * RECORD);
	ds_record_store((uintptr_t)(buffer + 9), &in);
	assert_int_equal(buffer[9], in.from);
	assert_int_equal(buffer[10], in.to);
	assert_int_equal(buffer[11], in.flags);
	assert_int_equal(ds_read_bts(area, 3, &out), 0);
	assert_int_equal(out.qualifier, BTS_BRANCH);
	assert_int_equal(out.from, in.from);
	assert_int_equal(out.to, in.to);
	assert_int_equal(out.flags, in.flags);
	assert_int_equal(ds_read_bts(area, 2, &out), 0);
	assert_int_equal(out.qualifier, BTS_INVALID);
	assert_int_equal(ds_read_bts(area, 4, &out), -EINVAL); /* not one past the end */
	assert_int_equal(buffer[12], 0);

	/* One address of 0 is still a branch. */
	ds_record_store((uintptr_t)buffer, &(struct bts_struct){.to = 5});
	assert_int_equal(ds_read_bts(area, 0, &out), 0);
	assert_int_equal(out.qualifier, BTS_BRANCH);
}

UNIT(reads_around_the_end, .setup_func = set_up)
{
	struct ds_cursor cursor;

	ds_set_bts_buffer(area, buffer, 3 * RECORD);
	for (uint64_t at = 0; at < 3; at++)
		ds_record_store((uintptr_t)(buffer + 3 * at),
				&(struct bts_struct){.from = at, .to = at, .flags = at});
	cursor = ds_cursor_at(area, 2, 3);
	for (uint64_t i = 2; i < 9; i++) {
		struct bts_struct record = ds_cursor_read(&cursor);

		assert_int_equal(record.qualifier, i % 3 ? BTS_BRANCH : BTS_INVALID);
		assert_int_equal(record.from, i % 3);
		assert_int_equal(record.to, i % 3);
		assert_int_equal(record.flags, i % 3);
	}
}

UNIT(clears, .setup_func = set_up)
{
	memset(buffer, 0xff, sizeof(buffer));
	ds_set_bts_buffer(area, buffer, 5 * RECORD);
	area[1] += RECORD;
	ds_clear(area);
	for (unsigned i = 0; i < 15; i++)
		assert_int_equal(buffer[i], 0);
	assert_true(buffer[15] == UINT64_MAX);
	assert_int_equal(ds_get_bts_index(area), 0);
}

/* By the manual's maximum every slot is used: a free last slot means that nothing is lost. */
UNIT(knows_when_it_is_nearly_full, .setup_func = set_up)
{
	ds_set_bts_buffer(area, buffer, 8 * RECORD);
	ds_clear(area);
	area[1] = base() + 7 * RECORD;
	buffer[6 * 3 + 1] = 1;
	assert_true(ds_bts_full(area));
	area[2]++;
	assert_false(ds_bts_full(area));
	buffer[7 * 3] = 1;
	assert_true(ds_bts_full(area));
	area[1] = base() + 2 * RECORD; /* wrapped */
	assert_true(ds_bts_full(area));
	buffer[7 * 3] = 0;
	area[1] = base() + 8 * RECORD;
	assert_true(ds_bts_full(area));
}

UNIT(knows_when_it_is_full, .setup_func = set_up)
{
	ds_set_bts_buffer(area, buffer, 8 * RECORD);
	assert_false(ds_bts_full(area));
	area[1] = base() + 6 * RECORD;
	assert_false(ds_bts_full(area));
	area[1] = base() + 7 * RECORD; /* stuck there, if the last slot is never used */
	assert_true(ds_bts_full(area));
	area[1] = base() + 8 * RECORD;
	assert_true(ds_bts_full(area));
	area[1] = base() + 2 * RECORD; /* wrapped, by what the last slots hold */
	buffer[7 * 3] = 1;
	assert_true(ds_bts_full(area));
	buffer[7 * 3] = 0;
	buffer[6 * 3 + 1] = 1;
	assert_true(ds_bts_full(area));
}

/* The layout of 4-byte fields_of_4_bytes and 12-byte records_of_12_bytes, which no 64-bit kernel
 * ever meets. */

enum { RECORD_32 = 12 };

static uint32_t *area_32, *buffer_32; /* below 4 GiB: the fields_of_4_bytes are 4 bytes */

static int map_low(void **state)
{
	area_32 = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
		       -1, 0);
	if (area_32 == MAP_FAILED)
		return -1;
	buffer_32 = area_32 + 1024;
	ds_configuration = ds_find_configuration(6, 0x0e);
	return 0;
}

static int unmap(void **state)
{
	return munmap(area_32, 8192);
}

UNIT(fields_of_4_bytes, .setup_func = map_low, .teardown_func = unmap)
{
	uint32_t base = (uint32_t)(uintptr_t)buffer_32;

	assert_int_equal(ds_set_bts_buffer(area_32, buffer_32, 10 * RECORD_32 + 11), 0);
	assert_int_equal(area_32[0], base);
	assert_int_equal(area_32[1], base);
	assert_int_equal(area_32[2], base + 10 * RECORD_32);
	assert_int_equal(area_32[3], base + 11 * RECORD_32);
	assert_int_equal(area_32[4], 0);
	assert_int_equal(ds_set_overflow(area_32, DS_O_SIGNAL, 3), 0);
	assert_int_equal(area_32[3], base + 7 * RECORD_32);
	assert_int_equal(ds_get_bts_end(area_32), 10);
}

UNIT(records_of_12_bytes, .setup_func = map_low, .teardown_func = unmap)
{
	const struct bts_struct in = {BTS_BRANCH, 0x80001234, 0xc0000000, 0x10};
	struct bts_struct out;
	struct ds_cursor cursor;

	assert_int_equal(ds_set_bts_buffer(area_32, buffer_32, 3 * RECORD_32), 0);
	ds_record_store((uintptr_t)buffer_32, &in);
	assert_int_equal(buffer_32[0], in.from);
	assert_int_equal(buffer_32[1], in.to);
	assert_int_equal(buffer_32[2], in.flags);
	assert_int_equal(ds_read_bts(area_32, 0, &out), 0);
	assert_int_equal(out.from, 0x80001234); /* zero-extended */
	assert_int_equal(out.to, 0xc0000000);
	assert_int_equal(out.flags, 0x10);
	cursor = ds_cursor_at(area_32, 2, 3);
	assert_int_equal(ds_cursor_read(&cursor).qualifier, BTS_INVALID);
	assert_int_equal(ds_cursor_read(&cursor).to, 0xc0000000);
	ds_clear(area_32);
	assert_int_equal(buffer_32[0] | buffer_32[1] | buffer_32[2], 0);
}

UNIT(refuses_what_has_more_bits, .setup_func = map_low, .teardown_func = unmap)
{
	assert_int_equal(ds_set_bts_buffer(area_32, (void *)(1ull << 32), 3 * RECORD_32), -EINVAL);
	/* The threshold of a circular buffer_32, a record above the maximum, is the furthest value.
	 */
	assert_int_equal(ds_set_bts_buffer(area_32, (void *)0xffffffccull, 3 * RECORD_32), 0);
	assert_int_equal(ds_set_bts_buffer(area_32, (void *)0xffffffd0ull, 3 * RECORD_32), -EINVAL);
}
