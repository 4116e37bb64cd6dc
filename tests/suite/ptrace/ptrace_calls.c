// SPDX-License-Identifier: MIT
#include <stdbool.h>
#include <stdint.h>

#include "abi/ptrace.h"
#include "drivers/debugctl.h"
#include "drivers/ds/ds.h"
#include "drivers/ds/pebs.h"
#include "drivers/lbr/lbr.h"
#include "drivers/lbr/registers.h"
#include "drivers/pmu/pmu.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/process/attachment.h"
#include "kernel/ptrace/bts.h"
#include "kernel/ptrace/ptrace.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/cpu.h"
#include "kernel/trace/pebs/pebs.h"
#include "lib/format.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/programs.h"
#include "tests/lib/sampled.h"
#include "tests/lib/walker.h"

/* Nothing; the structure's size then; other small numbers; -1; an address; an array's size. */
TEST(ptrace_2007, .group = "I", .ids = "I1 I2", .needs = NEED_BTS,
     .claim = "a program written from the patch of 2007 works or is refused at each call, whatever "
	      "it passes where that ignores it, and no call is taken for another",
     .source = "docs/ptrace-bts.2, Differences from the patches of 2007")
{
	static const uint64_t ignored[] = {
		0, 16, 1, 15, 17, 23, 25, 32, 100, UINT32_MAX, UINT64_MAX, 0x7fffffffd000, 24000};

	for (unsigned i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		program_expect("ptrace_2007", ignored[i], false);
}

TEST(ptrace_refusals, .group = "I", .ids = "E2 P5 I1 I2 I6",
     .claim = "every request that the table of errors refuses is refused by its error and changes "
	      "nothing",
     .source = "docs/ptrace-bts.2, ERRORS")
{
	PROGRAMS(before);
	struct process *privileged;

	REQUIRE_EQ(process_spawn("spin", 0, true, &privileged), 0);
	EXPECT_EQ(program_run("ptrace_refusals", (uint64_t)privileged->pid << 8 |
							 debugctl_has_btf << 1 | ds_has_bts()),
		  WAIT_EXITED(0));
	process_signal(privileged, SIGKILL);
	program_end(privileged);
}

TEST(ptrace_stops, .group = "I", .ids = "",
     .claim = "programs attach to others, stop, inspect, change, step and let go of them; several "
	      "tracers each have to let one go; the end of a tracer does",
     .source = "docs/ptrace-bts.2")
BY_PROGRAM("ptrace_stops", 0, false)

TEST(ptrace_continued, .group = "I", .ids = "",
     .claim = "a signal that stops a tracee does nothing if SIGCONT was sent while a tracer held "
	      "it, and the tracer's next stop is that for SIGCONT",
     .source = "docs/ptrace-bts.2, Stops")
BY_PROGRAM("ptrace_continued", 0, false)

TEST(ptrace_events, .group = "I", .ids = "",
     .claim = "a debugger learns the cause of a stop, reads and writes single registers, and is "
	      "stopped for children and for the end of its tracee where it asked for that",
     .source = "docs/ptrace-bts.2, PTRACE_SETOPTIONS")
BY_PROGRAM("ptrace_events", 0, false)

#define EVENT(event, signal) ((event) << 16 | WAIT_STOPPED(signal))

/* Two tracers of the kernel's: the threshold stops the process for one, not for the other. */
TEST(ptrace_from_kernel, .group = "I", .ids = "I7 I11", .needs = NEED_BTS,
     .claim = "of two tracers in the kernel the one with a buffer finds the process stopped at "
	      "its threshold",
     .source = "kernel/ptrace/ptrace.h")
{
	static const uint16_t thresholds[][2] = {{340, 170}, {341, 171}, {1, 1}, {100, 50}};
	struct ptrace_bts_config config = {.flags = PTRACE_BTS_TRACE | PTRACE_BTS_SIGNAL,
					   .signal = SIGPROF};
	PROGRAMS(before);
	struct process *process = program_start("spin", 0);
	struct ptrace_bts_config status;
	struct attachment *one, *other;
	struct trap_frame frame;

	REQUIRE_EQ(ptrace_attach(NULL, process, true, &one), 0);
	EXPECT_EQ(ptrace_attach(NULL, process, true, &other), -EPERM);
	REQUIRE_EQ(ptrace_attach(NULL, process, false, &other), 0);
	EXPECT_EQ(program_await(process, true), WAIT_STOPPED(SIGSTOP));
	for (unsigned i = 0; i < sizeof(thresholds) / sizeof(thresholds[0]); i++) {
		config.size = thresholds[i][0] * sizeof(struct ptrace_bts_record);
		EXPECT_EQ(ptrace_bts_config(one, &config), 0);
		EXPECT_EQ(threshold_of(one->recordings[TRACE_BTS].tracer), thresholds[i][1]);
	}
	EXPECT_EQ(ptrace_continue(other, 0, false), -ESRCH);
	for (unsigned i = 0; i < 3; i++) {
		EXPECT_EQ(ptrace_continue(one, 0, false), 0);
		EXPECT_EQ(program_await(process, true), EVENT(PTRACE_EVENT_BTS, SIGPROF));
		EXPECT_EQ(ptrace_get_frame(other, &frame), -ESRCH);
	}
	ptrace_bts_status(one, &status);
	EXPECT_EQ(status.size, 2400);
	EXPECT_EQ(status.signal, SIGPROF);
	EXPECT_EQ(ptrace_interrupt(other), 0);
	attachment_end(one, 0);
	EXPECT_EQ(program_await(process, true), EVENT(PTRACE_EVENT_STOP, SIGTRAP));
	attachment_end(other, SIGTERM);
	EXPECT_EQ(program_end(process), WAIT_KILLED(SIGTERM));
}

TEST(ptrace_two_tracers, .group = "I", .ids = "I11 I9", .needs = NEED_BTS,
     .claim = "two processes trace a third, each in its own way, and see the same branches; what "
	      "one holds the other sees",
     .source = "tests/user/two_tracers.c")
{
	PROGRAMS(before);
	const char *reader, *keeper;

	EXPECT_EQ(program_output_of("two_tracers", 30, false), WAIT_EXITED(0));
	reader = program_output("the newest of the reader: *", NULL);
	keeper = program_output("the newest of the keeper: *", NULL);
	REQUIRE(reader && keeper);
	EXPECT(!strcmp(reader + strlen("the newest of the reader: "),
		       keeper + strlen("the newest of the keeper: ")));
	/* A wrong `from` splits one of the calls that the viewer counts. */
	EXPECT_OR_ERRATUM(program_output_of("two_tracers", 0, true) == WAIT_EXITED(0), "AAJ122");
}

TEST(ptrace_bts_sizes, .group = "I", .ids = "I3 I4 I10", .needs = NEED_BTS,
     .claim =
	     "a buffer's size is rounded down and told, its records stay while the size does, size 0 frees it",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
BY_PROGRAM("ptrace_bts", 0, false)

TEST(ptrace_bts_idioms, .group = "I", .ids = "I3 I4 I5 I10", .needs = NEED_BTS,
     .claim =
	     "what STATUS returns can be given to CONFIG, a size of 0 frees whatever the flags, the "
	     "same request that is cut again keeps the records, SCHED alone records stamps alone",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
BY_PROGRAM("ptrace_bts", 8, false)

TEST(ptrace_bts_reads, .group = "I", .ids = "I8 I9 I10", .needs = NEED_BTS,
     .claim =
	     "records are read newest first by index, oldest first in one piece or several, wrapped or not",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
BY_PROGRAM("ptrace_bts", 2, false)

TEST(ptrace_bts_stops, .group = "I", .ids = "I10", .needs = NEED_BTS,
     .claim =
	     "a buffer that keeps the oldest records stops when full and goes on when there is room",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
BY_PROGRAM("ptrace_bts", 3, false)

TEST(ptrace_bts_stepped, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a process that is stepped and traced at once has a record for each step that is a "
	      "branch, from where to where, and none for the others",
     .source = "docs/ptrace-bts.2, PTRACE_SINGLESTEP")
BY_PROGRAM("ptrace_bts", 7, false)

TEST(ptrace_bts_outlives, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a trace can be read when its process has ended, until wait4() has reported that or "
	      "it is detached",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
BY_PROGRAM("ptrace_bts", 4, false)

TEST(ptrace_bts_ends, .group = "I", .ids = "I5", .needs = NEED_BTS,
     .claim = "a process that ended and was waited for gives back its place and its tracer's "
	      "buffer without being detached",
     .source = "docs/ptrace-bts.2, Stops")
BY_PROGRAM("ptrace_memory", 1, false)

TEST(ptrace_bts_limits, .group = "I", .ids = "I5", .needs = NEED_BTS,
     .claim =
	     "over the limit of memory a buffer is refused or cut, as asked; a replaced one does not count",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_CONFIG")
BY_PROGRAM("ptrace_bts", 1, false)

TEST(ptrace_bts_slice, .group = "I", .ids = "I5", .needs = NEED_BTS,
     .claim = "the default limit of memory is enough for what a task that branches all the time "
	      "leaves in its time slice",
     .source = "docs/ptrace-bts.2, Limits")
BY_PROGRAM("ptrace_memory", 0, false)

TEST(ptrace_bts_no_memory, .group = "I", .ids = "I6", .needs = NEED_BTS,
     .claim = "where memory is out a request is refused and changes nothing",
     .source = "docs/ptrace-bts.2, ERRORS: ENOMEM")
{
	PROGRAMS(before);
	struct process *process = program_start("ptrace_bts", 6);

	EXPECT_EQ(program_await(process, true), WAIT_STOPPED(SIGSTOP));
	page_keep_back(UINT64_MAX);
	process_signal(process, SIGCONT);
	EXPECT_EQ(program_await(process, true), WAIT_STOPPED(SIGSTOP));
	page_keep_back(0);
	process_signal(process, SIGCONT);
	EXPECT_EQ(program_end(process), WAIT_EXITED(0));
}

TEST(ptrace_bts_cpus, .group = "I", .ids = "I2", .needs = NEED_BTS,
     .claim = "a process with the right to it traces a CPU as it does a process, but for signals",
     .source = "docs/ptrace-bts.2, Tracing a CPU")
BY_PROGRAM("ptrace_bts", 5, true)

TEST(ptrace_bts_read_elsewhere, .group = "I", .ids = "", .needs = NEED_BTS | NEED_SMP,
     .claim = "reading a CPU's trace from another costs no stamp, and no branch shows as another "
	      "process's",
     .source = "tests/user/cpu_reader.c")
BY_PROGRAM("cpu_reader", test_scaled(300), true)

TEST(ptrace_bts_read_whole, .group = "I", .ids = "", .needs = NEED_BTS | NEED_SMP,
     .claim = "one call reads the newest records of a CPU that runs on, with no hole between them; "
	      "a gap in the next one says what was missed meanwhile",
     .source = "docs/ptrace-bts.2, Tracing a CPU")
BY_PROGRAM("cpu_reader", 0, true)

/* Programs whose children stop at the thresholds of their traces. */

enum { THRESHOLD_USER, THRESHOLD_KERNEL, THRESHOLD_IN_CALLS, THRESHOLD_KILLED, THRESHOLD_SENT };

static void deliver(void *nmi)
{
	trace_deliver_pmi(nmi != NULL);
}

/*
 * Runs the program ptrace_signal in this mode for so many walks, or more if scale= says so: fewer
 * may not reach a threshold. The interrupt is delivered as NMI, or as a fixed vector, on all CPUs.
 * Expects the program to find nothing wrong.
 */
static void threshold_signal(unsigned mode, uint64_t walks, bool nmi)
{
	uint64_t scaled = test_scaled(walks), most = scaled > walks ? scaled : walks;
	uint64_t argument = most << 32 | (test_random() & 0xffffff) << 8 | mode;

	smp_call_all(deliver, nmi ? &argument : NULL);
	program_expect("ptrace_signal", argument, true);
	smp_call_all(deliver, &argument);
}

TEST(ptrace_signal_fixed, .group = "I", .ids = "I6 I7", .needs = NEED_BTS,
     .claim = "an interrupt that waits while interrupts are off stops processes at their "
	      "thresholds: no branch is lost or read twice",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_USER, 60, false);
}

TEST(ptrace_signal_nmi, .group = "I", .ids = "I6 I7", .needs = NEED_BTS,
     .claim =
	     "processes stop at the thresholds of their traces, once a crossing; no branch is lost or read twice",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_USER, 60, true);
}

TEST(ptrace_signal_kernel, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "processes whose kernel branches are recorded stop at thresholds reached in calls "
	      "and switches: no branch is lost or read twice",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_KERNEL, 40, true);
}

TEST(ptrace_signal_in_calls, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "a tracee that is a tracer and has its requests recorded stops at its thresholds: "
	      "no branch is lost or read twice",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_IN_CALLS, 20, false);
}

TEST(ptrace_signal_killed, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim =
	     "what was recorded of processes that are killed at their thresholds is in order and complete",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL")
{
	threshold_signal(THRESHOLD_KILLED, 15, true);
}

TEST(ptrace_signal_sent, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "a tracee that its buffer's signal is sent to stops at the threshold, before that "
	      "acts: no branch is lost or read twice",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL_TRACEE")
{
	threshold_signal(THRESHOLD_SENT, 60, true);
}

TEST(ptrace_overflow_to_tracee, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "the signal of a buffer that is sent to the tracee acts there if its tracer lets it",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL_TRACEE")
BY_PROGRAM("ptrace_overflow", 0, false)

TEST(ptrace_overflow_to_tracer, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "the signal of a buffer that is sent to the tracer arrives there once a crossing, "
	      "says which tracee's it is, and acts",
     .source = "docs/ptrace-bts.2, PTRACE_BTS_SIGNAL_TRACER")
{
	program_expect("ptrace_overflow", 1, false);
	program_expect("ptrace_overflow", 2, false);
}

TEST(ptrace_how_did_i_get_here, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "the last branches of a program that crashed say how it came there",
     .source = "tests/user/how_did_i_get_here.c")
{
	PROGRAMS(before);
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
}

TEST(ptrace_jumped_to_nowhere, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim =
	     "a program whose return address was overwritten: its last branch is the return to nowhere",
     .source = "tests/user/jumped_to_nowhere.c; docs/design.md#views")
{
	PROGRAMS(before);
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
}

TEST(ptrace_flight_recorder, .group = "I", .ids = "", .needs = NEED_BTS,
     .claim = "a process with the right to it records every CPU and finds who ran there last",
     .source = "tests/user/flight_recorder.c")
{
	PROGRAMS(before);
	char line[40];

	EXPECT_EQ(program_output_of("flight_recorder", 0, true), WAIT_EXITED(0));
	for (unsigned cpu = 0; cpu < cpu_count(); cpu++) {
		format(line, sizeof(line), "cpu %u: culprit+0x*", cpu);
		EXPECT(program_output(line, NULL));
	}
}

TEST(ptrace_profile, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "a profile made of all branches counts each call", .source = "tests/user/profile.c")
{
	PROGRAMS(before);

	EXPECT_EQ(program_output_of("profile", 97, false), WAIT_EXITED(0));
	EXPECT(program_output("* branches, ?* stops", NULL));
	EXPECT(program_output("*97 calls from collatz+0x* to steps_to_one+0x0", NULL));
}

// The requests for samples, by programs of ring 3.

static bool have_branches(void)
{
	return lbr_caps()->depth && ds_pebs_record_size_with(1);
}

/* And a filter, and a counter of branches. */
static bool have_freeze(void)
{
	return lbr_caps()->freezes && lbr_caps()->select & LBR_SELECT_BY_LEVEL &&
	       pmu_caps()->version && !pmu_lacks_event(0xc4);
}

/* The argument of tests/user/ptrace_pebs.c: PEBS of this machine. */
static uint64_t pebs_of_machine(void)
{
	bool registers = ds_sample_has() & DS_SAMPLE_REGISTERS;
	uint64_t freeze = have_freeze() ? 32 : 0;

	if (!pebs_present())
		return freeze;
	return freeze | 1 | (ds_caps()->pebs_format ? 0 : 2) | (registers ? 4 : 0) |
	       (ds_has_bts() ? 8 : 0) | (have_branches() ? 16 : 0);
}

TEST(ptrace_pebs, .group = "I", .ids = "",
     .claim =
	     "a program has another's samples taken, exactly, reads them, learns that its buffer "
	     "is full, traces its branches beside; it has samples taken at interrupts; each request "
	     "that is refused is refused by its error and changes nothing",
     .source = "docs/ptrace-pebs.2")
{
	uint64_t skid = pebs_present() ? sampled_skid() : 0;

	if (pebs_present())
		sampled_needs_exact();
	program_expect("ptrace_pebs", pebs_of_machine() | skid << 8, false);
}

TEST(ptrace_all_cpus, .group = "I", .ids = "SE5 SE8", .needs = NEED_SAMPLES,
     .claim =
	     "a program has samples taken on all CPUs, or events counted, by one call, reads them "
	     "in the order of their time, or else of the CPUs, with their branches where they have "
	     "some, and ends them by one call; where one "
	     "CPU cannot none does; it learns how many CPUs are left out",
     .source = "docs/ptrace-pebs.2, Tracing all CPUs")
{
	uint64_t event = ds_caps()->pebs_format ? PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES
						: PTRACE_PEBS_INST_RETIRED;
	uint64_t tsc = ds_sample_has() & DS_SAMPLE_TSC ? 1u << 16 : 0;
	uint64_t branches = have_branches() ? 1u << 18 : 0;

	if (cpu_count() > 8)
		test_skip("more than 8 CPUs");
	program_expect("all_cpus", 0, false);
	program_expect("all_cpus",
		       event << 32 | branches | 1u << 17 | tsc | kinds_left_out() << 8 |
			       cpu_count(),
		       true);
}

/* By instructions: about 1800, 1300 (or 1700), 50 and 15 in each round. */
TEST(ptrace_sample_profile, .group = "I", .ids = "", .needs = NEED_SAMPLES,
     .claim = "a profiler that takes samples names the functions of a program by their share",
     .source = "tests/user/sample_profile.c")
{
	PROGRAMS(before);
	const char *line;

	EXPECT_EQ(program_output_of("sample_profile", 100, false), WAIT_EXITED(0));
	line = program_output("* samples", NULL);
	REQUIRE(line);
	line = program_output("  ?? % sum_up_to", line);
	EXPECT(line && program_output("  * % largest_divisor", line));
	EXPECT(program_output("  * % count_ones", line));
}

TEST(ptrace_side_by_side, .group = "I", .ids = "PE15", .needs = NEED_BTS | NEED_SAMPLES,
     .claim = "a program shows the same code by its branches and by its samples, taken at once, "
	      "and finds each sample of a taken branch among the branches",
     .source = "tests/user/side_by_side.c; SDM Vol 3, 18.4.4")
{
	PROGRAMS(before);
	const char *line;

	EXPECT_EQ(program_output_of("side_by_side", 60, false), WAIT_EXITED(0));
	line = program_output("* branches, * samples", NULL);
	REQUIRE(line);
	line = program_output("  steps_to_one: *? branches, *? samples", line);
	EXPECT(line && program_output("  common_divisor: *? branches, *? samples", line));
	EXPECT(program_output("* samples are of taken branches", NULL));
}

/* Programs that trace themselves. */

#define PROFILERS 3

/* Each moves to other CPUs, and shares them with the others. */
TEST(ptrace_own_branches, .group = "I", .ids = "I7", .needs = NEED_BTS,
     .claim = "programs that drain their own buffer in a handler count each branch as often as "
	      "they took it, and none of the handler's",
     .source = "docs/ptrace-bts.2, Tracing oneself")
{
	PROGRAMS(before);
	struct process *processes[PROFILERS];

	for (uint64_t round = 0; round < test_scaled(4); round++) {
		for (unsigned i = 0; i < PROFILERS; i++) {
			uint64_t argument =
				(uint64_t)cpu_count() << 32 | (test_random() & UINT32_MAX);

			if (i)
				processes[i] = program_start("own_traces", argument);
			else /* with the kernel's branches */
				REQUIRE_EQ(process_spawn("own_traces", argument | 1ul << 55, true,
							 &processes[0]),
					   0);
		}
		for (unsigned i = 0; i < PROFILERS; i++)
			EXPECT_EQ(program_end(processes[i]), WAIT_EXITED(0));
	}
}

TEST(ptrace_own_samples, .group = "I", .ids = "", .needs = NEED_SAMPLES,
     .claim = "a program that samples itself, and drains the buffer in a handler, has each sample "
	      "at its own count of events",
     .source = "docs/ptrace-pebs.2, Sampling oneself")
{
	uint64_t skid = sampled_skid();

	sampled_needs_exact();
	for (uint64_t round = 0; round < test_scaled(4); round++)
		program_expect("own_traces", 1ul << 56 | skid << 8 | pebs_of_machine(), false);
}

TEST(ptrace_own_requests, .group = "I", .ids = "I4 I7 A1", .needs = NEED_BTS,
     .claim = "of itself a process can ask for buffers alone, whose signal is as any other",
     .source = "docs/ptrace-bts.2, Tracing oneself")
{
	program_expect("own_traces", 2ul << 56, false);
	program_expect("own_traces", 2ul << 56 | 1, true);
}

TEST(ptrace_32_bits, .group = "I", .ids = "I1",
     .claim = "32-bit programs make calls by INT 80H, trace 32-bit and 64-bit code, and are traced",
     .source = "docs/ptrace-bts.2, 32-bit tracers and tracees")
BY_PROGRAM("compat", ds_has_bts(), false)

#define PROCESSES 3

TEST(ptrace_random_traces, .group = "I", .ids = "",
     .claim = "no order of requests for branches, samples and the newest branches, whatever their "
	      "arguments and what becomes of the tracees, harms the kernel or leaves a page "
	      "allocated",
     .source = "docs/ptrace-pebs.2; docs/ptrace-bts.2; docs/ptrace-lbr.2")
{
	uint64_t before = programs_begin(), each = test_scaled(900) / PROCESSES + 1;
	struct process *processes[PROCESSES];

	for (unsigned i = 0; i < PROCESSES; i++) {
		uint64_t seed = test_random() & UINT32_MAX;

		test_note("%lu requests with seed 0x%lx", each, seed);
		if (i)
			processes[i] = program_start("random_traces", each << 32 | seed);
		else
			REQUIRE_EQ(process_spawn("random_traces", each << 32 | seed, true,
						 &processes[0]),
				   0);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		EXPECT_EQ(program_end(processes[i]), WAIT_EXITED(42));
	programs_end(before);
}
