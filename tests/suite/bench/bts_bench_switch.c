// SPDX-License-Identifier: MIT
#include "drivers/clock/tsc.h"
#include "drivers/ds/ds.h"
#include "drivers/lbr/lbr.h"
#include "drivers/lbr/registers.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/symbols.h"
#include "kernel/time.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/cpu.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "kernel/trace/pebs/pebs.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/format.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/statistics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many instructions code takes: counted by single steps. */

/* PUSHFQ, ANDQ and the POPFQ that clears TF. */
#define STEPS_TO_END 3

static uint64_t instructions_taken __attribute__((used)), writes_taken __attribute__((used));

/* WRMSR is 0F 30. */
__asm__(".pushsection .text\n\t.balign 16\ninstructions_entry:\n\t"
	"incq instructions_taken(%rip)\n\t"
	"pushq %rax\n\tmovq 8(%rsp), %rax\n\tcmpw $0x300f, (%rax)\n\tpopq %rax\n\t"
	"jne 1f\n\tincq writes_taken(%rip)\n1:\tiretq\n\t.popsection");
extern const char instructions_entry[];

/*
 * Of `function(argument)`, with its call and return; `writes_taken` are those of MSRs. IF = 0
 * meanwhile. Preemption off.
 */
static uint64_t instructions_of(void (*function)(void *argument), void *argument)
{
	uint64_t flags = interrupts_save();

	instructions_taken = writes_taken = 0;
	own_idt_begin(VECTOR_DB, instructions_entry, false);
	own_idt_load();
	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
			 "call *%[function]\n\t"
			 "pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq"
			 : "+D"(argument)
			 : [function] "r"(function)
			 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	own_idt_unload();
	__asm__ volatile("mov %0, %%dr6" : : "r"(DR6_RESET));
	interrupts_restore(flags);
	return instructions_taken - STEPS_TO_END;
}

/* A traced task that spins on one branch, in ring 3 or in the kernel, while another has its turns.
 */

#define SPINNER_MOST 64

/* The kernel's own records between two spins that the timer parted. */
struct preemption {
	uint32_t departure; /* from the interrupt to the end of recording */
	uint32_t arrival;   /* from the start of recording to the spin */
};

#define RECORDS	   16384
#define USER_START 0x10000000ul
#define SLICE	   100 /* microseconds; 1000 is what the kernel starts with */
#define TURNS	   8
#define MOST_TIME  5000000 /* microseconds */

extern const char spinner_spin[];

static void spin_in_kernel(void *argument)
{
	(void)argument;
	__asm__ volatile("spinner_spin:\n\tjmp spinner_spin");
}

static void spin_in_user(void *argument)
{
	struct trap_frame frame = {.rip = USER_START};

	(void)argument;
	user_run(&frame);
}

static bool inside(uint64_t address, const void *function)
{
	return symbol_start(address) == (uint64_t)function;
}

/* The WRMSR that turns recording on is inside ds_switch_in(), or in a function that it calls. */
static bool begins_arrival(const struct ptrace_bts_record *records, size_t at)
{
	const void *arrival = (const void *)ds_switch_in;
	bool from = inside(records[at].from, arrival), to = inside(records[at].to, arrival);

	return from != to && !inside(records[at - 1].to, arrival);
}

/* `at` is the first record of an arrival. False: the spinner was not spinning before or after. */
static bool measure(const struct ptrace_bts_record *records, size_t count, size_t at, uint64_t spin,
		    struct preemption *preemption)
{
	size_t first = at, last = at;

	while (first > 0 && records[first].from != spin)
		first--;
	while (last < count && records[last].to != spin)
		last++;
	if (records[first].from != spin || last == count ||
	    records[first].to != trap_entry(VECTOR_TIMER))
		return false;
	*preemption = (struct preemption){(uint32_t)(at - first), (uint32_t)(last - at + 1)};
	return true;
}

/*
 * Adds to the `found` preemptions what the ring holds: nothing, if a late timer let the spinner
 * spin all round it.
 */
static size_t collect(struct tracer *tracer, struct ptrace_bts_record *records, uint64_t spin,
		      struct preemption preemptions[SPINNER_MOST], size_t found)
{
	size_t count = bts_peek(tracer, &(uint64_t){0}, records, RECORDS);

	for (size_t at = 1; at < count && found < SPINNER_MOST; at++)
		if (records[at].from != spin && begins_arrival(records, at) &&
		    measure(records, count, at, spin, &preemptions[found]))
			found++;
	return found;
}

/* Each time that it is the test's turn, the spinner has been preempted once more. */
static size_t preempt(const struct task *task, struct tracer *tracer, uint64_t spin,
		      struct preemption preemptions[SPINNER_MOST])
{
	struct ptrace_bts_record *records = test_area(RECORDS * sizeof(*records) / PAGE_SIZE);
	uint64_t end = clock_us() + MOST_TIME, turns = 0;
	size_t found = 0;

	sched_set_slice(SLICE);
	while ((task->switches < TURNS || !found) && clock_us() < end) {
		if (task->switches == turns)
			continue;
		turns = task->switches;
		found = collect(tracer, records, spin, preemptions, found);
	}
	sched_set_slice(1000);
	return found;
}

/* Lets the timer preempt the spinner for a while and returns what that left in its buffer. */
static size_t spinner_run(bool in_user, struct preemption preemptions[SPINNER_MOST])
{
	const struct bts_options options = {.view = TRACE_USER | TRACE_KERNEL,
					    .privileged = true,
					    .size = RECORDS * sizeof(struct ptrace_bts_record)};
	uint8_t *code = test_area(1);
	struct tracer *tracer = NULL;
	struct task *task;
	size_t count = 0;

	code[0] = 0xeb; /* jmp to itself */
	code[1] = 0xfe;
	code_map(USER_START, code, VM_USER);
	test_pin();
	task = test_task("spinner", in_user ? spin_in_user : spin_in_kernel, NULL);
	if (bts_attach(task, 0, &options, &tracer))
		test_error("the spinner cannot be traced");
	task_start(task);
	count = preempt(task, tracer, in_user ? USER_START : (uint64_t)spinner_spin, preemptions);
	task_kill(task);
	EXPECT(trace_detach(tracer));
	test_task_put(task);
	code_unmap(USER_START);
	return count;
}

#define MOST 4 /* tracers */

/* The scheduler's calls for tracing where a task leaves and where one arrives: see sched.c. */
static void leave_and_come(void *argument)
{
	struct cpu *cpu = argument;

	if (cpu->recording)
		trace_depart(cpu);
	if (cpu->current->trace || cpu->recording)
		trace_arrive(cpu);
}

static void nothing(void *argument)
{
	(void)argument;
}

/* Of ring 3 alone the steps themselves leave no records that a switch in the linear shape moves. */
static uint64_t instructions_with(unsigned tracers, unsigned view)
{
	const struct bts_options options = {
		.view = view, .privileged = true, .overflow = TRACE_WRAP, .size = 4096};
	struct tracer *tracer[MOST];
	uint64_t steps;

	for (unsigned i = 0; i < tracers; i++)
		REQUIRE_EQ(bts_attach(current_task(), 0, &options, &tracer[i]), 0);
	steps = instructions_of(leave_and_come, this_cpu()) - instructions_of(nothing, NULL);
	for (unsigned i = 0; i < tracers; i++)
		EXPECT(trace_detach(tracer[i]));
	return steps;
}

TEST(bts_bench_switch_instructions, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim =
	     "figures: instructions of tracing in a switch with no tracer, one in either shape, and four",
     .source = "docs/design.md#budgets")
{
	uint64_t none, one, linear, four;

	test_pin();
	none = instructions_with(0, TRACE_USER);
	one = instructions_with(1, TRACE_USER | TRACE_KERNEL); /* in the circular shape */
	linear = instructions_with(1, TRACE_USER);
	four = instructions_with(MOST, TRACE_USER);
	EXPECT(none < one && one < linear && linear < four);
	test_figure("switch_instructions_untraced", none, "instructions");
	test_figure("switch_instructions_one_tracer", one, "instructions");
	test_figure("switch_instructions_linear", linear, "instructions");
	test_figure("switch_instructions_four_tracers", four, "instructions");
}

/* --- A tracer of samples --- */

struct cost {
	uint64_t instructions, writes;
};

static struct cost cost_of_switch(void)
{
	uint64_t call = instructions_of(nothing, NULL), all;

	all = instructions_of(leave_and_come, this_cpu());
	return (struct cost){all - call, writes_taken};
}

static struct tracer *take_samples(void)
{
	const struct pebs_options options = {.event = PTRACE_PEBS_INST_RETIRED,
					     .period = 1000000,
					     .overflow = TRACE_STOP,
					     .size = 4096};
	struct tracer *tracer = NULL;

	REQUIRE_EQ(pebs_attach(current_task(), 0, &options, &tracer), 0);
	return tracer;
}

TEST(samples_bench_switch, .group = "bench", .ids = "", .needs = NEED_BTS | NEED_SAMPLES,
     .claim = "figures: instructions and WRMSR of a switch with a tracer of samples, of branches, "
	      "and both; none for tasks without",
     .source = "docs/design.md#budgets")
{
	const struct bts_options options = {
		.view = TRACE_USER, .privileged = true, .overflow = TRACE_WRAP, .size = 4096};
	struct cost none, samples, both, branches;
	struct tracer *tracer, *other = NULL;

	test_pin();
	none = cost_of_switch();
	tracer = take_samples();
	samples = cost_of_switch();
	REQUIRE_EQ(bts_attach(current_task(), 0, &options, &other), 0);
	both = cost_of_switch();
	EXPECT(trace_detach(tracer));
	branches = cost_of_switch();
	EXPECT(trace_detach(other));
	EXPECT_EQ(none.writes, 0);
	EXPECT(samples.writes > 0 && branches.writes > 0 && both.writes > branches.writes);
	test_figure("switch_writes_untraced", none.writes, "WRMSR");
	test_figure("switch_writes_branches", branches.writes, "WRMSR");
	test_figure("switch_writes_samples", samples.writes, "WRMSR");
	test_figure("switch_writes_both", both.writes, "WRMSR");
	test_figure("switch_instructions_samples", samples.instructions, "instructions");
}

static struct cost cost_with_stack(uint64_t flags)
{
	const struct branch_stack_options options = {
		.flags = flags, .privileged = true, .entries = LBR_MOST};
	struct tracer *tracer = NULL;
	struct cost cost;

	REQUIRE_EQ(branch_stack_attach(current_task(), 0, &options, &tracer), 0);
	cost = cost_of_switch();
	EXPECT(trace_detach(tracer));
	return cost;
}

/* An entry of the stack is emptied by a WRMSR, or all by one; two or three bring a call back. */
TEST(lbr_bench_switch, .group = "bench", .ids = "", .needs = NEED_LBR,
     .claim = "figures: instructions and WRMSR of a switch with a tracer of the newest branches, "
	      "and with one of the call stack; none for tasks without",
     .source = "docs/design.md#budgets")
{
	unsigned emptying = lbr_caps()->architectural ? 1 : lbr_caps()->depth;
	struct cost none, newest, calls;

	test_pin();
	none = cost_of_switch();
	newest = cost_with_stack(lbr_caps()->select ? PTRACE_LBR_USER
						    : PTRACE_LBR_USER | PTRACE_LBR_KERNEL);
	EXPECT_EQ(none.writes, 0);
	EXPECT(newest.writes > emptying);
	test_figure("switch_writes_newest", newest.writes - emptying, "WRMSR");
	test_figure("switch_instructions_newest", newest.instructions, "instructions");
	if (!(lbr_caps()->select & LBR_SELECT_CALL_STACK))
		return;
	calls = cost_with_stack(PTRACE_LBR_CALL_STACK);
	EXPECT(calls.writes >= newest.writes);
	test_figure("switch_writes_calls", calls.writes, "WRMSR");
	test_figure("switch_instructions_calls", calls.instructions, "instructions");
}

enum { PT_SWITCHES = 50 };

/* The name says how the kernel switches on this processor. */
static void print_pt_figure(const char *what, uint64_t value, const char *unit)
{
	char name[48];

	format(name, sizeof(name), "pt_switch_%s_%s", pt_caps()->xsaves ? "xsaves" : "msrs", what);
	test_figure(name, value, unit);
}

/* Of a thread that is traced by Intel PT; packets that a switch alone leaves: PSB to PSBEND. */
TEST(pt_bench_switch, .group = "bench", .ids = "", .needs = NEED_PT,
     .claim = "figures: instructions and WRMSR of tracing in a switch of a thread that Intel PT "
	      "traces, by XSAVES or by MSRs, and the bytes of packets that it leaves",
     .source = "docs/design.md#budgets")
{
	struct insntrace_config config = insntrace_config(2, 2, 0);
	struct insntrace_state before, after;
	struct cost cost;

	test_pin();
	config.control = RTIT_CTL_BRANCH_EN;
	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_THREADS, 1), 0);
	EXPECT_EQ(insntrace_allocate_buffer(NULL, &config, 0), 0);
	EXPECT_EQ(insntrace_assign_thread(NULL, 0, current_task()), 0);
	EXPECT_EQ(insntrace_start(NULL), 0);
	cost = cost_of_switch();
	EXPECT_EQ(insntrace_stop(NULL), 0);
	EXPECT_EQ(insntrace_get_buffer_state(NULL, 0, &before), 0);
	EXPECT_EQ(insntrace_start(NULL), 0);
	for (unsigned n = 0; n < PT_SWITCHES; n++) {
		uint64_t flags = interrupts_save();

		leave_and_come(this_cpu());
		interrupts_restore(flags);
	}
	EXPECT_EQ(insntrace_stop(NULL), 0);
	EXPECT_EQ(insntrace_get_buffer_state(NULL, 0, &after), 0);
	insntrace_release_thread(NULL, 0);
	EXPECT_EQ(insntrace_terminate(NULL), 0);
	EXPECT(after.available > before.available && !after.flags);
	EXPECT_EQ(cost.writes > 0, !pt_caps()->xsaves);
	print_pt_figure("instructions", cost.instructions, "instructions");
	print_pt_figure("writes", cost.writes, "WRMSR");
	print_pt_figure("bytes", (after.available - before.available) / (PT_SWITCHES - 1), "bytes");
}

#define TRIES 10

/* A host that is late with the timer lets the last slice fill the buffer with spins alone. */
static void measure_records(bool in_user, const char *departure_name, const char *switch_name)
{
	struct preemption preemptions[SPINNER_MOST];
	uint64_t departures[SPINNER_MOST], switches[SPINNER_MOST];
	size_t count = 0;

	for (unsigned tries = 0; !count && tries < TRIES; tries++)
		count = spinner_run(in_user, preemptions);
	REQUIRE(count > 0);
	for (size_t i = 0; i < count; i++) {
		departures[i] = preemptions[i].departure;
		switches[i] = preemptions[i].departure + preemptions[i].arrival;
	}
	test_figure(departure_name, distribution(departures, count).most, "records");
	test_figure(switch_name, distribution(switches, count).most, "records");
}

TEST(bts_bench_switch_records, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: the kernel's own records in a task's buffer when the timer preempts it",
     .source = "docs/design.md#budgets; docs/bts.md#costs: 245 and 328 records in Linux")
{
	measure_records(true, "departure_records", "switch_records");
	measure_records(false, "departure_records_kernel_task", "switch_records_kernel_task");
}

#define YIELDS	     200
#define TURN_RECORDS (YIELDS * 128) /* a ring's: room for those of interrupts too */

static struct {
	atomic_bool over;
	uint64_t cycles;
} run;

static void answer(void *argument)
{
	(void)argument;
	while (!atomic_load(&run.over))
		task_yield();
}

static void take_turns(void *argument)
{
	uint64_t start = tsc_read();

	(void)argument;
	for (unsigned i = 0; i < YIELDS; i++)
		task_yield();
	run.cycles = tsc_read() - start;
	atomic_store(&run.over, true);
}

/* Cycles of a turn, a switch there and one back; and the records of one that each tracer gets. */
static uint64_t cycles_with(unsigned tracers, uint64_t *records)
{
	const struct bts_options options = {.view = TRACE_USER | TRACE_KERNEL,
					    .privileged = true,
					    .overflow = TRACE_STOP,
					    .size = TURN_RECORDS *
						    sizeof(struct ptrace_bts_record)};
	struct task *one = test_task("turns", take_turns, NULL);
	struct task *other = test_task("answers", answer, NULL);
	struct tracer *tracer[MOST];

	atomic_store(&run.over, false);
	for (unsigned i = 0; i < tracers; i++)
		if (bts_attach(one, 0, &options, &tracer[i]))
			test_error("the task cannot be traced");
	task_start(one);
	task_start(other);
	task_join(one);
	task_join(other);
	*records = tracers ? bts_available(tracer[0]) / YIELDS : 0;
	for (unsigned i = 0; i < tracers; i++)
		EXPECT(trace_detach(tracer[i]));
	test_task_put(one);
	test_task_put(other);
	return run.cycles / YIELDS;
}

TEST(bts_bench_tracers, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: a turn of two tasks, one of them with no tracer, one and four",
     .source = "docs/design.md#budgets")
{
	uint64_t none, records, records_of_four, cycles;

	test_pin();
	cycles = cycles_with(0, &none);
	test_figure("turn_untraced", cycles, "cycles");
	cycles = cycles_with(1, &records);
	test_figure("turn_one_tracer", cycles, "cycles");
	test_figure("turn_records_one_tracer", records, "records");
	cycles = cycles_with(MOST, &records_of_four);
	test_figure("turn_four_tracers", cycles, "cycles");
	test_figure("turn_records_four_tracers", records_of_four, "records");
	EXPECT(records > 0);
}
