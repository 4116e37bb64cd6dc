// SPDX-License-Identifier: MIT
// Packets that are read while they are written.
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/sched/sched.h"
#include "kernel/trace/trace.h"
#include "lib/string.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/programs.h"
#include "tests/lib/pt_decode.h"

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
     .claim = "the same where the interrupt is a fixed vector, which may wait over two chunks",
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
     .claim =
	     "a reader that is behind finds the oldest packets, a gap that is marked, then new ones",
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
     .claim =
	     "a reader that is behind is told of each gap where it is, and has whole packets from a "
	     "PSB on after it",
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
	uint64_t before = programs_begin();
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
		task_set_affinity(process->task, cpu_set_of(round % cpu_count()));
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
	programs_end(before);
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
