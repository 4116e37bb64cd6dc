// SPDX-License-Identifier: MIT
#include "drivers/ds/ds.h"
#include "kernel/trace/init.h"
#include "tests/framework/test.h"

TEST(bts_clear_after_init, .group = "M", .ids = "M1", .needs = NEED_BTS | NEED_SMP,
     .claim = "a processor that was started by INIT and a start-up IPI does not record",
     .source = "SDM Vol 3, 17.4.9: cleared on processor RESET and INIT")
{
	const struct ds_configuration *c = ds_configuration;

	EXPECT_EQ(trace_found_at_start() & (c->tr | c->bts | c->btint | c->off_os | c->off_usr), 0);
}
