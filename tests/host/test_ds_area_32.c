// SPDX-License-Identifier: MIT
/* sources: drivers/ds/area.c drivers/ds/record.c drivers/ds/configuration.c */
/* The layout of 4-byte fields and 12-byte records, which no 64-bit kernel ever meets. */
#include "drivers/ds/record.h"

#include <sys/mman.h>

#include "tests/host/host.h"

enum { RECORD = 12 };

static uint32_t *area, *buffer; /* below 4 GiB: the fields are 4 bytes */

static int map_low(void **state)
{
	area = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1,
		    0);
	if (area == MAP_FAILED)
		return -1;
	buffer = area + 1024;
	ds_configuration = ds_find_configuration(6, 0x0e);
	return 0;
}

static int unmap(void **state)
{
	return munmap(area, 8192);
}

static void fields(void **state)
{
	uint32_t base = (uint32_t)(uintptr_t)buffer;

	assert_int_equal(ds_set_bts_buffer(area, buffer, 10 * RECORD + 11), 0);
	assert_int_equal(area[0], base);
	assert_int_equal(area[1], base);
	assert_int_equal(area[2], base + 10 * RECORD);
	assert_int_equal(area[3], base + 11 * RECORD);
	assert_int_equal(area[4], 0);
	assert_int_equal(ds_set_overflow(area, DS_O_SIGNAL, 3), 0);
	assert_int_equal(area[3], base + 7 * RECORD);
	assert_int_equal(ds_get_bts_end(area), 10);
}

static void records(void **state)
{
	const struct bts_struct in = {BTS_BRANCH, 0x80001234, 0xc0000000, 0x10};
	struct bts_struct out;
	struct ds_cursor cursor;

	assert_int_equal(ds_set_bts_buffer(area, buffer, 3 * RECORD), 0);
	ds_record_store((uintptr_t)buffer, &in);
	assert_int_equal(buffer[0], in.from);
	assert_int_equal(buffer[1], in.to);
	assert_int_equal(buffer[2], in.flags);
	assert_int_equal(ds_read_bts(area, 0, &out), 0);
	assert_int_equal(out.from, 0x80001234); /* zero-extended */
	assert_int_equal(out.to, 0xc0000000);
	assert_int_equal(out.flags, 0x10);
	cursor = ds_cursor_at(area, 2, 3);
	assert_int_equal(ds_cursor_read(&cursor).qualifier, BTS_INVALID);
	assert_int_equal(ds_cursor_read(&cursor).to, 0xc0000000);
	ds_clear(area);
	assert_int_equal(buffer[0] | buffer[1] | buffer[2], 0);
}

static void refuses_what_does_not_fit(void **state)
{
	assert_int_equal(ds_set_bts_buffer(area, (void *)(1ull << 32), 3 * RECORD), -EINVAL);
	/* The threshold of a circular buffer, a record above the maximum, is the furthest value. */
	assert_int_equal(ds_set_bts_buffer(area, (void *)0xffffffccull, 3 * RECORD), 0);
	assert_int_equal(ds_set_bts_buffer(area, (void *)0xffffffd0ull, 3 * RECORD), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields),
		cmocka_unit_test(records),
		cmocka_unit_test(refuses_what_does_not_fit),
	};

	return cmocka_run_group_tests_name("ds_area_32", tests, map_low, unmap);
}
