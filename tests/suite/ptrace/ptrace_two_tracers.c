// SPDX-License-Identifier: MIT
#include "lib/string.h"
#include "tests/lib/said.h"

TEST(ptrace_two_tracers, .group = "I", .ids = "I11 I9", .needs = NEED_BTS,
     .claim = "two processes trace a third, each in its own way, and see the same branches",
     .source = "tests/user/two_tracers.c")
{
	uint64_t before = programs_begin();
	const char *reader, *keeper;

	EXPECT_EQ(said_run("two_tracers", 30, false), WAIT_EXITED(0));
	reader = said("the newest of the reader: *", NULL);
	keeper = said("the newest of the keeper: *", NULL);
	REQUIRE(reader && keeper);
	EXPECT(!strcmp(reader + strlen("the newest of the reader: "),
		       keeper + strlen("the newest of the keeper: ")));
	programs_end(before);
}
