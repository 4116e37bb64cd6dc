// SPDX-License-Identifier: MIT
// A session that traces threads; and units that exclude each other.
#include "drivers/ds/ds.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/unit.h"
#include "lib/string.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/programs.h"
#include "tests/lib/pt_decode.h"

#define IA32_XSS 0xda0u

/* Of tests/user/insntrace.c. */
enum part { JUMPS_A = 7, JUMPS_B, HAS_CHILD, ROUNDS };

static struct insntrace_config config_of_thread(unsigned flags)
{
	struct insntrace_config config = insntrace_config(1, 4, flags);

	config.control = RTIT_CTL_BRANCH_EN;
	return config;
}

static void open(unsigned traces, unsigned flags)
{
	struct insntrace_config config = config_of_thread(flags);

	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_THREADS, traces), 0);
	for (unsigned n = 0; n < traces; n++)
		EXPECT_EQ(insntrace_allocate_buffer(NULL, &config, 0), n);
}

static void close(void)
{
	insntrace_owner_ended(NULL);
}

/* A program that waits to go on. */
static struct process *start(enum part part)
{
	struct process *process = program_start("insntrace", part);

	program_await(process, true);
	return process;
}

/* Times that packets go to their most frequent target, `*ip`. */
static unsigned most_of(const struct insntrace_targets *targets, uint64_t *ip)
{
	unsigned most = 0;

	EXPECT(!targets->kernel);
	for (size_t i = 0; i < targets->count; i++)
		if (targets->target[i].times > most) {
			most = targets->target[i].times;
			*ip = targets->target[i].ip;
		}
	return most;
}

/* Those of buffer `n`. */
static unsigned most_frequent(unsigned n, uint64_t *ip)
{
	struct insntrace_targets targets = insntrace_targets(NULL, n);

	return most_of(&targets, ip);
}

static bool goes_to(unsigned n, uint64_t ip)
{
	struct insntrace_targets targets = insntrace_targets(NULL, n);

	return insntrace_times(&targets, ip) > 0;
}

TEST(pt_threads_own, .group = "PT", .ids = "PT45", .needs = NEED_PT,
     .claim = "a thread's buffer holds all of its instructions and no other's, over all CPUs",
     .source = "docs/insntrace.2, INSNTRACE_ASSIGN_THREAD")
{
	uint64_t before = programs_begin(), ip[2] = {0};
	struct process *process[2];

	open(2, 0);
	for (unsigned n = 0; n < 2; n++) {
		process[n] = start(JUMPS_A + n);
		EXPECT_EQ(insntrace_assign_thread(NULL, n, process[n]->task), 0);
	}
	EXPECT_EQ(insntrace_start(NULL), 0);
	for (unsigned n = 0; n < 2; n++)
		process_signal(process[n], SIGCONT);
	for (unsigned i = 0; i < 40; i++) {
		task_set_affinity(process[i % 2]->task, cpu_set_of(i / 2 % cpu_count()));
		task_yield();
	}
	for (unsigned n = 0; n < 2; n++)
		task_set_affinity(process[n]->task, cpu_set_all());
	for (unsigned n = 0; n < 2; n++)
		EXPECT_EQ(program_end(process[n]), WAIT_EXITED(0));
	EXPECT_EQ(insntrace_stop(NULL), 0);
	EXPECT_EQ(most_frequent(0, &ip[0]), 300);
	EXPECT_EQ(most_frequent(1, &ip[1]), 200);
	EXPECT(!goes_to(0, ip[1]) && !goes_to(1, ip[0]));
	EXPECT_EQ(insntrace_traced_cpus(), 0);
	close();
	programs_end(before);
}

static void clear_control(void *argument)
{
	(void)argument;
	pt_off();
}

/* XSAVES clears TraceEn alone, the driver all of IA32_RTIT_CTL. */
static void find_left(void *argument)
{
	atomic_fetch_or((atomic_ulong *)argument, rdmsr(IA32_RTIT_CTL));
}

TEST(pt_threads_by_state, .group = "PT", .ids = "PT43 PT44", .needs = NEED_PT,
     .claim = "a thread's trace is switched by XSAVES and XRSTORS where they have its state",
     .source = "docs/design.md#instructions-by-intel-pt")
{
	uint64_t before = programs_begin(), ip;
	struct process *process;
	atomic_ulong left = 0;

	open(1, 0);
	process = start(JUMPS_B);
	smp_call_all(clear_control, NULL);
	EXPECT_EQ(insntrace_assign_thread(NULL, 0, process->task), 0);
	EXPECT_EQ(insntrace_start(NULL), 0);
	process_signal(process, SIGCONT);
	EXPECT_EQ(program_end(process), WAIT_EXITED(0));
	EXPECT_EQ(insntrace_stop(NULL), 0);
	smp_call_all(find_left, &left);
	EXPECT_EQ(most_frequent(0, &ip), 200);
	EXPECT_EQ(atomic_load(&left),
		  pt_caps()->xsaves ? RTIT_CTL_USER | RTIT_CTL_BRANCH_EN | RTIT_CTL_TOPA : 0);
	close();
	programs_end(before);
}

TEST(pt_threads_inherit, .group = "PT", .ids = "PT45", .needs = NEED_PT,
     .claim = "a child of a traced thread gets a buffer that was asked for it, and none otherwise",
     .source = "docs/insntrace.2, INSNTRACE_INHERIT")
{
	uint64_t before = programs_begin(), ip;
	struct insntrace_allocation allocation;
	struct insntrace_state state;
	struct process *process;

	for (unsigned i = 0; i < 3; i++) {
		unsigned buffers = i == 1 ? 1 : 2;

		open(buffers, i == 2 ? 0 : INSNTRACE_INHERIT);
		process = start(HAS_CHILD);
		EXPECT_EQ(insntrace_assign_thread(NULL, 0, process->task), 0);
		EXPECT_EQ(insntrace_start(NULL), 0);
		process_signal(process, SIGCONT);
		EXPECT_EQ(program_end(process), WAIT_EXITED(0));
		EXPECT_EQ(insntrace_stop(NULL), 0);
		EXPECT_EQ(insntrace_get_allocation(NULL, &allocation), 0);
		EXPECT_EQ(allocation.missed, i == 1);
		EXPECT_EQ(most_frequent(0, &ip), 120);
		if (buffers == 2) {
			EXPECT_EQ(insntrace_get_buffer_state(NULL, 1, &state), 0);
			EXPECT_EQ(!!state.pid, i == 0);
			EXPECT_EQ(most_frequent(1, &ip), i == 0 ? 80 : 0);
		}
		close();
	}
	programs_end(before);
}

/* --- Ranges --- */

/* The target of the most frequent jump of `part`. */
static uint64_t jump_of(enum part part)
{
	struct process *process = start(part);
	uint64_t ip = 0;

	open(1, 0);
	EXPECT_EQ(insntrace_assign_thread(NULL, 0, process->task), 0);
	EXPECT_EQ(insntrace_start(NULL), 0);
	process_signal(process, SIGCONT);
	EXPECT_EQ(program_end(process), WAIT_EXITED(0));
	EXPECT_EQ(insntrace_stop(NULL), 0);
	EXPECT(most_frequent(0, &ip) >= 200);
	close();
	return ip;
}

/* Gives a thread of `part`, which waits, a buffer whose range `n` is `ip`. */
static struct process *start_ranged(enum part part, uint64_t ip, unsigned n, unsigned use)
{
	struct insntrace_config config = config_of_thread(0);
	struct process *process = start(part);
	int descriptor;

	config.control |= RTIT_CTL_ADDR_CFG(n, use);
	config.range[n].first = config.range[n].last = ip;
	descriptor = insntrace_allocate_buffer(NULL, &config, 0);
	REQUIRE(descriptor >= 0);
	EXPECT_EQ(insntrace_assign_thread(NULL, (unsigned)descriptor, process->task), 0);
	return process;
}

/*
 * How often a branch has led thread `n` to `ip`, its range, where the trace begins each time: the
 * next branch leads out. A return from an interrupt that was taken at `ip` is no such branch.
 */
static unsigned times_entered(unsigned n, uint64_t ip)
{
	static uint8_t packets[16 * PAGE_SIZE];
	struct packet_reader reader;
	struct packet packet;
	unsigned times = 0;

	packet_start(&reader, packets, insntrace_copy(NULL, n, 0, packets, sizeof(packets)));
	reader.enabled = PACKETS_UNKNOWN;
	while (packet_next(&reader, &packet)) {
		bool begins = packet.kind == PACKET_TIP_PGE;

		if (begins || packet.kind == PACKET_TIP)
			EXPECT_EQ(packet.value, ip);
		times += begins;
		times -= packet.kind == PACKET_FUP && packet.role == ROLE_SOURCE &&
			 packet.value == ip;
	}
	EXPECT(!reader.error);
	return times;
}

static void run_both(struct process *process[2])
{
	EXPECT_EQ(insntrace_start(NULL), 0);
	for (unsigned n = 0; n < 2; n++)
		process_signal(process[n], SIGCONT);
	for (unsigned i = 0; i < 20; i++) {
		task_set_affinity(process[i % 2]->task, cpu_set_of(i / 2 % cpu_count()));
		task_yield();
	}
	for (unsigned n = 0; n < 2; n++)
		EXPECT_EQ(program_end(process[n]), WAIT_EXITED(0));
	EXPECT_EQ(insntrace_stop(NULL), 0);
}

/* Both have range `n`, and are switched by XSAVES where it can. */
static void run_ranged(const uint64_t ip[2], unsigned n)
{
	struct process *process[2];

	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_THREADS, 2), 0);
	for (unsigned i = 0; i < 2; i++)
		process[i] = start_ranged(JUMPS_A + i, ip[i], n, RTIT_ADDR_FILTER);
	run_both(process);
	for (unsigned i = 0; i < 2; i++)
		EXPECT_EQ(times_entered(i, ip[i]), i ? 200 : 300);
	close();
}

static void set_saved(void *argument)
{
	wrmsr(IA32_XSS, *(const uint64_t *)argument);
}

/* XSAVES and XRSTORS leave Intel PT alone meanwhile. */
static void run_by_msrs(const uint64_t ip[2], unsigned n)
{
	uint64_t saved = rdmsr(IA32_XSS), none = 0;

	smp_call_all(set_saved, &none);
	run_ranged(ip, n);
	smp_call_all(set_saved, &saved);
}

TEST(pt_threads_ranges, .group = "PT", .ids = "PT149", .needs = NEED_PT,
     .claim =
	     "each thread has its own address ranges, which let through one jump of it and nothing "
	     "else, on whatever CPU it runs, by XSAVES and without",
     .source = "docs/insntrace.2, INSNTRACE_ALLOCATE_BUFFER; SDM Vol 3, 36.2.4.3")
{
	uint64_t before = programs_begin(), ip[2] = {0};

	if (!pt_caps()->ranges)
		test_skip("no filter by address");
	for (unsigned i = 0; i < 2; i++)
		ip[i] = jump_of(JUMPS_A + i);
	for (unsigned n = 0; n < pt_caps()->ranges; n++) {
		run_ranged(ip, n);
		if (pt_caps()->xsaves)
			run_by_msrs(ip, n);
	}
	programs_end(before);
}

TEST(pt_threads_range_stops, .group = "PT", .ids = "PT149", .needs = NEED_PT,
     .claim = "a thread's trace that a range has stopped stays so when the thread is switched, and "
	      "another thread's goes on",
     .source = "docs/insntrace.2, INSNTRACE_ALLOCATE_BUFFER; SDM Vol 3, 36.2.4.3")
{
	uint64_t before = programs_begin(), ip[2] = {0};
	struct process *process[2];
	struct insntrace_state state[2];

	if (!pt_caps()->ranges)
		test_skip("no filter by address");
	for (unsigned i = 0; i < 2; i++)
		ip[i] = jump_of(JUMPS_A + i);
	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_THREADS, 2), 0);
	process[0] = start_ranged(JUMPS_A, ip[0], 0, RTIT_ADDR_TRACE_STOP);
	process[1] = start_ranged(JUMPS_B, ip[0], 0, RTIT_ADDR_TRACE_STOP);
	run_both(process);
	for (unsigned i = 0; i < 2; i++)
		EXPECT_EQ(insntrace_get_buffer_state(NULL, i, &state[i]), 0);
	EXPECT_EQ(state[0].flags, INSNTRACE_STOPPED);
	EXPECT_EQ(state[1].flags, 0);
	EXPECT(!goes_to(0, ip[1]));
	EXPECT(most_frequent(0, &ip[0]) <= 1);
	EXPECT_EQ(most_frequent(1, &ip[1]), 200);
	close();
	programs_end(before);
}

/* --- Several sessions --- */

static struct trace_account anybody = {.limit = 16ul << 20}; /* without any right */

/* Lets a program of five rounds of 400 jumps do one, to where it waits again. */
static void do_round(struct process *process)
{
	process_signal(process, SIGCONT);
	EXPECT_EQ(program_await(process, true), WAIT_STOPPED(SIGSTOP));
}

static void open_anybody(const struct process *process, unsigned flags)
{
	struct insntrace_config config = config_of_thread(flags);

	config.chunks += !!(flags & INSNTRACE_STREAM);
	REQUIRE_EQ(insntrace_initialize(&anybody, INSNTRACE_THREADS, 1), 0);
	EXPECT_EQ(insntrace_allocate_buffer(&anybody, &config, 0), 0);
	EXPECT_EQ(insntrace_assign_thread(&anybody, 0, process->task), 0);
	EXPECT_EQ(insntrace_start(&anybody), 0);
}

/* Rounds of which the session of no rights has the jumps; and whether it says that some miss. */
static unsigned rounds_of_anybody(bool *gap)
{
	static uint8_t packets[64 << 10];
	struct insntrace_state state = {0};
	struct insntrace_targets targets;
	unsigned most;
	uint64_t ip;

	EXPECT_EQ(insntrace_stop(&anybody), 0);
	EXPECT_EQ(insntrace_get_buffer_state(&anybody, 0, &state), 0);
	targets = insntrace_targets_of(packets,
				       insntrace_copy(&anybody, 0, 0, packets, sizeof(packets)));
	most = most_of(&targets, &ip);
	*gap = state.flags & INSNTRACE_GAP;
	EXPECT_EQ(most % 400, 0);
	insntrace_owner_ended(&anybody);
	return most / 400;
}

TEST(pt_sessions_cpus_first, .group = "PT", .ids = "PT150", .needs = NEED_PT,
     .claim = "a session of threads keeps no one from a session of CPUS, which has every CPU while "
	      "it is started; the threads' goes on afterwards and says that packets are missing",
     .source = "docs/insntrace.2, Several sessions")
{
	uint64_t before = programs_begin();
	struct insntrace_config config = insntrace_config(1, 6, 0);
	struct process *process = start(ROUNDS);
	bool gap;

	open_anybody(process, 0);
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
	EXPECT_EQ(rounds_of_anybody(&gap), 3);
	EXPECT(gap);
	insntrace_close(NULL);
	process_signal(process, SIGKILL);
	program_end(process);
	programs_end(before);
}

/* Whether so many CPUs are traced before a second has passed. */
static bool are_traced(unsigned cpus)
{
	for (unsigned n = 0; n < 1000 && insntrace_traced_cpus() != cpus; n++)
		task_sleep(1000);
	return insntrace_traced_cpus() == cpus;
}

TEST(pt_sessions_running, .group = "PT", .ids = "PT150", .needs = NEED_PT | NEED_SMP,
     .claim = "a thread that runs gives way when a session of CPUS starts, and goes on when that "
	      "stops, without being switched",
     .source = "docs/insntrace.2, Several sessions")
{
	uint64_t before = programs_begin();
	struct insntrace_config config = insntrace_config(1, 6, 0);
	struct insntrace_state state = {0};
	struct process *process = program_start("spin", 0);

	task_set_affinity(process->task, cpu_set_of(cpu_count() - 1));
	open_anybody(process, INSNTRACE_CIRCULAR);
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
	EXPECT(state.flags & INSNTRACE_GAP);
	insntrace_owner_ended(&anybody);
	process_signal(process, SIGKILL);
	program_end(process);
	programs_end(before);
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
	return most_of(&targets, &ip);
}

TEST(pt_sessions_stream, .group = "PT", .ids = "PT150", .needs = NEED_PT,
     .claim = "the reader of a thread's stream learns at its place that another session had the "
	      "CPU, once, and the stream goes on from there",
     .source = "docs/insntrace.2, Several sessions")
{
	uint64_t before = programs_begin();
	struct insntrace_config config = insntrace_config(1, 6, 0);
	struct process *process;
	bool gap;

	if (!pt_caps()->topa_many)
		test_skip("no table of more than one chunk");
	process = start(ROUNDS);
	open_anybody(process, INSNTRACE_STREAM);
	do_round(process);
	insntrace_open(NULL, &config);
	EXPECT_EQ(insntrace_start(NULL), 0);
	do_round(process);
	insntrace_close(NULL);
	EXPECT_EQ(jumps_to_gap(&gap), 400);
	EXPECT(gap);
	do_round(process);
	EXPECT_EQ(jumps_to_gap(&gap), 400);
	EXPECT(!gap);
	insntrace_owner_ended(&anybody);
	process_signal(process, SIGKILL);
	program_end(process);
	programs_end(before);
}

TEST(pt_sessions_rights_first, .group = "PT", .ids = "PT150", .needs = NEED_PT,
     .claim =
	     "a thread has buffers of several sessions; the owner with more rights gets its packets, "
	     "and the other one learns that some are missing",
     .source = "docs/insntrace.2, Several sessions")
{
	uint64_t before = programs_begin(), ip;
	struct process *process = start(ROUNDS);
	bool gap;

	open_anybody(process, 0);
	do_round(process);
	open(1, 0);
	EXPECT_EQ(insntrace_assign_thread(NULL, 0, process->task), 0);
	EXPECT_EQ(insntrace_start(NULL), 0);
	do_round(process);
	EXPECT_EQ(insntrace_stop(NULL), 0);
	do_round(process);
	EXPECT_EQ(most_frequent(0, &ip), 400);
	close();
	EXPECT_EQ(rounds_of_anybody(&gap), 2);
	EXPECT(gap);
	open_anybody(process, 0);
	do_round(process);
	EXPECT_EQ(rounds_of_anybody(&gap), 1);
	EXPECT(!gap);
	process_signal(process, SIGKILL);
	program_end(process);
	programs_end(before);
}

/* --- The table --- */

enum state { CLOSED, EMPTY, ALLOCATED, ASSIGNED, STARTED, STATES };
enum call { TERMINATE, GET_STATE, FREE, START, STOP, ASSIGN, RELEASE, ALLOCATE, CALLS };

static const int expected[CALLS][STATES] = {
	/*	      CLOSED    EMPTY     ALLOCATED ASSIGNED  STARTED */
	[TERMINATE] = {-EBADFD, 0, 0, -EBADFD, -EBADFD},
	[GET_STATE] = {-EBADFD, -ENXIO, 0, 0, -EBADFD},
	[FREE] = {-EBADFD, -ENXIO, 0, -EBADFD, -EBADFD},
	[START] = {-EBADFD, -EBADFD, -EBADFD, 0, -EBADFD},
	[STOP] = {-EBADFD, -EBADFD, -EBADFD, -EBADFD, 0},
	[ASSIGN] = {-EBADFD, -ENXIO, 0, -EBUSY, -EBUSY},
	[RELEASE] = {-EBADFD, -ENXIO, -EBADFD, 0, 0},
	[ALLOCATE] = {-EBADFD, 0, 1, 1, -EBADFD},
};

static void enter(enum state state, struct task *task)
{
	if (state == CLOSED)
		return;
	if (state == EMPTY)
		REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_THREADS, 2), 0);
	else
		open(2, 0);
	if (state > EMPTY)
		EXPECT_EQ(insntrace_free_buffer(NULL, 1), 0);
	if (state >= ASSIGNED)
		EXPECT_EQ(insntrace_assign_thread(NULL, 0, task), 0);
	if (state == STARTED)
		EXPECT_EQ(insntrace_start(NULL), 0);
}

static int perform(enum call call, struct task *task)
{
	struct insntrace_config config = config_of_thread(0);
	struct insntrace_state state;

	switch (call) {
	case TERMINATE:
		return insntrace_terminate(NULL);
	case GET_STATE:
		return insntrace_get_buffer_state(NULL, 0, &state);
	case FREE:
		return insntrace_free_buffer(NULL, 0);
	case START:
		return insntrace_start(NULL);
	case STOP:
		return insntrace_stop(NULL);
	case ASSIGN:
		return insntrace_assign_thread(NULL, 0, task);
	case RELEASE:
		return insntrace_release_thread(NULL, 0);
	case ALLOCATE:
		return insntrace_allocate_buffer(NULL, &config, 0);
	case CALLS:
		break;
	}
	return 0;
}

static void expect_state(enum state state, const struct task *task)
{
	struct insntrace_allocation allocation = {0};
	struct insntrace_config config;

	EXPECT_EQ(insntrace_get_allocation(NULL, &allocation), state == CLOSED ? -EBADFD : 0);
	EXPECT_EQ(allocation.started, state == STARTED);
	if (state != CLOSED)
		EXPECT_EQ(insntrace_get_buffer_config(NULL, 0, &config),
			  state == EMPTY ? -ENXIO : 0);
	EXPECT_EQ(task->trace != NULL, state >= ASSIGNED);
}

TEST(pt_threads_table, .group = "PT", .ids = "PT49", .needs = NEED_PT,
     .claim =
	     "a call in the wrong order has its status and changes nothing, where threads are traced",
     .source = "docs/insntrace.2, Life cycle")
{
	PROGRAMS(before);
	struct process *process = start(JUMPS_A);

	for (enum state state = CLOSED; state < STATES; state++)
		for (enum call call = TERMINATE; call < CALLS; call++) {
			int result;

			enter(state, process->task);
			expect_state(state, process->task);
			result = perform(call, process->task);
			if (result != expected[call][state])
				test_note("call %u in state %u", call, state);
			EXPECT_EQ(result, expected[call][state]);
			if (result < 0)
				expect_state(state, process->task);
			close();
			expect_state(CLOSED, process->task);
		}
	process_signal(process, SIGKILL);
	program_end(process);
}

TEST(pt_threads_refusals, .group = "PT", .ids = "PT53", .needs = NEED_PT,
     .claim = "where threads are traced filters by privilege and CR3 are refused, and ranges that "
	      "the processor does not have; a thread has one buffer of a session",
     .source = "docs/insntrace.2, ERRORS")
{
	static const uint64_t filters[] = {RTIT_CTL_OS, RTIT_CTL_CR3_FILTER};
	PROGRAMS(before);
	struct process *process = start(JUMPS_A), *other = start(JUMPS_B);
	struct insntrace_config config = config_of_thread(0);

	EXPECT_EQ(insntrace_initialize(NULL, INSNTRACE_THREADS, 0), -EINVAL);
	EXPECT_EQ(insntrace_initialize(NULL, INSNTRACE_THREADS, INSNTRACE_TRACES_MOST + 1),
		  -EINVAL);
	open(2, 0);
	EXPECT_EQ(insntrace_free_buffer(NULL, 1), 0);
	for (unsigned n = 0; n < sizeof(filters) / sizeof(filters[0]); n++) {
		config.control = RTIT_CTL_BRANCH_EN | filters[n];
		EXPECT_EQ(insntrace_allocate_buffer(NULL, &config, 0), -EOPNOTSUPP);
	}
	if (pt_caps()->ranges < PT_RANGES_MOST) {
		config.control =
			RTIT_CTL_BRANCH_EN | RTIT_CTL_ADDR_CFG(pt_caps()->ranges, RTIT_ADDR_FILTER);
		EXPECT_EQ(insntrace_allocate_buffer(NULL, &config, 0), -EOPNOTSUPP);
	}
	config.control = RTIT_CTL_BRANCH_EN;
	EXPECT_EQ(insntrace_allocate_buffer(NULL, &config, 0), 1);
	EXPECT_EQ(insntrace_assign_thread(NULL, 2, process->task), -EINVAL);
	EXPECT_EQ(insntrace_assign_thread(NULL, 0, process->task), 0);
	EXPECT_EQ(insntrace_assign_thread(NULL, 1, process->task), -EBUSY);
	EXPECT_EQ(insntrace_assign_thread(NULL, 0, other->task), -EBUSY);
	process_signal(other, SIGKILL);
	program_await(other, false);
	EXPECT_EQ(insntrace_assign_thread(NULL, 1, other->task), -ESRCH);
	EXPECT_EQ(insntrace_release_thread(NULL, 1), -EBADFD);
	process_put(other);
	close();
	process_signal(process, SIGKILL);
	program_end(process);
}

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
	REQUIRE_EQ(bts_attach_cpu(0, &options, &tracer), 0);
	EXPECT_EQ(trace_holder(TRACE_BTS), self);
	error = insntrace_initialize(NULL, INSNTRACE_CPUS, cpu_count());
	EXPECT_EQ(error, excludes ? -EBUSY : 0);
	if (!error)
		EXPECT_EQ(insntrace_terminate(NULL), 0);
	trace_detach(tracer);
	EXPECT_EQ(trace_holder(TRACE_BTS), -ENXIO);
	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_CPUS, cpu_count()), 0);
	EXPECT_EQ(trace_holder(TRACE_PT), self);
	EXPECT_EQ(bts_attach_cpu(0, &options, &tracer), excludes ? -EBUSY : 0);
	if (!excludes)
		trace_detach(tracer);
	EXPECT_EQ(bts_attach(current_task(), &options, &tracer), excludes ? -EBUSY : 0);
	if (!excludes)
		trace_detach(tracer);
	EXPECT_EQ(insntrace_terminate(NULL), 0);
	EXPECT_EQ(trace_holder(TRACE_PT), -ENXIO);
	REQUIRE_EQ(bts_attach_cpu(0, &options, &tracer), 0);
	trace_detach(tracer);
}
