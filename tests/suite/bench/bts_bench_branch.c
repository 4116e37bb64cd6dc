// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/clock/tsc.h"
#include "drivers/ds/configuration.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/mm/page.h"
#include "kernel/time.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/chain.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/pmi.h"
#include "tests/lib/rig.h"
#include "tests/lib/statistics.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A branch tracer without any trace hardware: the trap flag, and a #DB handler that stores a
 * record wherever the instruction pointer does not simply go on. The peer that BTS is measured
 * against. It takes a forward jump over less than 15 bytes for no branch.
 */

/* As large as a BTS record, so that both move the same memory. */
struct stepped_branch {
	uint64_t from, to, flags;
};

/* The one branch of the loop. */
extern const char loop_start[], loop_branch[];

/* The loop is one piece of code for all three: void loop_run(uint64_t n). */
__asm__(".pushsection .text\n\t.globl loop_start, loop_branch\n\t.balign 16\nloop_run:\nloop_start:\n\t"
	"addq $3, %rax\n\txorq %rax, %rdx\n\tleaq 5(%rdx), %rdx\n\t"
	"decq %rdi\nloop_branch:\n\tjnz loop_start\n\tret\n\t.popsection");
void loop_run(uint64_t n);

/* As the hardware would keep them: where the next record goes, where it wraps. */
static struct {
	uint64_t previous; /* the instruction that has just been executed */
	struct stepped_branch *next, *base, *end;
	uint64_t stored;
} stepper __attribute__((used));

/*
 * Offsets: previous 0, next 8, base 16, end 24, stored 32. Instructions in sequence, four of five
 * here, take the straight way: RCX is where it was less where it goes on, -15 to -1.
 */
__asm__(".pushsection .text\n\t.balign 16\nstepper_entry:\n\t"
	"pushq %rax\n\tpushq %rcx\n\tmovq 16(%rsp), %rax\n\t"
	"movq stepper(%rip), %rcx\n\tmovq %rax, stepper(%rip)\n\t"
	"subq %rax, %rcx\n\tcmpq $-15, %rcx\n\tjb 1f\n\t"
	"popq %rcx\n\tpopq %rax\n\tiretq\n"
	"1:\tpushq %rdx\n\taddq %rax, %rcx\n\tmovq stepper+8(%rip), %rdx\n\t"
	"movq %rcx, (%rdx)\n\tmovq %rax, 8(%rdx)\n\tmovq $0, 16(%rdx)\n\t"
	"addq $24, %rdx\n\tcmpq stepper+24(%rip), %rdx\n\tjne 2f\n\t"
	"movq stepper+16(%rip), %rdx\n"
	"2:\tmovq %rdx, stepper+8(%rip)\n\tincq stepper+32(%rip)\n\t"
	"popq %rdx\n\tpopq %rcx\n\tpopq %rax\n\tiretq\n\t.popsection");
extern const char stepper_entry[];
_Static_assert(sizeof(struct stepped_branch) == 24, "the handler counts on it");

/*
 * The workload: `n` times five instructions, the fifth a branch back; n - 1 of them are taken. Runs
 * it with IF = 0 and IA32_DEBUGCTL = `debugctl` under a rig; its cycles go into `cycles`.
 */
static void loop_recorded(uint64_t debugctl, uint64_t n, uint64_t *cycles)
{
	uint64_t flags = interrupts_save(), start = tsc_read();

	wrmsr(IA32_DEBUGCTL, debugctl);
	loop_run(n);
	wrmsr(IA32_DEBUGCTL, 0);
	*cycles = tsc_read() - start;
	interrupts_restore(flags);
}

/* TF acts from the instruction after POPF on, and once more on the POPF that clears it. */
static void step(uint64_t n)
{
	uint64_t rax = 0, rdx = 0;

	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\t"
			 "leaq 1f(%%rip), %%rax\n\tmovq %%rax, stepper(%%rip)\n\t"
			 "popfq\n"
			 "1:\tcall loop_run\n\t"
			 "pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq"
			 : "+a"(rax), "+d"(rdx), "+D"(n)
			 :
			 : "memory", "cc");
}

/*
 * The same by single steps into the `size` records of `ring`, round and round: how many it stored.
 * Preemption off.
 */
static uint64_t loop_stepped(struct stepped_branch *ring, size_t size, uint64_t n, uint64_t *cycles)
{
	uint64_t flags = interrupts_save(), start;

	stepper.base = stepper.next = ring;
	stepper.end = ring + size;
	stepper.stored = 0;
	own_idt_begin(VECTOR_DB, stepper_entry, false);
	own_idt_load();
	start = tsc_read();
	step(n);
	*cycles = tsc_read() - start;
	own_idt_unload();
	__asm__ volatile("mov %0, %%dr6" : : "r"(DR6_RESET));
	interrupts_restore(flags);
	return stepper.stored;
}

#define RUNS 5

static uint64_t median_cycles(uint64_t debugctl, uint64_t n)
{
	uint64_t cycles[RUNS];

	for (unsigned run = 0; run < RUNS; run++)
		loop_recorded(debugctl, n, &cycles[run]);
	return distribution(cycles, RUNS).median;
}

TEST(bts_bench_branch, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: cycles of a loop of five instructions, one branch, untraced and traced",
     .source = "docs/bts.md#costs")
{
	uint64_t n = test_scaled(10000);

	RIG(rig, 1024);
	test_figure("branch_untraced", median_cycles(0, n) * 1000 / n, "cycles_per_1000");
	test_figure("branch_traced", median_cycles(rig_all(), n) * 1000 / n, "cycles_per_1000");
}

#define SLOTS 1024

static void check_stepped(const struct stepped_branch *ring, uint64_t stored, uint64_t n)
{
	const struct stepped_branch *second = &ring[1];

	EXPECT_EQ(stored, n + 1); /* call, n - 1 times back, return */
	EXPECT_EQ(second->from, (uint64_t)loop_branch);
	EXPECT_EQ(second->to, (uint64_t)loop_start);
}

TEST(bts_bench_single_step, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim =
	     "figure: branches per second of BTS over those of a tracer by single steps, in percent",
     .source = "docs/design.md#budgets")
{
	struct stepped_branch *ring = test_area(SLOTS * sizeof(*ring) / 4096);
	uint64_t n = test_scaled(10000), by_bts[RUNS], by_steps[RUNS];

	RIG(rig, SLOTS);
	loop_stepped(ring, SLOTS, 8, &by_steps[0]);
	check_stepped(ring, 9, 8);
	for (unsigned run = 0; run < RUNS; run++) {
		EXPECT_EQ(loop_stepped(ring, SLOTS, n, &by_steps[run]), n + 1);
		loop_recorded(rig_all(), n, &by_bts[run]);
	}
	rig_expect(&rig, 500, loop_branch, loop_start);
	test_figure("bts_over_single_step",
		    distribution(by_steps, RUNS).median * 100 / distribution(by_bts, RUNS).median,
		    "percent");
	test_figure("single_step_branch", distribution(by_steps, RUNS).median / n, "cycles");
}

TEST(bts_bench_stepper, .group = "bench", .ids = "",
     .claim = "figure: cycles of a branch in the loop, for a tracer by single steps",
     .source = "docs/design.md#budgets")
{
	struct stepped_branch *ring = test_area(SLOTS * sizeof(*ring) / 4096);
	uint64_t n = test_scaled(10000), cycles[RUNS];

	check_stepped(ring, loop_stepped(ring, SLOTS, 8, &cycles[0]), 8);
	for (unsigned run = 0; run < RUNS; run++)
		EXPECT_EQ(loop_stepped(ring, SLOTS, n, &cycles[run]), n + 1);
	test_figure("stepper_branch", distribution(cycles, RUNS).median / n, "cycles");
}

TEST(bts_bench_fault_records, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figure: records from a fault in the kernel to the instruction it goes on at",
     .source = "docs/bts.md#costs: 400 records on the path of SIGSEGV in 2008")
{
	RIG(rig, 1024);
	EXACTLY (&rig)
		TRACED(rig_all(), "1:\tud2\n2:\tnop\n\t" EXCEPTION_TABLE("1b", "2b"));
	EXPECT(rig_count(&rig) >= 2);
	test_figure("fault_records", rig_count(&rig), "records");
}

TEST(bts_bench_skid, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: records between the threshold and its interrupt, and its handler",
     .source = "docs/bts.md#costs")
{
	size_t runs = test_scaled(200);
	struct skid skid;

	skid_measure(&skid, runs < SKID_MOST ? runs : SKID_MOST);
	EXPECT_EQ(skid.missing + skid.early, 0);
	test_figure("skid_interrupt_least", skid.recorded.least, "records");
	test_figure("skid_interrupt_median", skid.recorded.median, "records");
	test_figure("skid_interrupt_most", skid.recorded.most, "records");
	test_figure("skid_handler_least", skid.read.least, "records");
	test_figure("skid_handler_median", skid.read.median, "records");
	test_figure("skid_handler_most", skid.read.most, "records");
}

static void execute_cpuid(void)
{
	uint32_t eax = 0, ebx, ecx = 0, edx;

	__asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
}

static void write_lapic(void)
{
	lapic_set_task_priority(0);
}

/* Cycles of one call, the median of the runs. */
static uint64_t cycles_of(void (*call)(void), size_t n)
{
	uint64_t cycles[RUNS];

	for (unsigned run = 0; run < RUNS; run++) {
		uint64_t flags = interrupts_save(), start = tsc_read();

		for (size_t i = 0; i < n; i++)
			call();
		cycles[run] = (tsc_read() - start) / n;
		interrupts_restore(flags);
	}
	return distribution(cycles, RUNS).median;
}

TEST(bts_bench_exits, .group = "bench", .ids = "",
     .claim = "figures: cycles of CPUID and of a write to the local APIC while nothing is traced",
     .source = "docs/design.md#budgets")
{
	size_t n = test_scaled(300);

	test_figure("exit_cpuid", cycles_of(execute_cpuid, n), "cycles");
	test_figure("exit_lapic", cycles_of(write_lapic, n), "cycles");
}

#define RECORDS 16384
#define BYTES	(RECORDS * sizeof(struct ptrace_bts_record))
#define DRAINS	9

struct round {
	uint64_t recording, draining, copying; /* cycles */
};

/*
 * A task reads its own trace; its own calls are in it, but for the walk's branches they are few.
 * The bytes are copied right after, on a host that may be busier a moment later.
 */
static struct round run(struct ptrace_bts_record *records, struct ptrace_bts_record *copy)
{
	struct bts_options options = {.view = TRACE_USER | TRACE_KERNEL,
				      .privileged = true,
				      .overflow = TRACE_WRAP,
				      .size = BYTES};
	struct tracer *tracer;
	struct round round;
	uint64_t start;

	REQUIRE_EQ(bts_attach(current_task(), 0, &options, &tracer), 0);
	start = tsc_read();
	chain_walk(&chain_a, 2 * RECORDS);
	round.recording = tsc_read() - start;
	options.paused = true;
	EXPECT_EQ(bts_change(tracer, &options), 0);
	start = tsc_read();
	EXPECT_EQ(bts_read(tracer, records, RECORDS), RECORDS);
	round.draining = tsc_read() - start;
	EXPECT(trace_detach(tracer));
	start = tsc_read();
	memcpy(copy, records, BYTES);
	round.copying = tsc_read() - start;
	return round;
}

static struct round median(void)
{
	struct ptrace_bts_record *records = test_area(BYTES / PAGE_SIZE);
	struct ptrace_bts_record *copy = test_area(BYTES / PAGE_SIZE);
	uint64_t recording[DRAINS], draining[DRAINS], copying[DRAINS];

	for (unsigned i = 0; i < DRAINS; i++) {
		struct round round = run(records, copy);

		recording[i] = round.recording;
		draining[i] = round.draining;
		copying[i] = round.copying;
	}
	return (struct round){distribution(recording, DRAINS).median,
			      distribution(draining, DRAINS).median,
			      distribution(copying, DRAINS).median};
}

TEST(bts_bench_drain, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim =
	     "figures: reading a buffer over copying its bytes; what interrupts at thresholds cost",
     .source = "docs/design.md#budgets")
{
	struct round circular = median(), linear;
	struct bts_options other = {.overflow = TRACE_WRAP, .size = 4096};
	struct tracer *second;

	REQUIRE_EQ(bts_attach(current_task(), 0, &other, &second), 0);
	linear = median();
	EXPECT(trace_detach(second));
	test_figure("drain_over_memcpy", circular.copying * 100 / circular.draining, "percent");
	test_figure("record_circular", circular.recording * 1000 / (2 * RECORDS),
		    "cycles_per_1000");
	test_figure("record_linear", linear.recording * 1000 / (2 * RECORDS), "cycles_per_1000");
}

#define SLICE_RECORDS 65536
#define SLICES	      8
#define MOST	      64
#define MOST_TIME     5000000 /* microseconds */

static void spin(void *argument)
{
	(void)argument;
	for (;;)
		__asm__ volatile("");
}

/* The records between the two stamps of each stay on the CPU. */
static size_t collect(const struct ptrace_bts_record *records, size_t count, uint64_t slices[MOST])
{
	size_t found = 0, first = count;

	for (size_t at = 0; at < count && found < MOST; at++) {
		if (records[at].qualifier == PTRACE_BTS_TASK_ARRIVES)
			first = at + 1;
		if (records[at].qualifier == PTRACE_BTS_TASK_DEPARTS && first < at)
			slices[found++] = at - first;
	}
	return found;
}

TEST(bts_bench_slice, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figures: what a task that branches all the time leaves in a slice of a millisecond",
     .source = "docs/bts.md#costs: more than 512 KiB in Linux")
{
	const struct bts_options options = {.view = TRACE_USER | TRACE_KERNEL,
					    .privileged = true,
					    .overflow = TRACE_STOP,
					    .stamps = true,
					    .size = SLICE_RECORDS *
						    sizeof(struct ptrace_bts_record)};
	struct ptrace_bts_record *records = test_area(options.size / PAGE_SIZE);
	uint64_t slices[MOST], end = clock_us() + MOST_TIME, middle;
	struct tracer *tracer;
	struct task *task;
	size_t found;

	test_pin();
	task = test_task("slices", spin, NULL);
	if (bts_attach(task, 0, &options, &tracer))
		test_error("the task cannot be traced");
	task_start(task);
	while (task->switches < SLICES && clock_us() < end)
		;
	task_kill(task);
	task_join(task);
	found = collect(records, bts_read(tracer, records, SLICE_RECORDS), slices);
	REQUIRE(found > 0);
	middle = distribution(slices, found).median;
	test_figure("slice_records", middle, "records");
	test_figure("slice_bytes", middle * ds_configuration->record_size, "bytes");
	EXPECT(trace_detach(tracer));
	test_task_put(task);
}

enum { ROUNDS = 2000, PERIOD = 9 };

static uint64_t loop_time(struct pebs *pebs, uint64_t counters)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < 20; i++) {
		uint64_t began;

		pebs_set(pebs, DS_PEBS_INDEX, pebs->base);
		began = tsc_read();
		SAMPLED(counters, "movl $2000, %%ebx\n1: decl %%ebx\n\tjnz 1b");
		if (tsc_read() - began < best)
			best = tsc_read() - began;
	}
	return best;
}

TEST(pebs_bench_sample, .group = "bench", .ids = "", .needs = NEED_PEBS,
     .claim = "cost of an instruction whose branch is counted, and of a sample",
     .source = "docs/design.md#interrupt-at-the-threshold")
{
	uint64_t plain, counted, sampled, samples;

	if (!ds_caps()->pebs_format)
		test_skip("the buffer of format 0 is too small");
	PEBS(pebs, 256);
	plain = loop_time(&pebs, 0);
	pebs_count_plainly(&pebs);
	counted = loop_time(&pebs, 1);
	pebs_arm(&pebs, 0, PERIOD);
	sampled = loop_time(&pebs, 1);
	samples = ROUNDS / (PERIOD + 1);
	test_figure("instruction_uncounted", plain * 100 / (2 * ROUNDS), "cycles/100");
	test_figure("instruction_counted", counted / (2 * ROUNDS), "cycles");
	test_figure("pebs_sample", sampled > counted ? (sampled - counted) / samples : 0, "cycles");
	EXPECT(pebs_count(&pebs) > 0);
}
