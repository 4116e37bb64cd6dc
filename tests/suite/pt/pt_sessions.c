// SPDX-License-Identifier: MIT
// Sessions beside each other, and beside tracers of branches.
#include "drivers/ds/ds.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/unit.h"
#include "lib/string.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/programs.h"

enum { ROUNDS = 10, JUMPS = 400 }; /* a part of tests/user/insntrace.c: five rounds of JUMPS */

static struct trace_account anybody = {.limit = 16ul << 20}; /* without any right */
static struct trace_account privileged[] = {{.limit = 1ul << 20, .privileged = true},
					    {.limit = 1ul << 20, .privileged = true}};

/* A program that waits to do its first round. */
static struct process *start(void)
{
	struct process *process = program_start("insntrace", ROUNDS);

	program_await(process, true);
	return process;
}

/* Lets it do a round, to where it waits again. */
static void do_round(struct process *process)
{
	process_signal(process, SIGCONT);
	EXPECT_EQ(program_await(process, true), WAIT_STOPPED(SIGSTOP));
}

static void end(struct process *process)
{
	process_signal(process, SIGKILL);
	EXPECT_EQ(program_end(process), WAIT_KILLED(SIGKILL));
}

/* A session of one thread, with `flags` of its buffer. */
static void open(struct trace_account *owner, unsigned flags)
{
	struct insntrace_config config =
		insntrace_config(flags & INSNTRACE_STREAM ? 2 : 1, 4, flags);

	config.control = RTIT_CTL_BRANCH_EN;
	REQUIRE_EQ(insntrace_initialize(owner, INSNTRACE_THREADS, 1), 0);
	EXPECT_EQ(insntrace_allocate_buffer(owner, &config, 0), 0);
}

static void trace(struct trace_account *owner, const struct process *process, unsigned flags)
{
	open(owner, flags);
	EXPECT_EQ(insntrace_assign_thread(owner, 0, process->task), 0);
	EXPECT_EQ(insntrace_start(owner), 0);
}

/*
 * Ends a session: the rounds of which it has the jumps, all to `*ip`; and whether it says that
 * packets are missing.
 */
static unsigned rounds_of(struct trace_account *owner, uint64_t *ip, bool *gap)
{
	static uint8_t packets[64 << 10];
	struct insntrace_state state = {0};
	struct insntrace_targets targets;
	unsigned most;

	EXPECT_EQ(insntrace_stop(owner), 0);
	EXPECT_EQ(insntrace_get_buffer_state(owner, 0, &state), 0);
	targets = insntrace_targets_of(packets,
				       insntrace_copy(owner, 0, 0, packets, sizeof(packets)));
	most = insntrace_most(&targets, ip);
	*gap = state.flags & INSNTRACE_GAP;
	EXPECT_EQ(most % JUMPS, 0);
	insntrace_owner_ended(owner);
	return most / JUMPS;
}

TEST(pt_sessions_cpus_first, .group = "PT", .ids = "PT152", .needs = NEED_PT,
     .claim = "a session of threads keeps no one from a session of CPUS, which has every CPU while "
	      "it is started; the threads' goes on afterwards and says that packets are missing",
     .source = "docs/insntrace.2, Several sessions")
{
	PROGRAMS(before);
	struct insntrace_config config = insntrace_config(1, 6, 0);
	struct process *process = start();
	uint64_t ip;
	bool gap;

	trace(&anybody, process, 0);
	do_round(process);
	insntrace_open(NULL, &config);
	do_round(process);
	EXPECT_EQ(insntrace_start(NULL), 0);
	EXPECT_EQ(insntrace_traced_cpus(), cpu_count());
	do_round(process);
	EXPECT_EQ(insntrace_traced_cpus(), cpu_count());
	EXPECT_EQ(insntrace_stop(NULL), 0);
	EXPECT_EQ(insntrace_traced_cpus(), 0); /* the thread waits */
	do_round(process);
	EXPECT_EQ(rounds_of(&anybody, &ip, &gap), 3);
	EXPECT(gap);
	insntrace_close(NULL);
	end(process);
}

/* Whether so many CPUs are traced before a second has passed. */
static bool are_traced(unsigned cpus)
{
	for (unsigned n = 0; n < 1000 && insntrace_traced_cpus() != cpus; n++)
		task_sleep(1000);
	return insntrace_traced_cpus() == cpus;
}

TEST(pt_sessions_running, .group = "PT", .ids = "PT152", .needs = NEED_PT | NEED_SMP,
     .claim = "a thread that runs gives way when a session of CPUS starts, and goes on when that "
	      "stops, without being switched",
     .source = "docs/insntrace.2, Several sessions")
{
	PROGRAMS(before);
	struct insntrace_config config = insntrace_config(1, 6, 0);
	struct insntrace_state state = {0};
	struct process *process = program_start("spin", 0);

	test_keep_on(process->task, cpu_count() - 1);
	trace(&anybody, process, INSNTRACE_CIRCULAR);
	EXPECT(are_traced(1));
	insntrace_open(NULL, &config);
	EXPECT_EQ(insntrace_start(NULL), 0);
	EXPECT_EQ(insntrace_traced_cpus(), cpu_count());
	EXPECT_EQ(insntrace_stop(NULL), 0);
	EXPECT(are_traced(1));
	insntrace_close(NULL);
	EXPECT_EQ(insntrace_stop(&anybody), 0);
	EXPECT_EQ(insntrace_traced_cpus(), 0);
	EXPECT_EQ(insntrace_get_buffer_state(&anybody, 0, &state), 0);
	EXPECT(state.flags & INSNTRACE_GAP && state.available > 0);
	insntrace_owner_ended(&anybody);
	end(process);
}

/* Jumps that the thread's stream has up to a gap, after which it is to go on, or up to its end. */
static unsigned jumps_to_gap(bool *gap)
{
	static uint8_t packets[16 * PAGE_SIZE];
	struct insntrace_targets targets;
	size_t used = 0, piece;
	const void *from;
	uint64_t ip;
	int error;

	do {
		piece = sizeof(packets) - used;
		error = insntrace_read_stream(&anybody, 0, &from, &piece);
		if (error)
			break;
		memcpy(packets + used, from, piece);
		used += piece;
		EXPECT_EQ(insntrace_take_stream(&anybody, 0, piece), 0);
	} while (piece);
	*gap = error == -EPIPE;
	if (*gap)
		EXPECT_EQ(insntrace_take_stream(&anybody, 0, 0), 0);
	targets = insntrace_targets_of(packets, used);
	return insntrace_most(&targets, &ip);
}

/* A stream needs a table of several chunks. */
static struct process *start_for_stream(void)
{
	if (!pt_caps()->topa_many)
		test_skip("no table of more than one chunk");
	return start();
}

/* After one more round, which the stream has whole. */
static void end_stream(struct process *process)
{
	bool gap;

	do_round(process);
	EXPECT_EQ(jumps_to_gap(&gap), JUMPS);
	EXPECT(!gap);
	insntrace_owner_ended(&anybody);
	end(process);
}

TEST(pt_sessions_stream, .group = "PT", .ids = "PT152", .needs = NEED_PT,
     .claim = "the reader of a thread's stream learns at its place that another session had the "
	      "CPU, once, and the stream goes on from there",
     .source = "docs/insntrace.2, Several sessions")
{
	PROGRAMS(before);
	struct insntrace_config config = insntrace_config(1, 6, 0);
	struct process *process = start_for_stream();
	bool gap;

	trace(&anybody, process, INSNTRACE_STREAM);
	do_round(process);
	insntrace_open(NULL, &config);
	EXPECT_EQ(insntrace_start(NULL), 0);
	do_round(process);
	insntrace_close(NULL);
	EXPECT_EQ(jumps_to_gap(&gap), JUMPS);
	EXPECT(gap);
	end_stream(process);
}

TEST(pt_sessions_stream_first, .group = "PT", .ids = "PT152", .needs = NEED_PT,
     .claim = "the reader of a thread's stream learns, once, that another session had the CPU from "
	      "its start on, and the stream begins after that",
     .source = "docs/insntrace.2, Several sessions")
{
	PROGRAMS(before);
	struct insntrace_config config = insntrace_config(1, 6, 0);
	struct process *process = start_for_stream();
	size_t piece = 1;
	const void *from;

	insntrace_open(NULL, &config);
	EXPECT_EQ(insntrace_start(NULL), 0);
	trace(&anybody, process, INSNTRACE_STREAM);
	do_round(process);
	insntrace_close(NULL);
	EXPECT_EQ(insntrace_read_stream(&anybody, 0, &from, &piece), -EPIPE);
	EXPECT_EQ(insntrace_take_stream(&anybody, 0, 0), 0);
	EXPECT_EQ(insntrace_read_stream(&anybody, 0, &from, &piece), 0);
	EXPECT_EQ(piece, 0);
	end_stream(process);
}

/* A session of one round, which nothing keeps from its packets. */
static void expect_whole(struct process *process)
{
	uint64_t ip;
	bool gap;

	trace(&anybody, process, 0);
	do_round(process);
	EXPECT_EQ(rounds_of(&anybody, &ip, &gap), 1);
	EXPECT(!gap);
}

TEST(pt_sessions_rights_first, .group = "PT", .ids = "PT152", .needs = NEED_PT,
     .claim =
	     "a thread has buffers of several sessions; the owner with more rights gets its packets, "
	     "of two the older one, and the others learn that some are missing",
     .source = "docs/insntrace.2, Several sessions")
{
	uint64_t before = programs_begin(), ip;
	struct process *process = start();
	bool gap;

	trace(&anybody, process, 0);
	do_round(process);
	trace(&privileged[0], process, 0);
	trace(&privileged[1], process, 0);
	do_round(process);
	EXPECT_EQ(rounds_of(&privileged[1], &ip, &gap), 0);
	EXPECT(gap);
	EXPECT_EQ(rounds_of(&privileged[0], &ip, &gap), 1);
	EXPECT(!gap);
	do_round(process);
	EXPECT_EQ(rounds_of(&anybody, &ip, &gap), 2);
	EXPECT(gap);
	expect_whole(process);
	end(process);
	programs_end(before);
}

/* --- Beside branches --- */

TEST(pt_claim, .group = "PT", .ids = "PT54", .needs = NEED_PT | NEED_BTS,
     .claim = "BTS and Intel PT exclude each other where the processor says so, the second is "
	      "refused and the holder named; elsewhere both trace",
     .source = "SDM Vol 3, 36.3.1.2")
{
	const struct bts_options options = {.size = 24 * 64};
	bool excludes = ds_caps()->suspended_by_pt;
	unsigned self = current_task()->pid;
	struct tracer *tracer = NULL;
	int error;

	EXPECT_EQ(trace_holder(TRACE_PT), -ENXIO);
	EXPECT_EQ(trace_holder(TRACE_BTS), -ENXIO);
	REQUIRE_EQ(bts_attach(NULL, 0, &options, &tracer), 0);
	EXPECT_EQ(trace_holder(TRACE_BTS), self);
	error = insntrace_initialize(NULL, INSNTRACE_CPUS, cpu_count());
	EXPECT_EQ(error, excludes ? -EBUSY : 0);
	if (!error)
		EXPECT_EQ(insntrace_terminate(NULL), 0);
	trace_detach(tracer);
	EXPECT_EQ(trace_holder(TRACE_BTS), -ENXIO);
	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_CPUS, cpu_count()), 0);
	EXPECT_EQ(trace_holder(TRACE_PT), self);
	EXPECT_EQ(bts_attach(NULL, 0, &options, &tracer), excludes ? -EBUSY : 0);
	if (!excludes)
		trace_detach(tracer);
	EXPECT_EQ(bts_attach(current_task(), 0, &options, &tracer), excludes ? -EBUSY : 0);
	if (!excludes)
		trace_detach(tracer);
	EXPECT_EQ(insntrace_terminate(NULL), 0);
	EXPECT_EQ(trace_holder(TRACE_PT), -ENXIO);
	REQUIRE_EQ(bts_attach(NULL, 0, &options, &tracer), 0);
	trace_detach(tracer);
}

/* A tracer of ring 3 of a task or, if that is NULL, of CPU `index`; or the error. */
static int attach(const struct process *process, unsigned index, struct tracer **tracer)
{
	const struct bts_options options = {.size = 24 * 8192};

	return process ? bts_attach(process->task, 0, &options, tracer)
		       : bts_attach(NULL, index, &options, tracer);
}

/* Detaches it: the times that it has a branch to `ip`. */
static unsigned times_of(struct tracer *tracer, uint64_t ip)
{
	struct ptrace_bts_record records[64];
	unsigned times = 0;
	size_t count;

	do {
		count = bts_read(tracer, records, sizeof(records) / sizeof(records[0]));
		for (size_t i = 0; i < count; i++)
			times += records[i].to == ip;
	} while (count);
	EXPECT(trace_detach(tracer));
	return times;
}

TEST(pt_claim_tasks, .group = "PT", .ids = "PT54", .needs = NEED_PT | NEED_BTS,
     .claim = "where BTS and Intel PT exclude each other one task has packets while another has "
	      "branches, and the same task does not have both",
     .source = "docs/insntrace.2, Beside ptrace-bts")
{
	uint64_t before = programs_begin(), ip = 0;
	struct process *packets = start(), *branches = start();
	int second = ds_caps()->suspended_by_pt ? -EBUSY : 0;
	struct tracer *tracer, *other;
	bool gap;

	trace(&anybody, packets, 0);
	REQUIRE_EQ(attach(branches, 0, &tracer), 0);
	EXPECT_EQ(attach(packets, 0, &other), second);
	if (!second)
		trace_detach(other);
	open(NULL, 0);
	EXPECT_EQ(insntrace_assign_thread(NULL, 0, branches->task), second);
	insntrace_owner_ended(NULL);
	process_signal(packets, SIGCONT);
	do_round(branches);
	EXPECT_EQ(program_await(packets, true), WAIT_STOPPED(SIGSTOP));
	EXPECT_EQ(rounds_of(&anybody, &ip, &gap), 1);
	EXPECT(!gap);
	EXPECT_EQ(times_of(tracer, ip), JUMPS);
	end(packets);
	end(branches);
	programs_end(before);
}

TEST(pt_claim_cpus, .group = "PT", .ids = "PT54 PT152", .needs = NEED_PT | NEED_BTS,
     .claim = "threads that have packets keep no one from the branches of CPUs: where BTS and "
	      "Intel PT exclude each other the packets have a gap",
     .source = "docs/insntrace.2, Beside ptrace-bts")
{
	static struct tracer *tracers[MAX_CPUS];
	uint64_t before = programs_begin(), ip = 0;
	struct process *process = start();
	unsigned times = 0;
	bool gap;

	trace(&anybody, process, 0);
	do_round(process);
	for (unsigned i = 0; i < cpu_count(); i++)
		REQUIRE_EQ(attach(NULL, i, &tracers[i]), 0);
	do_round(process);
	EXPECT_EQ(rounds_of(&anybody, &ip, &gap), ds_caps()->suspended_by_pt ? 1 : 2);
	EXPECT_EQ(gap, ds_caps()->suspended_by_pt);
	for (unsigned i = 0; i < cpu_count(); i++)
		times += times_of(tracers[i], ip);
	EXPECT_EQ(times, JUMPS);
	expect_whole(process);
	end(process);
	programs_end(before);
}
