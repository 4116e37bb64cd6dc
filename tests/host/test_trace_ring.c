// SPDX-License-Identifier: MIT
/* sources: tests/framework/random.c */
/* sources: kernel/trace/bts/ring.c drivers/ds/area.c drivers/ds/record.c */
/* sources: drivers/ds/configuration.c */
/* Rings that hardware of each kind writes, compared with a list of all records that there were. */
#include "kernel/trace/bts/ring.h"

#include <string.h>

#include "tests/framework/random.h"
#include "tests/host/host.h"

enum { MOST = 12, ROUNDS = 200000 };

/* No manual fixes which slots hardware uses, and where the index is after the last. */
static struct {
	bool uses_last, index_stays;
} hardware;

static struct {
	_Alignas(64) unsigned char area[DS_AREA_SIZE];
	_Alignas(64) unsigned char buffer[(MOST + RING_SPARE) * 24];
	struct trace_ring ring;
	uint64_t written;    /* record n has from = n */
	bool count_is_known; /* no round of the hardware hides a number */
} it;

static struct bts_struct record_of(uint64_t n)
{
	return (struct bts_struct){BTS_BRANCH, n, n, 0};
}

static void begin(size_t size)
{
	memset(&it, 0, sizeof(it));
	ds_set_bts_buffer(it.area, it.buffer, (size + RING_SPARE) * 24);
	ring_init(&it.ring, it.area, size);
	it.count_is_known = true;
}

static size_t used_slots(void)
{
	return ds_get_bts_end(it.area) - !hardware.uses_last;
}

static void store(size_t *index)
{
	struct bts_struct record = record_of(++it.written);

	if (*index >= used_slots())
		*index = 0;
	ds_record_store((uintptr_t)it.buffer + 24 * (*index)++, &record);
	if (*index == used_slots() && !hardware.index_stays)
		*index = 0;
}

static void write_by_hardware(size_t count)
{
	size_t index;

	ring_lend(&it.ring);
	index = ds_get_bts_index(it.area);
	for (size_t i = 0; i < count; i++)
		store(&index);
	ds_set(it.area, DS_BTS_INDEX, (uintptr_t)it.buffer + index * 24);
	ring_return(&it.ring);
	it.count_is_known &= count < used_slots();
}

static void write_by_kernel(size_t count)
{
	while (count--) {
		struct bts_struct record = record_of(++it.written);

		assert_true(ring_put(&it.ring, &record, true));
	}
}

/* The newest of all, oldest first; the loss is exact, or said to be more, and never made up. */
static void expect_newest(uint64_t removed)
{
	uint64_t left = it.written - removed;
	struct ds_cursor cursor;

	assert_int_equal(it.ring.used, left < it.ring.size ? left : it.ring.size);
	if (it.ring.used)
		cursor = ring_cursor(&it.ring, 0);
	for (size_t i = 0; i < it.ring.used; i++)
		assert_int_equal(ds_cursor_read(&cursor).from, it.written - it.ring.used + 1 + i);
	assert_int_equal(it.ring.lost || it.ring.lost_more, left > it.ring.size);
	if (it.count_is_known) {
		assert_false(it.ring.lost_more);
		assert_int_equal(it.ring.lost, left - it.ring.used);
	}
}

/* However many the hardware writes into a ring with however many records, in one go. */
static void every_count(void **state)
{
	for (size_t size = 1; size <= MOST; size++)
		for (size_t before = 0; before <= 2 * size + 3; before++)
			for (size_t count = 0; count <= 3 * size + 8; count++) {
				begin(size);
				write_by_kernel(before);
				write_by_hardware(count);
				expect_newest(0);
			}
}

static void exactly_filled_is_not_lost(void **state)
{
	for (size_t size = 1; size <= MOST; size++) {
		begin(size);
		write_by_hardware(size);
		assert_int_equal(it.ring.used, size);
		assert_int_equal(it.ring.lost, 0);
		assert_false(it.ring.lost_more);
		write_by_hardware(1);
		assert_true(it.ring.lost || it.ring.lost_more);
	}
}

static uint64_t below(uint64_t limit)
{
	static uint64_t state = 1;

	return random_below(&state, limit);
}

/* In turns, as a task is switched and stamped. */
static void in_turns(void **state)
{
	begin(5);
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (below(200) == 0)
			begin(1 + below(MOST));
		if (below(2))
			write_by_kernel(below(3));
		else
			write_by_hardware(below(it.ring.size + (below(9) ? 1 : 9)));
		expect_newest(0);
	}
}

/* A reader learns of a gap where it goes on, and of its length if that is known. */
static void gaps(void **state)
{
	uint64_t number;

	begin(5);
	write_by_kernel(5);
	assert_false(ring_has_gap(&it.ring, 0, &number));
	write_by_kernel(4);
	assert_true(ring_has_gap(&it.ring, 0, &number)); /* before the first that is read */
	assert_int_equal(number, 4);
	ring_drop(&it.ring, 3);
	assert_false(ring_has_gap(&it.ring, 0, &number));
	write_by_kernel(10);
	assert_true(ring_has_gap(&it.ring, 0, &number));
	assert_int_equal(number, 7);
	assert_true(ring_has_gap(&it.ring, ring_first(&it.ring) - 2, &number));
	assert_int_equal(number, 2);
	ring_drop(&it.ring, 5);
	write_by_hardware(used_slots());
	assert_true(ring_has_gap(&it.ring, 0, &number));
	assert_int_equal(number, 0);
	ring_drop(&it.ring, 1);
	write_by_kernel(3);
	assert_true(ring_has_gap(&it.ring, 0, &number));
	assert_int_equal(number, 2);
	ring_clear(&it.ring);
	write_by_kernel(5);
	assert_false(ring_has_gap(&it.ring, 0, &number)); /* what was before is forgotten */
	write_by_kernel(4);
	assert_true(ring_has_gap(&it.ring, 0, &number));
	assert_int_equal(number, 4);
}

static void of_every_hardware(void (*test)(void **state), void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		hardware.uses_last = i & 1;
		hardware.index_stays = i & 2;
		test(state);
	}
}

#define OF_EVERY_HARDWARE(name)                                                                    \
	UNIT(name##_all)                                                                           \
	{                                                                                          \
		of_every_hardware(name, state);                                                    \
	}
OF_EVERY_HARDWARE(every_count)
OF_EVERY_HARDWARE(exactly_filled_is_not_lost)
OF_EVERY_HARDWARE(in_turns)
OF_EVERY_HARDWARE(gaps)
