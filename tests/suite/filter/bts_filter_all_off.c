// SPDX-License-Identifier: MIT
#include "tests/lib/visits.h"

/* Without TR nothing may happen at all; where only one flag is missing it has to be that one. */
static void expect_nothing(struct rig *rig, const char *what, uint64_t debugctl)
{
	struct visits visits = visits_trace(rig, debugctl);

	if (visits.count)
		test_note("%s: %zu records", what, visits.count);
	EXPECT_EQ(visits.count, 0);
	EXPECT_EQ(rig_record(rig, 0).from, 0);
}

TEST(bts_filter_all_off, .group = "P", .ids = "P3", .needs = NEED_BTS,
     .claim = "nothing is stored with both filters on, with BTS = 0 or with TR = 0",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t filters = ds_caps()->dscpl ? c->off_os | c->off_usr : 0;
	struct rig rig;

	rig_open(&rig, VISITS_SLOTS);
	visits_open();
	expect_nothing(&rig, "nothing", 0);
	expect_nothing(&rig, "TR", c->tr);
	expect_nothing(&rig, "TR, BTINT", c->tr | c->btint);
	expect_nothing(&rig, "TR, filters", c->tr | filters);
	expect_nothing(&rig, "BTS", c->bts);
	expect_nothing(&rig, "BTS, BTINT, filters", c->bts | c->btint | filters);
	if (filters) {
		expect_nothing(&rig, "both filters", rig_all() | filters);
		expect_nothing(&rig, "both filters, BTINT", rig_interrupt() | filters);
	}
	visits_close();
	rig_close(&rig);
}
