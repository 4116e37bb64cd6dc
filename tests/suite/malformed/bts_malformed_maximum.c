// SPDX-License-Identifier: MIT
#include "tests/lib/malformed.h"

static void check(const char *key, int64_t maximum)
{
	struct malformed m;
	int64_t record;

	malformed_open(&m);
	record = (int64_t)m.rig.record;
	ds_set(m.rig.area, DS_BTS_ABSOLUTE_MAXIMUM, m.rig.base + (uint64_t)maximum);
	malformed_trace(&m, key, -record, 3 * record);
	malformed_close(&m);
}

TEST(bts_malformed_maximum, .group = "X", .ids = "X2", .needs = NEED_BTS | NEED_UNSAFE,
     .claim = "an absolute maximum below the least size hangs nothing and writes within a record",
     .source = "SDM Vol 3, 17.4.9.3: \"the results of BTS is undefined\"")
{
	check("maximum_one_record", (int64_t)ds_configuration->record_size);
	check("maximum_one_byte_short", (int64_t)ds_configuration->record_size - 1);
	check("maximum_at_base", 0);
	check("maximum_below_base", -8);
}
