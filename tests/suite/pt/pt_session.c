// SPDX-License-Identifier: MIT
// The life cycle of a session that traces every CPU: which call is allowed when, what a failure
// leaves, what a buffer holds; packets that are read while they are written.
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/trace/memory.h"
#include "kernel/trace/trace.h"
#include "lib/string.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/programs.h"
#include "tests/lib/pt_decode.h"

/* --- The table --- */

enum state { CLOSED, EMPTY, PARTLY, READY, STARTED, STATES };

enum call {
	INITIALIZE,
	TERMINATE,
	GET_ALLOCATION,
	ALLOCATE,
	GET_CONFIG,
	GET_STATE,
	READ,
	FREE,
	START,
	STOP,
	CALLS
};

static const char *const call_names[CALLS] = {
	"initialize",	    "terminate",   "get_allocation", "allocate_buffer", "get_buffer_config",
	"get_buffer_state", "read_buffer", "free_buffer",    "start",		"stop"};

/* Of descriptor 0. PARTLY: with one CPU that is READY. */
static const int expected[CALLS][STATES] = {
	/*		   CLOSED    EMPTY     PARTLY    READY     STARTED */
	[INITIALIZE] = {0, -EBADFD, -EBADFD, -EBADFD, -EBADFD},
	[TERMINATE] = {-EBADFD, 0, 0, 0, -EBADFD},
	[GET_ALLOCATION] = {-EBADFD, 0, 0, 0, 0},
	[ALLOCATE] = {-EBADFD, 0, 1, -ENOSPC, -EBADFD},
	[GET_CONFIG] = {-EBADFD, -ENXIO, 0, 0, 0},
	[GET_STATE] = {-EBADFD, -ENXIO, 0, 0, -EBADFD},
	[READ] = {-EBADFD, -ENXIO, 0, 0, -EBADFD},
	[FREE] = {-EBADFD, -ENXIO, 0, 0, -EBADFD},
	[START] = {-EBADFD, -EBADFD, -EBADFD, 0, -EBADFD},
	[STOP] = {-EBADFD, -EBADFD, -EBADFD, -EBADFD, 0},
};

static struct insntrace_config config_of_table(void)
{
	return insntrace_config(2, 0, INSNTRACE_CIRCULAR);
}

static void enter(enum state state)
{
	struct insntrace_config config = config_of_table();
	unsigned buffers = state == PARTLY ? 1 : state > PARTLY ? cpu_count() : 0;

	if (state == CLOSED)
		return;
	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_CPUS, cpu_count()), 0);
	for (unsigned n = 0; n < buffers; n++)
		EXPECT_EQ(insntrace_allocate_buffer(NULL, &config, 0), n);
	if (state == STARTED)
		EXPECT_EQ(insntrace_start(NULL), 0);
}

static int perform(enum call call, struct trace_account *owner, unsigned descriptor)
{
	struct insntrace_config config = config_of_table();
	struct insntrace_allocation allocation;
	struct insntrace_state state;
	const void *from;
	size_t bytes = 1;

	switch (call) {
	case INITIALIZE:
		return insntrace_initialize(owner, INSNTRACE_CPUS, cpu_count());
	case TERMINATE:
		return insntrace_terminate(owner);
	case GET_ALLOCATION:
		return insntrace_get_allocation(owner, &allocation);
	case ALLOCATE:
		return insntrace_allocate_buffer(owner, &config, 0);
	case GET_CONFIG:
		return insntrace_get_buffer_config(owner, descriptor, &config);
	case GET_STATE:
		return insntrace_get_buffer_state(owner, descriptor, &state);
	case READ:
		return insntrace_read_buffer(owner, descriptor, 0, &from, &bytes);
	case FREE:
		return insntrace_free_buffer(owner, descriptor);
	case START:
		return insntrace_start(owner);
	case STOP:
		return insntrace_stop(owner);
	case CALLS:
		break;
	}
	return 0;
}

/* The session is in that state, and in no other. */
static void expect_state(enum state state)
{
	unsigned buffers = state == PARTLY ? 1 : state > PARTLY ? cpu_count() : 0;
	struct insntrace_config config, good = config_of_table();
	struct insntrace_allocation allocation;

	EXPECT_EQ(insntrace_get_allocation(NULL, &allocation), state == CLOSED ? -EBADFD : 0);
	for (unsigned n = 0; state != CLOSED && n < cpu_count(); n++) {
		int result = insntrace_get_buffer_config(NULL, n, &config);

		EXPECT_EQ(result, n < buffers ? 0 : -ENXIO);
		EXPECT(result || !memcmp(&config, &good, sizeof(good)));
	}
	EXPECT_EQ(insntrace_traced_cpus(), state == STARTED ? cpu_count() : 0);
}

TEST(pt_session_table, .group = "PT", .ids = "PT49 PT51", .needs = NEED_PT,
     .claim = "a call in the wrong order has its status and changes nothing",
     .source = "include/abi/insntrace.h")
{
	struct trace_account other = {.limit = 1 << 20};

	for (enum state state = CLOSED; state < STATES; state++) {
		if (state == PARTLY && cpu_count() == 1)
			continue;
		for (enum call call = INITIALIZE; call < CALLS; call++) {
			int result;

			enter(state);
			EXPECT_EQ(perform(call, &other, 0) < 0 || state == CLOSED, true);
			if (state == CLOSED)
				insntrace_terminate(&other);
			result = perform(call, NULL, 0);
			if (result != expected[call][state])
				test_note("%s in state %u", call_names[call], state);
			EXPECT_EQ(result, expected[call][state]);
			if (result < 0)
				expect_state(state);
			insntrace_stop(NULL);
			insntrace_terminate(NULL);
		}
	}
	expect_state(CLOSED);
	EXPECT_EQ(other.used, 0);
}

/* --- Streams --- */

enum { CHUNKS = 2, PAGES = 16 };

static struct {
	uint8_t *bytes;
	size_t count;
} got;

static struct insntrace_config config_of_stream(void)
{
	struct insntrace_config config = insntrace_config(CHUNKS, 0, INSNTRACE_STREAM);

	if (!pt_caps()->topa_many)
		test_skip("a table of one chunk");
	got.bytes = test_area(PAGES);
	got.count = 0;
	return config;
}

/* Reads at most `most` bytes. */
static int read_once(unsigned descriptor, size_t most, size_t *bytes)
{
	const void *from;
	int error;

	*bytes = most;
	error = insntrace_read_stream(NULL, descriptor, &from, bytes);
	if (error)
		return error;
	if (got.count + *bytes > PAGES * PAGE_SIZE) {
		insntrace_close(NULL);
		test_error("more than %zu bytes", got.count);
	}
	memcpy(got.bytes + got.count, from, *bytes);
	EXPECT_EQ(insntrace_take_stream(NULL, descriptor, *bytes), 0);
	got.count += *bytes;
	return 0;
}

/* Reads what there is, `most` bytes at a time, up to a gap. */
static size_t drain(unsigned descriptor, size_t most)
{
	size_t before = got.count, bytes;
	int error;

	do
		error = read_once(descriptor, most, &bytes);
	while (!error && bytes);
	EXPECT(!error || error == -EPIPE);
	return got.count - before;
}

/* With its read, which is traced as well, less than a chunk, however long packets are: an address
   of nine bytes, and as many again of what the manual lets a processor add. */
enum { BURST = 60, MOST_OF_JUMP = 27 };

/* A read after each burst: all of it arrives, while it goes on, three times through the buffer. */
static void stream(bool nmi)
{
	enum { ENOUGH = 3 * CHUNKS * PAGE_SIZE };
	struct insntrace_config config = config_of_stream();
	struct insntrace_targets targets;
	struct insntrace_state state;
	unsigned jumps = 0, reads = 0;
	uint64_t target = 0;

	test_pin();
	trace_deliver_pmi(nmi);
	insntrace_open(NULL, &config);
	EXPECT_EQ(insntrace_start(NULL), 0);
	for (; got.count < ENOUGH && jumps < ENOUGH; jumps += BURST) {
		target = insntrace_jump(BURST);
		reads += drain(this_cpu()->index, 3000) > 0;
	}
	EXPECT_EQ(insntrace_stop(NULL), 0);
	drain(this_cpu()->index, 5000);
	trace_deliver_pmi(true);
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & TRACE_TOPA_PMI, 0);
	EXPECT_EQ(insntrace_get_buffer_state(NULL, this_cpu()->index, &state), 0);
	insntrace_close(NULL);
	targets = insntrace_targets_of(got.bytes, got.count);
	if (!targets.lost || insntrace_times(&targets, target) > jumps)
		EXPECT_EQ(insntrace_times(&targets, target), jumps);
	EXPECT(reads >= 2 && got.count > CHUNKS * PAGE_SIZE);
	EXPECT_EQ(state.capture_end, got.count);
	EXPECT_EQ(state.available, 0);
	EXPECT_EQ(state.flags & INSNTRACE_GAP, 0);
}

TEST(pt_stream_nmi, .group = "PT", .ids = "PT40 PT41", .needs = NEED_PT,
     .claim = "with a read after each interrupt, an NMI, no packet is lost and none arrives twice",
     .source = "docs/insntrace.2, INSNTRACE_STREAM")
{
	stream(true);
}

TEST(pt_stream_fixed, .group = "PT", .ids = "PT40 PT41", .needs = NEED_PT,
     .claim = "with a read after each interrupt, by a fixed vector, no packet is lost and none "
	      "arrives twice",
     .source = "docs/insntrace.2, INSNTRACE_STREAM")
{
	stream(false);
}

/* The first PSB from `at` on, where packets begin; it has to be there before a branch is, but may
   be after TIP.PGE. */
static size_t find_psb(size_t at)
{
	struct packet_reader reader;
	struct packet packet;

	packet_start(&reader, got.bytes + at, got.count - at);
	while (packet_next(&reader, &packet) && packet.kind != PACKET_TNT &&
	       packet.kind != PACKET_TIP)
		if (packet.kind == PACKET_PSB)
			return at + packet.at;
	EXPECT(false && "there is a PSB first");
	return at;
}

/* At a gap: it is said until it is taken, and then no more. */
static void pass_gap(unsigned descriptor)
{
	const void *from;
	size_t bytes = 1;

	for (unsigned i = 0; i < 2; i++)
		EXPECT_EQ(insntrace_read_stream(NULL, descriptor, &from, &bytes), -EPIPE);
	EXPECT_EQ(insntrace_take_stream(NULL, descriptor, 0), 0);
	EXPECT_EQ(insntrace_read_stream(NULL, descriptor, &from, &bytes), 0);
}

TEST(pt_stream_behind, .group = "PT", .ids = "PT36 PT41", .needs = NEED_PT,
     .claim = "a reader that is late finds the oldest packets, a gap that is marked, then new ones",
     .source = "docs/insntrace.2, INSNTRACE_STREAM")
{
	struct insntrace_config config = config_of_stream();
	struct insntrace_targets targets;
	struct insntrace_state state;
	uint64_t target;
	size_t first;

	test_pin();
	insntrace_open(NULL, &config);
	EXPECT_EQ(insntrace_start(NULL), 0);
	target = insntrace_jump(4000);
	first = drain(this_cpu()->index, 5000);
	EXPECT_EQ(first, CHUNKS * PAGE_SIZE);
	pass_gap(this_cpu()->index);
	insntrace_jump(BURST);
	EXPECT_EQ(insntrace_stop(NULL), 0);
	drain(this_cpu()->index, 5000);
	EXPECT_EQ(insntrace_get_buffer_state(NULL, this_cpu()->index, &state), 0);
	insntrace_close(NULL);
	EXPECT(state.flags & INSNTRACE_GAP);
	EXPECT_EQ(state.available, 0);
	first = find_psb(CHUNKS * PAGE_SIZE);
	targets = insntrace_targets_of(got.bytes + first, got.count - first);
	EXPECT_EQ(insntrace_times(&targets, target), BURST);
	find_psb(0);
}

TEST(pt_stream_gaps, .group = "PT", .ids = "PT36 PT41", .needs = NEED_PT,
     .claim = "a reader that is late finds each gap marked where it is, and has whole packets from "
	      "a PSB on after it",
     .source = "docs/insntrace.2, INSNTRACE_READ_STREAM")
{
	enum { ROUNDS = 5, JUMPS = 4000 };
	struct insntrace_config config = config_of_stream();
	size_t start[ROUNDS + 1] = {0}, bytes;
	struct insntrace_targets targets;
	uint64_t target = 0;

	test_pin();
	insntrace_open(NULL, &config);
	EXPECT_EQ(insntrace_start(NULL), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		target = insntrace_jump(JUMPS);
		EXPECT_EQ(read_once(this_cpu()->index, PAGE_SIZE, &bytes), 0);
		insntrace_jump(JUMPS); /* there is room, and the gap was not told yet */
		drain(this_cpu()->index, 1000);
		start[round + 1] = got.count;
		pass_gap(this_cpu()->index);
	}
	EXPECT_EQ(insntrace_stop(NULL), 0);
	insntrace_close(NULL);
	for (unsigned round = 0; round < ROUNDS; round++) {
		size_t psb = find_psb(start[round]);

		EXPECT_EQ(start[round + 1] - start[round], CHUNKS * PAGE_SIZE);
		targets = insntrace_targets_of(got.bytes + psb, start[round + 1] - psb);
		EXPECT(insntrace_times(&targets, target) > CHUNKS * PAGE_SIZE / MOST_OF_JUMP / 2);
	}
}

TEST(pt_stream_thread, .group = "PT", .ids = "PT41 PT45", .needs = NEED_PT,
     .claim = "a thread's packets are read while it runs, on whatever CPU, all of them once",
     .source = "docs/insntrace.2, INSNTRACE_STREAM")
{
	struct insntrace_config config = config_of_stream();
	PROGRAMS(before);
	struct process *process = program_start("insntrace", 10);
	struct insntrace_targets targets;
	unsigned most = 0, reads = 0;

	config.control = RTIT_CTL_BRANCH_EN;
	config.chunks = 4;
	program_await(process, true);
	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_THREADS, 1), 0);
	EXPECT_EQ(insntrace_allocate_buffer(NULL, &config, 0), 0);
	EXPECT_EQ(insntrace_assign_thread(NULL, 0, process->task), 0);
	EXPECT_EQ(insntrace_start(NULL), 0);
	for (unsigned round = 0; round < 5; round++) {
		test_keep_on(process->task, round % cpu_count());
		process_signal(process, SIGCONT);
		program_await(process, true);
		reads += drain(0, 3000) > 0;
	}
	EXPECT_EQ(program_end(process), WAIT_EXITED(0));
	EXPECT_EQ(insntrace_stop(NULL), 0);
	drain(0, 3000);
	insntrace_owner_ended(NULL);
	targets = insntrace_targets_of(got.bytes, got.count);
	for (size_t i = 0; i < targets.count; i++)
		most = targets.target[i].times > most ? targets.target[i].times : most;
	EXPECT(reads >= 1 && got.count > PAGE_SIZE);
	EXPECT_EQ(most, 5 * 400);
	EXPECT(!targets.kernel);
}

TEST(pt_stream_refused, .group = "PT", .ids = "PT53", .needs = NEED_PT,
     .claim = "a stream needs two chunks and does not wrap, and is read as a stream only",
     .source = "docs/insntrace.2, ERRORS")
{
	struct insntrace_config good = config_of_stream(), bad = good;
	const void *from;
	size_t bytes = 1;

	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_CPUS, cpu_count()), 0);
	bad.chunks = 1;
	EXPECT_EQ(insntrace_allocate_buffer(NULL, &bad, 0), -EINVAL);
	bad = good;
	bad.flags |= INSNTRACE_CIRCULAR;
	EXPECT_EQ(insntrace_allocate_buffer(NULL, &bad, 0), -EINVAL);
	EXPECT_EQ(insntrace_read_stream(NULL, 0, &from, &bytes), -ENXIO);
	EXPECT_EQ(insntrace_allocate_buffer(NULL, &good, 0), 0);
	EXPECT_EQ(insntrace_read_buffer(NULL, 0, 0, &from, &bytes), -EINVAL);
	EXPECT_EQ(insntrace_free_buffer(NULL, 0), 0);
	bad.flags = INSNTRACE_CIRCULAR;
	EXPECT_EQ(insntrace_allocate_buffer(NULL, &bad, 0), 0);
	EXPECT_EQ(insntrace_read_stream(NULL, 0, &from, &bytes), -EINVAL);
	EXPECT_EQ(insntrace_take_stream(NULL, 0, 0), -EINVAL);
	insntrace_close(NULL);
	EXPECT_EQ(insntrace_read_stream(NULL, 0, &from, &bytes), -EBADFD);
}
