// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/ended.h"

TEST(bts_switch_exit, .group = "C", .ids = "C5", .needs = NEED_BTS,
     .claim = "a traced task that ends leaves its records readable and its memory alone",
     .source = "docs/design.md#accounts")
{
	struct walker walker = {
		.name = "ends", .chain = &chain_a, .walks = 20, .options = walker_options(8192)};

	walkers_start(&walker, 1);
	walkers_join(&walker, 1);
	ended_expect(&walker);
	EXPECT_EQ(walker.reader.walk, walker.walks);
}
