// SPDX-License-Identifier: MIT
// Xen once passed a guest's writes of IA32_DEBUGCTL through unchecked (XSA-269): BTS without a DS
// area that the processor could write hung the host. Passing means: where DS is hidden, TR and
// BTINT are refused or read back 0. BTS itself is left to bts_store_refused_when_hidden, which is
// unsafe.
#include "tests/lib/hidden.h"

TEST(bts_refused_when_hidden, .group = "E", .ids = "", .needs = NEED_NO_DS,
     .claim = "where DS is not enumerated TR and BTINT are refused with #GP or read back 0",
     .source = "SDM Vol 3, 17.4.1 and 17.4.5; XSA-269")
{
	hidden_expect_refused("tr", ds_configuration->tr);
	hidden_expect_refused("btint", ds_configuration->btint);
	hidden_expect_refused("tr_btint", ds_configuration->tr | ds_configuration->btint);
}
