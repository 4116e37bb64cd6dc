// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "lib/format.h"
#include "tests/lib/said.h"

TEST(ptrace_flight_recorder, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a process with the right to it records every CPU and finds who ran there last",
     .source = "tests/user/flight_recorder.c")
{
	uint64_t before = programs_begin();
	char line[40];

	EXPECT_EQ(said_run("flight_recorder", 0, true), WAIT_EXITED(0));
	for (unsigned cpu = 0; cpu < cpu_count(); cpu++) {
		format(line, sizeof(line), "cpu %u: culprit+0x*", cpu);
		EXPECT(said(line, NULL));
	}
	programs_end(before);
}
