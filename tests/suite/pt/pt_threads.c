// SPDX-License-Identifier: MIT
// A session that traces threads.
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/programs.h"
#include "tests/lib/pt_decode.h"

#define IA32_XSS 0xda0u

/* Of tests/user/insntrace.c. */
enum part { JUMPS_A = 7, JUMPS_B, HAS_CHILD };

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

/* Times that the packets of buffer `n` go to their most frequent target, `*ip`. */
static unsigned most_frequent(unsigned n, uint64_t *ip)
{
	struct insntrace_targets targets = insntrace_targets(NULL, n);

	return insntrace_most(&targets, ip);
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
		test_keep_on(process[i % 2]->task, i / 2 % cpu_count());
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

	/* None is left; the second was not to be inherited; a thread had it, and has it no more. */
	for (unsigned i = 0; i < 4; i++) {
		unsigned buffers = i == 1 ? 1 : 2;
		int error = 0;

		open(buffers, i == 2 ? 0 : INSNTRACE_INHERIT);
		process = start(HAS_CHILD);
		EXPECT_EQ(insntrace_assign_thread(NULL, 0, process->task), 0);
		EXPECT_EQ(insntrace_start(NULL), 0);
		if (i == 3)
			error = insntrace_assign_thread(NULL, 1, current_task()) |
				insntrace_release_thread(NULL, 1);
		process_signal(process, SIGCONT);
		EXPECT_EQ(program_end(process), WAIT_EXITED(0));
		EXPECT_EQ(insntrace_stop(NULL), 0);
		EXPECT_EQ(insntrace_get_allocation(NULL, &allocation), 0);
		EXPECT_EQ(allocation.missed, i & 1);
		EXPECT_EQ(most_frequent(0, &ip), 120);
		if (buffers == 2) {
			EXPECT_EQ(insntrace_get_buffer_state(NULL, 1, &state), 0);
			EXPECT_EQ(!!state.pid, i == 0);
			EXPECT_EQ(most_frequent(1, &ip), i == 0 ? 80 : 0);
		}
		error |= insntrace_start(NULL) | insntrace_get_allocation(NULL, &allocation);
		EXPECT(!error && !allocation.missed);
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

		if (packet.kind == PACKET_OVF)
			test_disturbed();
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
		test_keep_on(process[i % 2]->task, i / 2 % cpu_count());
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

TEST(pt_threads_ranges, .group = "PT", .ids = "PT151", .needs = NEED_PT,
     .claim =
	     "each thread has its own address ranges, which let through one jump of it and nothing "
	     "else, on whatever CPU it runs, by XSAVES and without",
     .source = "docs/insntrace.2, INSNTRACE_ALLOCATE_BUFFER; SDM Vol 3, 36.2.4")
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

TEST(pt_threads_range_stops, .group = "PT", .ids = "PT151", .needs = NEED_PT,
     .claim = "a thread's trace that a range has stopped stays so when the thread is switched, and "
	      "another thread's goes on",
     .source = "docs/insntrace.2, INSNTRACE_ALLOCATE_BUFFER; SDM Vol 3, 36.2.4")
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
