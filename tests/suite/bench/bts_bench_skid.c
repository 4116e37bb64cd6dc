// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/skid.h"

TEST(bts_bench_skid, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: records between the threshold and its interrupt, and its handler",
     .source = "docs/bts.md#costs")
{
	size_t runs = test_scaled(200);
	struct skid skid;

	skid_measure(&skid, runs < SKID_MOST ? runs : SKID_MOST);
	EXPECT_EQ(skid.missing + skid.early, 0);
	test_figure("skid_interrupt_least", skid.recorded.least, "records");
	test_figure("skid_interrupt_median", skid.recorded.median, "records");
	test_figure("skid_interrupt_most", skid.recorded.most, "records");
	test_figure("skid_handler_least", skid.read.least, "records");
	test_figure("skid_handler_median", skid.read.median, "records");
	test_figure("skid_handler_most", skid.read.most, "records");
}
