// SPDX-License-Identifier: MIT
#include "tests/lib/malformed.h"

#define NOT_CANONICAL 0x0000800000000000ul

/* The records stand where the index says, or in the buffer, or nowhere. */
static void check(const char *key, int64_t index)
{
	int64_t two = 2 * (int64_t)ds_configuration->record_size;
	int64_t end = MALFORMED_SLOTS * (int64_t)ds_configuration->record_size;
	struct malformed m;

	malformed_open(&m);
	ds_set(m.rig.area, DS_BTS_INDEX, m.rig.base + (uint64_t)index);
	malformed_trace(&m, key, index < 0 ? index : 0, index + two > end ? index + two : end);
	malformed_close(&m);
}

static void check_not_canonical(const char *key, unsigned field)
{
	int64_t end = MALFORMED_SLOTS * (int64_t)ds_configuration->record_size;
	struct malformed m;

	malformed_open(&m);
	ds_set(m.rig.area, field, NOT_CANONICAL);
	malformed_trace(&m, key, 0, end);
	malformed_close(&m);
}

TEST(bts_malformed_index, .group = "X", .ids = "X3", .needs = NEED_BTS | NEED_UNSAFE,
     .claim = "an index out of place, or a base that is not canonical, hangs nothing",
     .source = "SDM Vol 3, 17.4.9: nothing is said of it")
{
	int64_t record = (int64_t)ds_configuration->record_size;

	check("index_below_base", -3 * record);
	check("index_above_maximum", (MALFORMED_SLOTS + 4) * record);
	check("index_misaligned", record + 5);
	check("index_last_bytes", MALFORMED_SLOTS * record - 8);
	check_not_canonical("index_not_canonical", DS_BTS_INDEX);
	check_not_canonical("base_not_canonical", DS_BTS_BUFFER_BASE);
	check_not_canonical("maximum_not_canonical", DS_BTS_ABSOLUTE_MAXIMUM);
}
