// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "lib/format.h"
#include "tests/lib/programs.h"

TEST(ptrace_how_did_i_get_here, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "the last branches of a program that crashed say how it came there",
     .source = "tests/user/how_did_i_get_here.c")
{
	uint64_t before = programs_begin();
	const char *line;

	EXPECT_EQ(program_output_of("how_did_i_get_here", 0, false), WAIT_EXITED(0));
	line = program_output("fault in sum+0x*; before that:", NULL);
	REQUIRE(line);
	line = program_output("*from skip_digits+0x* to sum+0x*", line); /* the return */
	REQUIRE(line);
	line = program_output("*from skip_digits+0x* to skip_digits+0x*", line);
	REQUIRE(line);
	line = program_output("*from sum+0x* to skip_digits+0x0", line);
	EXPECT(line && program_output("*from sum+0x* to number+0x0", line)); /* the twelfth */
	programs_end(before);
}

TEST(ptrace_jumped_to_nowhere, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a program whose return address was overwritten: its last branch is the return to nowhere",
     .source = "tests/user/jumped_to_nowhere.c; docs/design.md#views")
{
	uint64_t before = programs_begin();
	const char *line;

	EXPECT_EQ(program_output_of("jumped_to_nowhere", 0, false), WAIT_EXITED(0));
	line = program_output("SIGSEGV at 0x616161616161; last branches, newest first:", NULL);
	REQUIRE(line);
	line = program_output("*handle+0x* -> 0x616161616161", line); /* the return */
	REQUIRE(line);
	line = program_output("*handle+0x* -> handle+0x*, times *",
			      line); /* the copy that went too far */
	REQUIRE(line);
	line = program_output("*serve+0x* -> handle+0x0", line);
	REQUIRE(line);
	/* The first message: the eleventh line or the twelfth, as the compiler made the loops. */
	EXPECT(program_output("*handle+0x* -> handle+0x*, times 2", line));
	programs_end(before);
}

TEST(ptrace_flight_recorder, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a process with the right to it records every CPU and finds who ran there last",
     .source = "tests/user/flight_recorder.c")
{
	uint64_t before = programs_begin();
	char line[40];

	EXPECT_EQ(program_output_of("flight_recorder", 0, true), WAIT_EXITED(0));
	for (unsigned cpu = 0; cpu < cpu_count(); cpu++) {
		format(line, sizeof(line), "cpu %u: culprit+0x*", cpu);
		EXPECT(program_output(line, NULL));
	}
	programs_end(before);
}

TEST(ptrace_profile, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "a profile made of all branches counts each call", .source = "tests/user/profile.c")
{
	uint64_t before = programs_begin();

	EXPECT_EQ(program_output_of("profile", 97, false), WAIT_EXITED(0));
	EXPECT(program_output("* branches, ?* stops", NULL));
	EXPECT(program_output("*97 calls from collatz+0x* to steps_to_one+0x0", NULL));
	programs_end(before);
}
