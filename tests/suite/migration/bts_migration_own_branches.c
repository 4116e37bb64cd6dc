// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"
#include "tests/lib/own.h"

TEST(bts_migration_own_branches, .group = "S", .ids = "S1", .needs = NEED_BTS | NEED_SMP,
     .claim = "CPUs that all record at once have each its own branches, and no other's",
     .source = "SDM Vol 3, 17.4.9.5: separate areas, buffers and state for each processor")
{
	own_branches(UINT64_MAX);
}
