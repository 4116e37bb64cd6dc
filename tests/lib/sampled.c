// SPDX-License-Identifier: MIT
#include "tests/lib/sampled.h"

#include "drivers/ds/pebs.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"

enum { JUMPS = 48, JUMP = 2, LOAD = 3, DEC = 3, LOOP = 6, SYSCALL = 2 };
enum { LOAD_AT = JUMPS * JUMP, DEC_AT = LOAD_AT + LOAD, LOOP_AT = DEC_AT + DEC };
enum { SYSCALL_AT = LOOP_AT + LOOP, END = SYSCALL_AT + SYSCALL };

/* Of measuring the skid; a tracer's shortest period. */
enum { FIRST = 10, LAST = JUMPS - 2, MOST_SKID = 64, LEAST_PERIOD = 2 };

#define START 0x28000000ul

/* JMP to the next; MOV (%RSI), %RAX; DEC %RCX; JNZ to the first; SYSCALL. */
static void write_code(uint8_t *page)
{
	static const uint8_t rest[] = {0x48, 0x8b, 0x06, 0x48, 0xff, 0xc9, 0x0f, 0x85};
	int32_t back = -SYSCALL_AT;

	for (unsigned i = 0; i < JUMPS; i++) {
		page[i * JUMP] = 0xeb;
		page[i * JUMP + 1] = 0;
	}
	memcpy(page + LOAD_AT, rest, sizeof(rest));
	memcpy(page + LOOP_AT + 2, &back, sizeof(back));
	page[SYSCALL_AT] = 0x0f;
	page[SYSCALL_AT + 1] = 0x05;
}

static void visit(struct sampled *sampled)
{
	struct trap_frame frame = {.rip = sampled->start,
				   .rcx = SAMPLED_ROUNDS,
				   .rsi = sampled->start,
				   .r8 = sampled->visited};

	do {
		struct pending pending;

		if (sampled->interrupted)
			pending_raise(&pending);
		user_run(&frame);
		if (sampled->interrupted)
			pending_settle();
		atomic_store(&current_task()->user_break, false);
		while (sampled->held && trace_is_held(sampled->held))
			task_sleep(100);
	} while (frame.vector != VECTOR_SYSCALL);
}

static void make_visits(void *argument)
{
	struct sampled *sampled = argument;

	while (sampled->visited < sampled->visits) {
		visit(sampled);
		sampled->visited++;
		if (sampled->between)
			sampled->between(sampled);
	}
}

void sampled_open(struct sampled *sampled)
{
	uint8_t *page = test_area(1);

	write_code(page);
	sampled->start = START + sampled->number * PAGE_SIZE;
	sampled->visited = 0;
	code_map(sampled->start, page, VM_USER);
	sampled->task = test_task("sampled", make_visits, sampled);
}

struct tracer *sampled_open_traced(struct sampled *sampled, const struct pebs_options *options)
{
	struct tracer *tracer = NULL;

	sampled_open(sampled);
	REQUIRE_EQ(pebs_attach(sampled->task, 0, options, &tracer), 0);
	return tracer;
}

void sampled_run(struct sampled *sampled)
{
	task_start(sampled->task);
	task_join(sampled->task);
}

/* A task that never ran keeps its memory. */
void sampled_close(struct sampled *sampled)
{
	if (!sampled->task->ended)
		sampled_run(sampled);
	test_task_put(sampled->task);
	code_unmap(sampled->start);
}

enum sampled_kind sampled_portable(void)
{
	return ds_caps()->pebs_format ? SAMPLED_BRANCHES : SAMPLED_INSTRUCTIONS;
}

static struct pebs_options options_of(enum sampled_kind kind, uint64_t period, size_t samples)
{
	static const unsigned events[] = {
		[SAMPLED_BRANCHES] = PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES,
		[SAMPLED_INSTRUCTIONS] = PTRACE_PEBS_INST_RETIRED,
		[SAMPLED_LOADS] = PTRACE_PEBS_MEM_INST_RETIRED_ALL_LOADS,
	};

	return (struct pebs_options){
		.event = events[kind],
		.period = period,
		.view = TRACE_USER,
		.privileged = true,
		.overflow = TRACE_STOP,
		.size = samples * sizeof(struct ptrace_pebs_sample),
	};
}

static uint64_t events_of_round(enum sampled_kind kind)
{
	static const uint64_t events[] = {
		[SAMPLED_BRANCHES] = JUMPS + 1,
		[SAMPLED_INSTRUCTIONS] = JUMPS + 3,
		[SAMPLED_LOADS] = 1,
	};

	return events[kind];
}

uint64_t sampled_events(enum sampled_kind kind)
{
	return SAMPLED_ROUNDS * events_of_round(kind) + (kind != SAMPLED_LOADS);
}

/* The instruction of event `n` of a round, from the start of the code. */
static uint64_t offset_of(enum sampled_kind kind, uint64_t n)
{
	static const uint8_t rest[] = {LOAD_AT, DEC_AT, LOOP_AT};

	if (kind == SAMPLED_LOADS)
		return LOAD_AT;
	if (n < JUMPS)
		return n * JUMP;
	return kind == SAMPLED_BRANCHES ? LOOP_AT : rest[n - JUMPS];
}

static uint64_t next_offset(uint64_t offset, bool last_round)
{
	if (offset < LOAD_AT)
		return offset + JUMP;
	if (offset == LOOP_AT)
		return last_round ? SYSCALL_AT : 0;
	return offset == LOAD_AT ? DEC_AT : LOOP_AT;
}

struct sampled_place sampled_place(const struct sampled *sampled, enum sampled_kind kind,
				   uint64_t n)
{
	uint64_t in_visit = n % sampled_events(kind), round = in_visit / events_of_round(kind);
	uint64_t offset = offset_of(kind, in_visit % events_of_round(kind));
	bool last = round == SAMPLED_ROUNDS - 1;
	struct sampled_place place = {.visit = n / sampled_events(kind)};

	place.call = round == SAMPLED_ROUNDS;
	place.event_ip = sampled->start + (place.call ? SYSCALL_AT : offset);
	if (place.call)
		return place;
	place.ip = sampled->start + next_offset(offset, last);
	place.rcx = SAMPLED_ROUNDS - round - (offset >= DEC_AT);
	place.taken = offset < LOAD_AT || (offset == LOOP_AT && !last);
	place.edge = place.visit * (SAMPLED_ROUNDS * (JUMPS + 1) - 1) + round * (JUMPS + 1) +
		     (offset < LOAD_AT ? offset / JUMP : JUMPS);
	return place;
}

/* Where a record has the IP of the instruction itself the kernel knows no other. */
static bool is_at(const struct ptrace_pebs_sample *sample, const struct sampled_place *place)
{
	bool has = sample->has & PTRACE_PEBS_HAS_IP;

	return has != ds_caps()->pebs_fault && sample->ip == (has ? place->ip : 0);
}

static bool has_no_state(const struct ptrace_pebs_sample *sample)
{
	return !(sample->has & (PTRACE_PEBS_HAS_IP | PTRACE_PEBS_HAS_REGISTERS)) && !sample->ip &&
	       !sample->general[1];
}

/* After the call the state is the kernel's, where it is that after the instruction. */
static bool is_call(const struct ptrace_pebs_sample *sample)
{
	return ds_caps()->pebs_fault || has_no_state(sample);
}

static bool is_as_expected(const struct ptrace_pebs_sample *sample,
			   const struct sampled_place *place, uint64_t start)
{
	if (sample->has & PTRACE_PEBS_HAS_EVENT_IP && sample->event_ip != place->event_ip)
		return false;
	if (place->call)
		return is_call(sample);
	if (!(ds_sample_has() & DS_SAMPLE_REGISTERS))
		return has_no_state(sample);
	return is_at(sample, place) && sample->general[1] == place->rcx &&
	       sample->general[6] == start && sample->general[8] == place->visit;
}

/* The first sample of one visit, of which there may be none. */
static bool sample_once(struct sampled *sampled, const struct pebs_options *options,
			struct ptrace_pebs_sample *sample)
{
	struct tracer *tracer;
	size_t count = 0;

	sampled_open(sampled);
	if (!pebs_attach(sampled->task, 0, options, &tracer)) {
		sampled_run(sampled);
		count = pebs_read(tracer, sample, 1);
		EXPECT(trace_detach(tracer));
	}
	sampled_close(sampled);
	return count;
}

/* Of most samples the delay is another one than the least: SDM Vol 3, 18.9.4.4, does not say that
   it is the same each time. */
static bool skid_varies;

/* An interrupt may make one sample late, or two, not most of five at either place: among the jumps,
   and before the end of a round. */
static uint64_t measure_skid(void)
{
	enum { TURNS = 10 };
	enum sampled_kind kind = sampled_portable();
	uint64_t least = 0, skids[TURNS];
	unsigned later = 0;

	for (unsigned turn = 0; turn < TURNS; turn++) {
		struct sampled sampled = {.number = 31, .visits = 1};
		struct ptrace_pebs_sample sample = {.has = 0};
		struct sampled_place place;
		uint64_t first = turn % 2 ? LAST : FIRST, skid = 0;
		struct pebs_options options = options_of(kind, first, 1);

		if (!sample_once(&sampled, &options, &sample))
			return 0;
		do
			place = sampled_place(&sampled, kind, first + skid);
		while (!is_as_expected(&sample, &place, sampled.start) && ++skid < MOST_SKID);
		skids[turn] = skid;
		least = turn && least < skid ? least : skid;
	}
	for (unsigned turn = 0; turn < TURNS; turn++)
		later += skids[turn] > least;
	skid_varies = later >= TURNS / 2;
	return least == MOST_SKID ? 0 : least;
}

uint64_t sampled_skid(void)
{
	static bool known;
	static uint64_t skid;

	if (!known)
		skid = measure_skid();
	known = true;
	return skid;
}

struct pebs_options sampled_options(enum sampled_kind kind, uint64_t period, size_t samples)
{
	uint64_t skid = sampled_skid();

	return options_of(kind, period >= skid + LEAST_PERIOD ? period - skid : LEAST_PERIOD,
			  samples);
}

/*
 * One sample, of the last event of a visit that is interrupted: that is the system call, or the
 * branch before it. Where the interrupt counts, or the way into ring 3, other events are before it.
 * Of the latter a skid was measured as one less: the last sample is not taken then. False where
 * there is no sample, or one of no event of the visit.
 */
static bool measure_interrupt(bool *counts)
{
	enum sampled_kind kind = sampled_portable();
	uint64_t last = sampled_events(kind) - 1;
	struct pebs_options options = sampled_options(kind, last, 1);
	struct sampled sampled = {.number = 31, .visits = 1, .interrupted = true};
	struct ptrace_pebs_sample sample = {.has = 0};

	*counts = !sample_once(&sampled, &options, &sample);
	if (*counts) {
		options.period--;
		return sampled_skid() && sample_once(&sampled, &options, &sample);
	}
	for (uint64_t back = 0; back <= last; back++) {
		struct sampled_place place = sampled_place(&sampled, kind, last - back);

		*counts = back;
		if (is_as_expected(&sample, &place, sampled.start))
			return true;
	}
	return false;
}

void sampled_needs_exact(void)
{
	static bool known, counts;

	sampled_skid();
	if (skid_varies)
		test_skip("how late a sample is differs from one to the next");
	if (!known)
		known = measure_interrupt(&counts);
	REQUIRE(known);
	if (counts)
		test_skip("interrupts of ring 3, or the ways back there, are events of ring 3");
}

bool sampled_find(const struct sampled *sampled, enum sampled_kind kind, uint64_t n,
		  const struct ptrace_pebs_sample *sample, struct sampled_place *place)
{
	/* Each departure between overflow and sample costs the skid once more. */
	for (unsigned late = 0; late < 2 + sampled_skid() * (2 + n / 64); late++) {
		*place = sampled_place(sampled, kind, n + late);
		if (is_as_expected(sample, place, sampled->start))
			return true;
	}
	return false;
}

void sampled_expect(const struct sampled *sampled, const struct ptrace_pebs_sample *samples,
		    size_t count, enum sampled_kind kind, uint64_t period)
{
	size_t wrong = 0, late = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t n = (i + 1) * (period + 1) - 1;
		struct sampled_place due = sampled_place(sampled, kind, n), place;

		late += !is_as_expected(&samples[i], &due, sampled->start);
		if (sampled_find(sampled, kind, n, &samples[i], &place) || wrong++)
			continue;
		test_note(
			"sample %zu: IP %lx of %lx, RCX %lu, R8 %lu; expected %lx of %lx, %lu, %lu",
			i, samples[i].ip, samples[i].event_ip, samples[i].general[1],
			samples[i].general[8], due.ip, due.event_ip, due.rcx, due.visit);
	}
	EXPECT_EQ(wrong, 0);
	EXPECT(sampled_skid() || late <= 2 + count / 10);
}
