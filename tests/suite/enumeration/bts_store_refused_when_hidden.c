// SPDX-License-Identifier: MIT
#include "tests/lib/hidden.h"

TEST(bts_store_refused_when_hidden, .group = "E", .ids = "", .needs = NEED_NO_DS | NEED_UNSAFE,
     .claim =
	     "where DS is not enumerated BTS is refused with #GP or reads back 0, and hangs nothing",
     .source = "SDM Vol 3, 17.4.1 and 17.4.5; XSA-269")
{
	hidden_expect_refused("bts", ds_configuration->bts);
	hidden_expect_refused("tr_bts", ds_configuration->tr | ds_configuration->bts);
}
