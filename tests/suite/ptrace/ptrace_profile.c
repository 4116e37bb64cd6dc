// SPDX-License-Identifier: MIT
#include "tests/lib/said.h"

TEST(ptrace_profile, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "a profile made of all branches counts each call", .source = "tests/user/profile.c")
{
	uint64_t before = programs_begin();

	EXPECT_EQ(said_run("profile", 97, false), WAIT_EXITED(0));
	EXPECT(said("* branches, ?* stops", NULL));
	EXPECT(said("*97 calls from collatz+0x* to steps_to_one+0x0", NULL));
	programs_end(before);
}
