// SPDX-License-Identifier: MIT
#include "tests/lib/hidden.h"

TEST(bts_refused_when_hidden, .group = "E", .ids = "", .needs = NEED_NO_DS,
     .claim = "where DS is not enumerated TR and BTINT are refused with #GP or read back 0",
     .source = "SDM Vol 3, 17.4.1 and 17.4.5; XSA-269")
{
	hidden_expect_refused("tr", ds_configuration->tr);
	hidden_expect_refused("btint", ds_configuration->btint);
	hidden_expect_refused("tr_btint", ds_configuration->tr | ds_configuration->btint);
}
