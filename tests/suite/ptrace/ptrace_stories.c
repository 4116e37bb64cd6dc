// SPDX-License-Identifier: MIT
#include "drivers/ds/pebs.h"
#include "kernel/cpu.h"
#include "kernel/trace/pebs/pebs.h"
#include "lib/format.h"
#include "tests/lib/programs.h"
#include "tests/lib/sampled.h"

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

// The requests for samples, by programs of ring 3.

/* The argument of tests/user/ptrace_pebs.c: PEBS of this machine. */
static uint64_t pebs_of_machine(void)
{
	bool registers = ds_sample_has() & DS_SAMPLE_REGISTERS;

	if (!pebs_present())
		return 0;
	return 1 | (ds_caps()->pebs_format ? 0 : 2) | (registers ? 4 : 0) | (ds_has_bts() ? 8 : 0);
}

TEST(ptrace_pebs, .group = "I", .ids = "",
     .claim =
	     "a program has another's samples taken, exactly, reads them, learns that its buffer is "
	     "full, traces its branches beside; each request that is refused is refused by its error "
	     "and changes nothing",
     .source = "docs/ptrace-pebs.2")
{
	uint64_t skid = pebs_present() ? sampled_skid() : 0;

	if (pebs_present())
		sampled_needs_exact();
	program_expect("ptrace_pebs", pebs_of_machine() | skid << 8, false);
}

/* By instructions: about 1800, 1300 (or 1700), 50 and 15 in each round. */
TEST(ptrace_sample_profile, .group = "I", .ids = "", .needs = NEED_SAMPLES,
     .claim = "a profiler that takes samples names the functions of a program by their share",
     .source = "tests/user/sample_profile.c")
{
	uint64_t before = programs_begin();
	const char *line;

	EXPECT_EQ(program_output_of("sample_profile", 100, false), WAIT_EXITED(0));
	line = program_output("* samples", NULL);
	REQUIRE(line);
	line = program_output("  ?? % sum_up_to", line);
	EXPECT(line && program_output("  * % largest_divisor", line));
	EXPECT(program_output("  * % count_ones", line));
	programs_end(before);
}

TEST(ptrace_side_by_side, .group = "I", .ids = "PE15", .needs = NEED_BTS | NEED_SAMPLES,
     .claim =
	     "a program shows the same code by its branches and by its samples, taken at once, and "
	     "finds each sample of a taken branch among the branches",
     .source = "tests/user/side_by_side.c; SDM Vol 3, 18.4.4")
{
	uint64_t before = programs_begin();
	const char *line;

	EXPECT_EQ(program_output_of("side_by_side", 60, false), WAIT_EXITED(0));
	line = program_output("* branches, * samples", NULL);
	REQUIRE(line);
	line = program_output("  steps_to_one: *? branches, *? samples", line);
	EXPECT(line && program_output("  common_divisor: *? branches, *? samples", line));
	EXPECT(program_output("* samples are of taken branches", NULL));
	programs_end(before);
}

#define PROCESSES 3

TEST(ptrace_random_traces, .group = "I", .ids = "",
     .claim = "no order of requests for branches and samples, whatever their arguments and what "
	      "becomes of the tracees, harms the kernel or leaves a page allocated",
     .source = "docs/ptrace-pebs.2; docs/ptrace-bts.2")
{
	uint64_t before = programs_begin(), each = test_scaled(900) / PROCESSES + 1;
	struct process *processes[PROCESSES];

	for (unsigned i = 0; i < PROCESSES; i++) {
		uint64_t seed = test_random() & UINT32_MAX;

		test_note("%lu requests with seed 0x%lx", each, seed);
		if (i)
			processes[i] = program_start("random_traces", each << 32 | seed);
		else
			REQUIRE_EQ(process_spawn_privileged("random_traces", each << 32 | seed,
							    &processes[0]),
				   0);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		EXPECT_EQ(program_end(processes[i]), WAIT_EXITED(42));
	programs_end(before);
}
