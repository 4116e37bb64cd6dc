// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/off.h"
#include "tests/lib/rig.h"

static void expect_nothing(const char *what, uint64_t debugctl)
{
	struct sight sight = off_trace(debugctl);
	uint64_t records = sight.in_kernel + sight.in_user + sight.between;

	if (records)
		test_note("%s: %lu records", what, records);
	EXPECT_EQ(records, 0);
}

TEST(bts_filter_all_off, .group = "P", .ids = "P3", .needs = NEED_BTS,
     .claim = "nothing is stored with both filters on, with BTS = 0 or with TR = 0",
     .source = "SDM Vol 3, 17.4.8, CPL-qualified branch trace")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t filters = ds_caps()->dscpl ? c->off_os | c->off_usr : 0;

	if (filters)
		expect_nothing("both filters", rig_all() | filters);
	expect_nothing("BTS = 0", c->tr);
	expect_nothing("BTS = 0, filters", c->tr | filters);
	expect_nothing("TR = 0", c->bts);
	expect_nothing("TR = 0, BTINT, filters", c->bts | c->btint | filters);
}
