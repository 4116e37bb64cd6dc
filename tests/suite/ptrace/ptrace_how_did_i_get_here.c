// SPDX-License-Identifier: MIT
#include "tests/lib/said.h"

TEST(ptrace_how_did_i_get_here, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "the last branches of a program that crashed say how it came there",
     .source = "tests/user/how_did_i_get_here.c")
{
	uint64_t before = programs_begin();
	const char *line;

	EXPECT_EQ(said_run("how_did_i_get_here", 0, false), WAIT_EXITED(0));
	line = said("fault in sum+0x*; before that:", NULL);
	REQUIRE(line);
	line = said("*from skip_digits+0x* to sum+0x*", line); /* the return */
	REQUIRE(line);
	line = said("*from skip_digits+0x* to skip_digits+0x*", line);
	REQUIRE(line);
	line = said("*from sum+0x* to skip_digits+0x0", line);
	EXPECT(line && said("*from sum+0x* to number+0x0", line)); /* the twelfth */
	programs_end(before);
}
