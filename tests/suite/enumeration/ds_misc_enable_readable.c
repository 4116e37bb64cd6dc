// SPDX-License-Identifier: MIT
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/msr.h"
#include "tests/framework/test.h"

#define PEBS_UNAVAILABLE (1ull << 12)

TEST(ds_misc_enable_readable, .group = "E", .ids = "E3", .needs = NEED_DS,
     .claim = "IA32_MISC_ENABLE can be read where DS is enumerated, and BTS_UNAVAILABLE is obeyed",
     .source = "SDM Vol 3, 17.4.9 and table 35-2: 1A0H")
{
	uint64_t value = 0, again = 0;

	REQUIRE(rdmsr_safe(IA32_MISC_ENABLE, &value));
	REQUIRE(rdmsr_safe(IA32_MISC_ENABLE, &again));
	EXPECT_EQ(again, value);
	EXPECT_EQ(ds_caps()->bts_unavailable, (value & MISC_ENABLE_BTS_UNAVAILABLE) != 0);
	EXPECT_EQ(ds_caps()->status == DS_BTS_UNAVAILABLE,
		  (value & MISC_ENABLE_BTS_UNAVAILABLE) != 0);
	test_observe("bts_unavailable", "%d", (value & MISC_ENABLE_BTS_UNAVAILABLE) != 0);
	test_observe("pebs_unavailable", "%d", (value & PEBS_UNAVAILABLE) != 0);
}
