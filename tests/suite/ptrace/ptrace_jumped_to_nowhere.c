// SPDX-License-Identifier: MIT
#include "tests/lib/said.h"

TEST(ptrace_jumped_to_nowhere, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a program whose return address was overwritten: its last branch is the return to nowhere",
     .source = "tests/user/jumped_to_nowhere.c; docs/design.md#views")
{
	uint64_t before = programs_begin();
	const char *line;

	EXPECT_EQ(said_run("jumped_to_nowhere", 0, false), WAIT_EXITED(0));
	line = said("SIGSEGV at 0x616161616161; last branches, newest first:", NULL);
	REQUIRE(line);
	line = said("*handle+0x* -> 0x616161616161", line); /* the return */
	REQUIRE(line);
	line = said("*handle+0x* -> handle+0x*, times *", line); /* the copy that went too far */
	REQUIRE(line);
	EXPECT(said("*serve+0x* -> handle+0x0", line));
	programs_end(before);
}
