// SPDX-License-Identifier: MIT
// The flight recorder of all CPUs. On each a program takes a branch in each round and numbers it in
// R15. The registers that a freeze keeps say how many it had taken when its CPU stopped. So many
// have to be in the traces, no more and no less. Packets hold a bit for each.
#include "drivers/apic/lapic.h"
#include "drivers/debugctl.h"
#include "drivers/ds/ds.h"
#include "drivers/pmu/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/space.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/symbols.h"
#include "kernel/time.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/context.h"
#include "kernel/trace/freeze.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "kernel/trace/pebs/pebs.h"
#include "lib/string.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/programs.h"
#include "tests/lib/pt_decode.h"
#include "tests/lib/walker.h"

enum { MOST = 8, RECORDS = 500, SAMPLES = 4000, PERIOD = 499, NEWEST = 4, ROUNDS = 2 };
enum { CHUNKS = 64, AREA = CHUNKS }; /* pages */

/* What an owner's address is. */
static char owner;

struct subject {
	struct process *process;
	bool ends;
	struct tracer *branches, *newest, *samples;
	bool packets; /* of Intel PT, in the buffer of its CPU's number */
	size_t held;  /* records, with those that the ring had no room for */
};
static struct subject subjects[MOST];
static unsigned used;	 /* CPUs with a subject */
static unsigned checked; /* that stopped in ring 3 of it */

/* --- The storm --- */

static struct tracer *trace_samples(struct task *task)
{
	const struct pebs_options options = {
		.event = PTRACE_PEBS_BR_INST_RETIRED_ALL_BRANCHES,
		.period = PERIOD,
		.view = TRACE_USER,
		.overflow = TRACE_STOP,
		.size = SAMPLES * sizeof(struct ptrace_pebs_sample),
	};
	struct tracer *tracer = NULL;

	return pebs_present() && !pebs_attach(task, 0, &options, &tracer) ? tracer : NULL;
}

static struct tracer *trace_newest(struct task *task)
{
	const struct branch_stack_options options = {.flags = PTRACE_LBR_USER, .entries = NEWEST};
	struct tracer *tracer = NULL;

	return branch_stack_present() && !branch_stack_attach(task, 0, &options, &tracer) ? tracer
											  : NULL;
}

static atomic_uint overflows;

static void note_overflow(struct tracer *tracer, void *argument)
{
	(void)tracer, (void)argument;
	atomic_fetch_add(&overflows, 1);
}

/* One that stops after `rounds`, 0: never; with a threshold of records, 0: with none. */
static void begin(unsigned cpu, uint64_t rounds, size_t threshold)
{
	struct subject *subject = &subjects[cpu];
	const struct bts_options options = {
		.view = TRACE_USER,
		.overflow = threshold ? TRACE_SIGNAL : TRACE_WRAP,
		.size = (threshold ? 2 * threshold : RECORDS) * sizeof(struct ptrace_bts_record),
		.threshold = threshold,
		.overflowed = note_overflow,
	};

	*subject = (struct subject){.process = program_start("counts", rounds), .ends = rounds};
	EXPECT_EQ(program_await(subject->process, true), WAIT_STOPPED(SIGSTOP));
	test_keep_on(subject->process->task, cpu);
	if (ds_has_bts())
		EXPECT_EQ(bts_attach(subject->process->task, 0, &options, &subject->branches), 0);
	subject->newest = trace_newest(subject->process->task);
	subject->samples = trace_samples(subject->process->task);
}

static struct trace_account recorder = {.limit = 2ul * MOST << 20}; /* of their packets */

/* A buffer of Intel PT for each that can have one beside its tracers. */
static void trace_packets(void)
{
	struct insntrace_config config = insntrace_config(1, INSNTRACE_ORDER_MOST, 0);
	bool any = false;

	if (!pt_caps()->topa)
		return;
	config.control = RTIT_CTL_BRANCH_EN;
	EXPECT_EQ(insntrace_initialize(&recorder, INSNTRACE_THREADS, used), 0);
	for (unsigned i = 0; i < used; i++) {
		EXPECT_EQ(insntrace_allocate_buffer(&recorder, &config, 0), i);
		subjects[i].packets =
			!insntrace_assign_thread(&recorder, i, subjects[i].process->task);
		EXPECT(subjects[i].packets || ds_caps()->suspended_by_pt);
		any |= subjects[i].packets;
	}
	EXPECT(!any || !insntrace_start(&recorder));
}

/* Subject `special` ends after `rounds`, or has a threshold. */
static void begin_all(unsigned special, uint64_t rounds, size_t threshold)
{
	used = cpu_count() < MOST ? cpu_count() : MOST;
	for (unsigned i = 0; i < used; i++)
		begin(i, i == special ? rounds : 0, i == special ? threshold : 0);
	trace_packets();
}

static void go_all(void)
{
	for (unsigned i = 0; i < used; i++)
		process_signal(subjects[i].process, SIGCONT);
}

static void end_all(void)
{
	insntrace_owner_ended(&recorder);
	for (unsigned i = 0; i < used; i++) {
		struct tracer *of[] = {subjects[i].branches, subjects[i].newest,
				       subjects[i].samples};

		process_signal(subjects[i].process, SIGKILL);
		for (unsigned n = 0; n < 3; n++)
			EXPECT(!of[n] || trace_detach(of[n]));
		program_end(subjects[i].process);
	}
}

/* --- What a freeze has to leave --- */

/* Branches that the subject had taken with these registers: one less after INC. Its end is there.
 */
static uint64_t taken(const struct subject *subject, const struct ptrace_registers *registers)
{
	uint8_t byte = 0;

	if (!subject->ends)
		space_read(&subject->process->space, registers->rip, &byte, 1);
	return registers->r15 - (byte != 0x49 /* INC R15 */);
}

static size_t records_of(const struct subject *subject)
{
	struct bts_status status;

	bts_status(subject->branches, &status);
	EXPECT(!status.truncated && !status.lost_more);
	return status.available + status.lost;
}

static void expect_records(struct subject *subject, const struct ptrace_registers *registers)
{
	struct ptrace_bts_record newest;

	subject->held = records_of(subject);
	EXPECT_EQ(subject->held, taken(subject, registers));
	if (!subject->held)
		return;
	EXPECT_EQ(bts_get(subject->branches, 0, &newest), 0);
	EXPECT(registers->rip >= newest.to && registers->rip <= newest.from + 2);
}

static void expect_newest(const struct subject *subject, const struct ptrace_registers *registers)
{
	struct ptrace_lbr_branch found[NEWEST];
	unsigned count = (unsigned)trace_read(subject->newest, found, NEWEST);

	EXPECT(count > 0 || !taken(subject, registers));
	for (unsigned i = 0; i < count; i++)
		EXPECT(registers->rip >= found[i].to && registers->rip <= found[i].from + 2);
}

/* The newest sample says of which round it is: the next is one period later, and a delay. */
static void expect_samples(const struct subject *subject, const struct ptrace_registers *registers)
{
	static struct ptrace_pebs_sample sample;
	size_t count = pebs_available(subject->samples);

	if (!count || count == SAMPLES)
		return;
	pebs_peek(subject->samples, count - 1, &sample, 1);
	if (!(sample.has & PTRACE_PEBS_HAS_REGISTERS))
		return;
	EXPECT(sample.general[15] <= registers->r15);
	EXPECT(registers->r15 - sample.general[15] <= PERIOD + 2 + PEBS_SKID_MOST);
}

/* Branches in packets: a bit each. */
static uint64_t count_taken(const uint8_t *packets, size_t size)
{
	struct packet_reader reader;
	struct packet packet;
	uint64_t count = 0;

	packet_start(&reader, packets, size);
	while (packet_next(&reader, &packet))
		if (packet.kind == PACKET_TNT)
			for (unsigned bit = 0; bit < packet.count; bit++)
				count += packet.value >> bit & 1;
	EXPECT(!reader.error);
	EXPECT(!packet_missing(&reader));
	return count;
}

/* The one chunk of its buffer, which can be read since all CPUs are at rest. */
static void expect_packets(unsigned cpu, const struct ptrace_registers *registers)
{
	size_t size = SIZE_MAX;
	const void *from;

	if (EXPECT_EQ(insntrace_read_buffer(&recorder, cpu, 0, &from, &size), 0) &&
	    EXPECT(size > 0))
		EXPECT_EQ(count_taken(from, size), taken(&subjects[cpu], registers));
}

/* Of a CPU that was stopped in ring 3 of its subject. */
static void expect_exact(unsigned cpu, const struct ptrace_freeze_cpu *status)
{
	struct subject *subject = &subjects[cpu];

	if (!(status->registers.cs & 3) || status->pid != subject->process->pid)
		return;
	checked += status->units & PTRACE_FREEZE_BTS; /* which each subject has on */
	if (subject->branches)
		expect_records(subject, &status->registers);
	if (subject->newest)
		expect_newest(subject, &status->registers);
	if (subject->samples)
		expect_samples(subject, &status->registers);
	if (subject->packets)
		expect_packets(cpu, &status->registers);
}

static void look(void *running)
{
	uint64_t on = rdmsr(IA32_DEBUGCTL) & ~DEBUGCTL_BTF;

	if (pmu_caps()->version)
		on |= rdmsr(IA32_PERF_GLOBAL_CTRL);
	if (pt_caps()->present)
		on |= rdmsr(IA32_RTIT_CTL) & RTIT_CTL_TRACE_EN;
	if (on)
		atomic_fetch_add((atomic_uint *)running, 1);
}

static void switch_everywhere(void)
{
	struct process *others[MOST];

	for (unsigned i = 0; i < used; i++) {
		others[i] = program_start("spin", 0);
		test_keep_on(others[i]->task, i);
	}
	task_sleep(20000);
	for (unsigned i = 0; i < used; i++) {
		process_signal(others[i], SIGKILL);
		program_end(others[i]);
	}
}

/* No switch of tasks, no request, starts anything. */
static void expect_still_frozen(void)
{
	atomic_uint running = 0;

	switch_everywhere();
	trace_settle();
	smp_call_all(look, &running);
	EXPECT_EQ(atomic_load(&running), 0);
	for (unsigned i = 0; i < used; i++)
		if (subjects[i].held)
			EXPECT_EQ(records_of(&subjects[i]), subjects[i].held);
	EXPECT_EQ(freeze_request(&owner, PTRACE_FREEZE_NOW, NULL), -EBUSY);
	EXPECT_EQ(freeze_request(&running, 0, NULL), -EBUSY);
}

/* The whole of it: the cause was on CPU `first`. */
static void expect_snapshot(unsigned cause, unsigned first)
{
	struct ptrace_freeze_cpu status;
	uint64_t tsc;
	int64_t delay;

	EXPECT(freeze_is_whole() && freeze_status(first, &status));
	tsc = status.tsc;
	for (unsigned i = 0; i < used; i++) {
		EXPECT(freeze_status(i, &status));
		EXPECT_EQ(status.cpu, i);
		EXPECT_EQ(status.flags, PTRACE_FREEZE_STOPPED | PTRACE_FREEZE_RESTS);
		EXPECT_EQ(status.cause, i == first ? cause : 0);
		delay = (int64_t)(status.tsc - tsc);
		EXPECT(status.delay == delay && (i == first) == !delay);
		test_note("CPU %u: %ld TSC, units %x, cs %lx", i, status.delay, status.units,
			  status.registers.cs);
		expect_exact(i, &status);
	}
	expect_still_frozen();
}

static bool is_frozen(void)
{
	struct ptrace_freeze_cpu status;

	return freeze_status(0, &status);
}

static void await_freeze(void)
{
	while (!freeze_is_whole() && test_has_time())
		task_sleep(1000);
}

/* Recording goes on, from where each program has come to. */
static void expect_thaw(void)
{
	size_t before[MOST];

	for (unsigned i = 0; i < used; i++)
		before[i] = subjects[i].branches ? records_of(&subjects[i]) : 0;
	EXPECT_EQ(freeze_request(&owner, 0, NULL), 0);
	EXPECT(!is_frozen());
	for (unsigned i = 0; i < used; i++) {
		uint64_t end = clock_us() + 10000000;

		if (!subjects[i].branches || trace_is_held(subjects[i].branches) ||
		    subjects[i].ends)
			continue;
		while (records_of(&subjects[i]) == before[i] && clock_us() < end)
			task_sleep(1000);
		EXPECT(records_of(&subjects[i]) > before[i]);
	}
}

static bool goes_on(unsigned round)
{
	return !round || ((round < ROUNDS || !checked) && test_has_time());
}

/* On a busy machine CPUs may be in the kernel whenever they are asked to stop. */
static void expect_checked(void)
{
	if (!checked)
		test_slow("no CPU was stopped in its program, in %lu s", test_seconds());
}

/* --- A trigger each --- */

TEST(freeze_by_request, .group = "I", .ids = "I13", .needs = NEED_BTS | NEED_SMP,
     .claim = "a request stops the units of all CPUs: each trace ends with the branch that its "
	      "CPU had come to, whatever is switched meanwhile, and goes on when it is let",
     .source = "docs/ptrace-freeze.2")
{
	PROGRAMS(before);

	test_pin();
	checked = 0;
	for (unsigned round = 0; goes_on(round); round++) {
		begin_all(0, 0, 0);
		go_all();
		task_sleep(10000 + test_random() % 10000);
		EXPECT_EQ(freeze_request(&owner, PTRACE_FREEZE_NOW, NULL), 0);
		await_freeze();
		expect_snapshot(PTRACE_FREEZE_NOW, this_cpu()->index);
		expect_thaw();
		end_all();
	}
	expect_checked();
}

/* The trigger did not come in time: nothing is known of what it does. */
static void end_slow(const char *what)
{
	freeze_request(&owner, 0, NULL);
	end_all();
	test_slow("%s in %lu s", what, test_seconds());
}

static void await_fault(unsigned culprit, uint64_t rounds)
{
	await_freeze();
	if (is_frozen() || records_of(&subjects[culprit]) >= rounds - 1)
		return;
	end_slow("the program did not come to its fault");
}

TEST(freeze_by_fault, .group = "I", .ids = "I13", .needs = NEED_BTS | NEED_SMP,
     .claim = "an exception of ring 3 stops the units of all CPUs, its own at the instruction",
     .source = "docs/ptrace-freeze.2, PTRACE_FREEZE_FAULT")
{
	PROGRAMS(before);

	checked = 0;
	for (unsigned round = 0; goes_on(round); round++) {
		unsigned culprit = round % cpu_count();
		struct ptrace_freeze_cpu status;
		uint64_t rounds = 3000 + test_random() % 3000;

		begin_all(culprit, rounds, 0);
		EXPECT_EQ(freeze_request(&owner, PTRACE_FREEZE_FAULT, NULL), 0);
		go_all();
		await_fault(culprit, rounds);
		EXPECT(freeze_status(culprit, &status));
		EXPECT_EQ(status.registers.r15, rounds);
		EXPECT_EQ(records_of(&subjects[culprit]), rounds - 1);
		expect_snapshot(PTRACE_FREEZE_FAULT, culprit);
		EXPECT(checked > round);
		expect_thaw();
		end_all();
	}
}

static void await_threshold(unsigned full, size_t threshold)
{
	while (bts_available(subjects[full].branches) < threshold && test_has_time())
		task_sleep(1000);
	if (bts_available(subjects[full].branches) >= threshold)
		return;
	end_slow("the threshold was not reached");
}

TEST(freeze_by_overflow, .group = "I", .ids = "I13", .needs = NEED_BTS | NEED_SMP,
     .claim = "a buffer that reaches its threshold stops the units of all CPUs; its own trace "
	      "has every branch up to there, and has lost none",
     .source = "docs/ptrace-freeze.2, PTRACE_FREEZE_OVERFLOW")
{
	PROGRAMS(before);

	checked = 0;
	for (unsigned round = 0; goes_on(round); round++) {
		unsigned full = round % cpu_count();
		size_t threshold = 3000 + test_random() % 3000;

		atomic_store(&overflows, 0);
		begin_all(full, 0, threshold);
		EXPECT_EQ(freeze_request(&owner, PTRACE_FREEZE_OVERFLOW, NULL), 0);
		go_all();
		await_threshold(full, threshold);
		await_freeze();
		EXPECT_EQ(atomic_load(&overflows), 1);
		EXPECT(bts_available(subjects[full].branches) >= threshold);
		EXPECT_EQ(records_of(&subjects[full]), bts_available(subjects[full].branches));
		expect_snapshot(PTRACE_FREEZE_OVERFLOW, full);
		expect_thaw();
		end_all();
	}
	expect_checked();
}

/* --- Streams of Intel PT --- */

static uint8_t *bytes;
static size_t got;

/* Reads a stream to its end, and takes each piece. */
static void read_stream(unsigned cpu)
{
	size_t piece;

	got = 0;
	do {
		const void *from;

		piece = 3000;
		if (!EXPECT_EQ(insntrace_read_stream(NULL, cpu, &from, &piece), 0))
			return;
		REQUIRE(got + piece <= AREA * PAGE_SIZE);
		memcpy(bytes + got, from, piece);
		EXPECT_EQ(insntrace_take_stream(NULL, cpu, piece), 0);
		got += piece;
	} while (piece);
}

static void expect_stream(unsigned cpu)
{
	struct ptrace_freeze_cpu status;
	struct insntrace_state state;

	read_stream(cpu);
	EXPECT(freeze_status(cpu, &status));
	EXPECT(status.units & PTRACE_FREEZE_PT);
	test_note("CPU %u: cs %lx, %zu bytes", cpu, status.registers.cs, got);
	EXPECT_EQ(insntrace_get_buffer_state(NULL, cpu, &state), 0);
	EXPECT_EQ(state.available, 0);
	EXPECT_EQ(state.flags & INSNTRACE_GAP, 0);
	if (!(status.registers.cs & 3) || status.pid != subjects[cpu].process->pid)
		return;
	checked++;
	EXPECT_EQ(count_taken(bytes, got), taken(&subjects[cpu], &status.registers));
}

static void begin_stream(void)
{
	struct insntrace_config config = insntrace_config(CHUNKS, 0, INSNTRACE_STREAM);

	if (!pt_caps()->topa_many)
		test_skip("a table of one chunk");
	config.control = RTIT_CTL_USER | RTIT_CTL_BRANCH_EN;
	insntrace_open(NULL, &config);
	used = cpu_count() < MOST ? cpu_count() : MOST;
	for (unsigned i = 0; i < used; i++) {
		subjects[i] = (struct subject){.process = program_start("counts", 0)};
		EXPECT_EQ(program_await(subjects[i].process, true), WAIT_STOPPED(SIGSTOP));
		test_keep_on(subjects[i].process->task, i);
	}
}

/* Some chunk is full: what is taken later makes room. */
static void await_chunk(unsigned cpu)
{
	uint64_t end = clock_us() + 10000000;
	const void *from;
	size_t piece;

	do {
		piece = PAGE_SIZE;
		EXPECT_EQ(insntrace_read_stream(NULL, cpu, &from, &piece), 0);
		task_sleep(5000);
	} while (piece < PAGE_SIZE && clock_us() < end);
}

TEST(freeze_stream, .group = "PT", .ids = "I13 PT41", .needs = NEED_PT | NEED_SMP,
     .claim = "of a stream that is frozen the tail can be read up to the last branch, chunk by "
	      "chunk; what is taken starts nothing, no gap is said, and packets go on at the thaw",
     .source = "docs/ptrace-freeze.2, NOTES")
{
	const void *from;
	size_t piece;

	bytes = test_area(AREA);
	PROGRAMS(before);
	test_pin();
	checked = 0;
	begin_stream();
	EXPECT_EQ(insntrace_start(NULL), 0);
	go_all();
	for (unsigned i = 0; i < used; i++)
		await_chunk(i);
	EXPECT_EQ(freeze_request(&owner, PTRACE_FREEZE_NOW, NULL), 0);
	await_freeze();
	for (unsigned i = 0; i < used; i++)
		expect_stream(i);
	EXPECT_EQ(insntrace_traced_cpus(), 0);
	EXPECT_EQ(freeze_request(&owner, 0, NULL), 0);
	EXPECT_EQ(insntrace_traced_cpus(), cpu_count());
	task_sleep(20000);
	EXPECT_EQ(insntrace_stop(NULL), 0);
	for (unsigned i = 0; i < used; i++) {
		piece = 1;
		EXPECT_EQ(insntrace_read_stream(NULL, i, &from, &piece), 0);
		EXPECT_EQ(piece, 1);
	}
	insntrace_close(NULL);
	end_all();
	expect_checked();
}

/* --- CPUs that do not answer at once --- */

static unsigned other; /* CPU than that of the test */
static atomic_bool deaf, heard, hold_on;

static bool stay_deaf(struct trap_frame *frame)
{
	(void)frame;
	if (this_cpu()->index != other || !atomic_load(&deaf) || atomic_exchange(&heard, true))
		return false;
	while (atomic_load(&deaf))
		__asm__ volatile("pause");
	return true;
}

static void keep_off(void *argument)
{
	uint64_t flags = interrupts_save();

	(void)argument;
	atomic_store(&heard, true);
	while (atomic_load(&hold_on))
		__asm__ volatile("pause");
	interrupts_restore(flags);
}

static struct ptrace_freeze_cpu status_of(unsigned cpu)
{
	struct ptrace_freeze_cpu status;

	EXPECT(freeze_status(cpu, &status));
	return status;
}

TEST(freeze_deaf, .group = "I", .ids = "I15", .needs = NEED_SMP,
     .claim = "a CPU that answers no NMI is waited for a while and listed; it stops when it does",
     .source = "docs/ptrace-freeze.2, PTRACE_FREEZE_STATUS")
{
	uint64_t start, waited = UINT64_MAX;

	test_pin();
	other = !this_cpu()->index;
	atomic_store(&heard, false);
	atomic_store(&deaf, true);
	test_handle_nmis(stay_deaf);
	lapic_send_nmi(cpu_by_index(other)->apic_id);
	while (!atomic_load(&heard))
		__asm__ volatile("pause");
	for (unsigned tries = 3; tries && waited > 2000000; tries--) { /* the host may stop it */
		freeze_request(&owner, 0, NULL);
		start = clock_us();
		EXPECT_EQ(freeze_request(&owner, PTRACE_FREEZE_NOW, NULL), 0);
		waited = clock_us() - start;
	}
	EXPECT(waited >= 1000000 && waited <= 2000000);
	EXPECT_EQ(status_of(other).flags, 0);
	EXPECT(status_of(this_cpu()->index).flags & PTRACE_FREEZE_STOPPED);
	EXPECT(!freeze_is_whole());
	atomic_store(&deaf, false);
	await_freeze();
	EXPECT(freeze_is_whole());
	EXPECT(status_of(other).flags & PTRACE_FREEZE_STOPPED && status_of(other).delay > 0);
	test_handle_nmis(NULL);
	EXPECT_EQ(freeze_request(&owner, 0, NULL), 0);
}

/* The task's newest branch is that to the NMI, whose handler stopped the trace. */
static void expect_nmi_last(struct tracer *tracer)
{
	struct ptrace_bts_record record = {0};

	for (size_t n = 0; symbol_start(record.from) != (uint64_t)keep_off; n++)
		if (bts_get(tracer, n, &record))
			break;
	EXPECT_EQ(record.to, trap_entry(VECTOR_NMI));
}

TEST(freeze_interrupts_off, .group = "I", .ids = "I13 I15", .needs = NEED_SMP,
     .claim = "a CPU with interrupts off stops at once, and is at rest when they are on",
     .source = "docs/ptrace-freeze.2, PTRACE_FREEZE_STATUS")
{
	struct task *task = test_task("interrupts off", keep_off, NULL);
	struct bts_options options = walker_options(RECORDS);
	struct tracer *tracer = NULL;

	options.overflow = TRACE_WRAP;
	EXPECT(!ds_has_bts() || !bts_attach(task, 0, &options, &tracer));
	test_pin();
	test_keep_on(task, !this_cpu()->index);
	atomic_store(&heard, false);
	atomic_store(&hold_on, true);
	task_start(task);
	while (!atomic_load(&heard))
		task_yield();
	EXPECT_EQ(freeze_request(&owner, PTRACE_FREEZE_NOW, NULL), 0);
	EXPECT_EQ(status_of(task->cpu).flags, PTRACE_FREEZE_STOPPED);
	atomic_store(&hold_on, false);
	await_freeze();
	EXPECT_EQ(status_of(task->cpu).flags, PTRACE_FREEZE_STOPPED | PTRACE_FREEZE_RESTS);
	if (tracer) {
		expect_nmi_last(tracer);
		EXPECT(trace_detach(tracer));
	}
	EXPECT_EQ(freeze_request(&owner, 0, NULL), 0);
	test_task_end(task);
}

TEST(freeze_by_program, .group = "I", .ids = "I13", .needs = 0,
     .claim = "a program with the right to it freezes all CPUs, is refused as the manual says, and "
	      "thaws by its end; one without the right does nothing",
     .source = "docs/ptrace-freeze.2, ERRORS")
{
	program_expect("ptrace_freeze", 0, false);
	program_expect("ptrace_freeze", cpu_count(), true);
	EXPECT(!is_frozen());
}
