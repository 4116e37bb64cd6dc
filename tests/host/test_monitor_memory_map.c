/* SPDX-License-Identifier: MIT */
/* sources: monitor/boot/memory_map.c */
#include <string.h>

#include "monitor/boot/memory_map.h"
#include "tests/host/host.h"

#define MIB (1ull << 20)

static struct boot_info info;

static void add(uint64_t base, uint64_t end, uint32_t type)
{
	info.regions[info.region_count++] = (struct boot_region){base, end - base, type};
}

/* Like a PC with 128 MiB, and some above 4 GiB. */
static int pc(void **state)
{
	memset(&info, 0, sizeof(info));
	add(0, 0x9fc00, MEMORY_USABLE);
	add(0x9fc00, 0xa0000, MEMORY_RESERVED);
	add(0xf0000, MIB, MEMORY_RESERVED);
	add(MIB, 0x7fe0000, MEMORY_USABLE);
	add(0x7fe0000, 0x8000000, MEMORY_RESERVED);
	add(4 * GIB, 5 * GIB, MEMORY_USABLE);
	return 0;
}

static bool usable(uint64_t start, uint64_t end)
{
	return memory_usable(&info, (struct range){start, end});
}

static void knows_what_is_usable(void **state)
{
	assert_true(usable(MIB, 0x7fe0000));
	assert_true(usable(0, 0x9fc00));
	assert_false(usable(0, 0x9fc01));
	assert_false(usable(MIB - 1, MIB + 1));
	assert_false(usable(0x7fdffff, 0x7fe0001));
	assert_false(usable(0xb0000, 0xb1000));
	assert_false(usable(6 * GIB, 6 * GIB + 1));
	assert_int_equal(memory_top(&info), 5 * GIB);
}

static void neighbours_make_one_piece_and_overlaps_do_not_count(void **state)
{
	memset(&info, 0, sizeof(info));
	add(0, 2 * MIB, MEMORY_USABLE);
	add(MIB, MIB + 4096, MEMORY_RESERVED);
	add(2 * MIB, 3 * MIB, MEMORY_USABLE);
	assert_true(usable(MIB + 4096, 3 * MIB));
	assert_false(usable(0, 3 * MIB));
}

static void finds_the_highest_and_the_lowest_place(void **state)
{
	struct memory_request request = {.size = MIB, .within = {MIB, 4 * GIB}, .from_top = true};
	uint64_t start;

	assert_true(memory_find(&info, &request, &start));
	assert_int_equal(start, 0x7fe0000 - MIB);
	memory_avoid(&request, (struct range){0x7f00000, 0x7f01234});
	assert_true(memory_find(&info, &request, &start));
	assert_int_equal(start, 0x7f00000 - MIB);
	request.from_top = false;
	assert_true(memory_find(&info, &request, &start));
	assert_int_equal(start, MIB);
	memory_avoid(&request, (struct range){MIB, MIB + 5});
	assert_true(memory_find(&info, &request, &start));
	assert_int_equal(start, MIB + 4096);
}

static void finds_nothing_where_nothing_is(void **state)
{
	struct memory_request request = {.size = 1 * GIB, .within = {0, 4 * GIB}};
	uint64_t start;

	assert_false(memory_find(&info, &request, &start));
	request.within.end = UINT64_MAX;
	assert_true(memory_find(&info, &request, &start));
	assert_int_equal(start, 4 * GIB);
	request.size++;
	assert_false(memory_find(&info, &request, &start));
}

static void reserving_splits_a_region(void **state)
{
	struct range hidden = {0x7000000, 0x7100000};

	assert_true(memory_reserve(&info, hidden));
	assert_int_equal(info.region_count, 8);
	assert_true(usable(MIB, 0x7000000));
	assert_true(usable(0x7100000, 0x7fe0000));
	assert_false(usable(0x7000000, 0x7000001));
	assert_false(usable(0x70fffff, 0x7100000));
	for (unsigned i = 1; i < info.region_count; i++)
		assert_true(info.regions[i - 1].base <= info.regions[i].base);
	for (unsigned i = 0; i < info.region_count; i++)
		assert_true(info.regions[i].length > 0);
}

static void reserving_at_the_end_or_all_of_a_region(void **state)
{
	assert_true(memory_reserve(&info, (struct range){0x7e00000, 0x7fe0000}));
	assert_int_equal(info.region_count, 7);
	assert_true(usable(MIB, 0x7e00000));
	assert_false(usable(0x7e00000, 0x7e00001));
	assert_true(memory_reserve(&info, (struct range){4 * GIB, 5 * GIB}));
	assert_int_equal(info.region_count, 7);
	assert_int_equal(memory_top(&info), 0x7e00000);
}

static void reserving_needs_room_in_the_map(void **state)
{
	while (info.region_count < BOOT_MAX_REGIONS)
		add(10 * GIB, 10 * GIB + 1, MEMORY_RESERVED);
	assert_false(memory_reserve(&info, (struct range){0x7000000, 0x7100000}));
	assert_true(usable(MIB, 0x7fe0000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(knows_what_is_usable, pc),
		cmocka_unit_test(neighbours_make_one_piece_and_overlaps_do_not_count),
		cmocka_unit_test_setup(finds_the_highest_and_the_lowest_place, pc),
		cmocka_unit_test_setup(finds_nothing_where_nothing_is, pc),
		cmocka_unit_test_setup(reserving_splits_a_region, pc),
		cmocka_unit_test_setup(reserving_at_the_end_or_all_of_a_region, pc),
		cmocka_unit_test_setup(reserving_needs_room_in_the_map, pc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
