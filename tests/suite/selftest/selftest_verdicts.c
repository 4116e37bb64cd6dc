// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/clock/hpet.h"
#include "drivers/ds/ds.h"
#include "drivers/processor.h"
#include "drivers/pt/pt.h"
#include "drivers/pt/registers.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/lock.h"
#include "kernel/mm/vm.h"
#include "kernel/restart.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "kernel/watchdog.h"
#include "tests/framework/pages.h"
#include "tests/framework/test.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/programs.h"
#include "tests/lib/walker.h"

TEST(selftest_fail, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a check that does not hold is a FAIL and shows both values",
     .source = "docs/design.md#verdicts")
{
	volatile uint64_t two = 2;

	EXPECT_EQ(two + two, 5);
	REQUIRE(two == 3);
	test_error("a REQUIRE that failed let the test go on");
}

TEST(selftest_error, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that cannot do its work is an ERROR", .source = "docs/design.md#verdicts")
{
	EXPECT_EQ(sizeof(uint64_t), 8);
	test_error("on purpose: %d", 42);
}

TEST(selftest_silent, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that checks and observes nothing is an ERROR",
     .source = "docs/design.md#verdicts")
{
	test_note("nothing is checked here");
}

TEST(selftest_disturbed, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that fails beside an NMI of another source runs again",
     .source = "docs/design.md#verdicts")
{
	static unsigned turns;
	uint64_t flags;

	if (turns++) {
		EXPECT_EQ(turns, 2);
		return;
	}
	flags = interrupts_save();
	lapic_self_nmi();
	interrupts_restore(flags);
	EXPECT(false && "the NMI spoils what it counts");
}

TEST(selftest_skip, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that finds out while it runs that something is missing is a SKIP",
     .source = "docs/design.md#verdicts")
{
	test_skip("the moon is not full");
}

TEST(selftest_slow, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim =
	     "a test that this machine gives too little time is a SKIP, which the DONE line counts",
     .source = "docs/console.md")
{
	EXPECT(test_has_time());
	test_slow("%u of %u sheep were counted", 3, 5);
}

TEST(selftest_fail_and_skip, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that failed before it finds out that something is missing is a FAIL",
     .source = "docs/design.md#verdicts")
{
	EXPECT_EQ(2 + 2, 5);
	test_skip("the moon is not full");
}

TEST(selftest_leak, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that keeps memory is a FAIL", .source = "docs/design.md#verdicts")
{
	EXPECT(page_alloc() != 0);
}

static void write_for_ever(void *argument)
{
	for (volatile uint8_t *at = argument;; *at = 1)
		task_yield();
}

TEST(selftest_left_task, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "where a test ends midway its tasks end before the memory that they use is freed",
     .source = "docs/design.md#verdicts")
{
	task_start(test_task("writes", write_for_ever, test_area(1)));
	task_sleep(10000);
	REQUIRE_EQ(2 + 2, 5);
}

TEST(selftest_left_lent, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that keeps the debug MSRs, or interrupts waiting, is a FAIL",
     .source = "docs/design.md#verdicts")
{
	lapic_set_task_priority(0xf0);
	msrs_borrow();
}

TEST(selftest_fault, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "an exception that a test did not expect is its ERROR, and the run goes on",
     .source = "docs/design.md#verdicts")
{
	__asm__ volatile("ud2");
}

static bool ask_of_fault(struct trap_frame *frame)
{
	(void)frame;
	panic("a handler of a test that is over is asked");
}

/* Its own IDT, interrupts off and made to wait, the debug MSRs borrowed, a handler of NMIs: all of
   it is put back. */
TEST(selftest_fault_lent, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that faults with the debug MSRs borrowed is an ERROR, and the run goes on",
     .source = "docs/design.md#verdicts")
{
	lapic_self_nmi();
	msrs_borrow();
	test_handle_nmis(ask_of_fault);
	own_idt_begin(VECTOR_TEST, own_handler_return, false);
	interrupts_save();
	own_idt_load();
	lapic_set_task_priority(0xf0);
	__asm__ volatile("movb $0, 8");
}

/* From here on, in a ring that nobody reads. */
static void record(struct task *task)
{
	struct bts_options options = walker_options(1024);
	struct tracer *tracer;

	options.overflow = TRACE_WRAP;
	EXPECT_EQ(bts_attach(task, 0, &options, &tracer), 0);
}

TEST(selftest_fault_traced, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_BTS,
     .claim = "a traced test that faults is an ERROR that shows its newest branches",
     .source = "docs/design.md#verdicts")
{
	record(current_task());
	chain_walk(&chain_a, 40);
	__asm__ volatile("ud2");
}

TEST(selftest_fault_locked, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "an exception with a spinlock held is a panic", .source = "docs/design.md#verdicts")
{
	static struct spinlock lock;
	uint64_t flags = spin_lock(&lock);

	__asm__ volatile("ud2");
	spin_unlock(&lock, flags);
}

static void fault(struct trap_frame *frame)
{
	(void)frame;
	__asm__ volatile("ud2");
}

TEST(selftest_fault_handler, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "an exception in an interrupt handler is a panic, whatever borrowed the debug MSRs",
     .source = "docs/design.md#verdicts")
{
	interrupt_set_handler(VECTOR_TEST, fault);
	msrs_borrow();
	__asm__ volatile("int %0" : : "i"(VECTOR_TEST));
}

static void faulty_task(void *argument)
{
	(void)argument;
	__asm__ volatile("ud2");
}

TEST(selftest_fault_elsewhere, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "an exception in a task that is not the test's own is a panic",
     .source = "docs/design.md#verdicts")
{
	struct task *task = task_create("faulty", faulty_task, NULL);

	REQUIRE(task != NULL);
	task_join(task);
}

TEST(selftest_hang, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that hangs with interrupts on is ended by the timer: FAIL",
     .source = "docs/design.md#deadlines")
{
	for (;;)
		__asm__ volatile("pause");
}

TEST(selftest_hang_program, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a program that does not end is killed: its test is a FAIL, and the run goes on",
     .source = "docs/design.md#deadlines")
{
	PROGRAMS(before);

	EXPECT_EQ(program_run("spin", 0), WAIT_EXITED(0));
}

TEST(selftest_hang_interrupts_off, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that hangs with interrupts off is ended by the watchdog's NMI: FAIL",
     .source = "docs/design.md#deadlines")
{
	__asm__ volatile("cli");
	for (;;)
		__asm__ volatile("pause");
}

TEST(selftest_hang_traced, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_BTS,
     .claim = "a traced test that hangs with interrupts off is ended by the watchdog's NMI: FAIL",
     .source = "docs/design.md#deadlines")
{
	record(current_task());
	__asm__ volatile("cli");
	for (;;)
		__asm__ volatile("pause");
}

static void endless_task(void *argument)
{
	(void)argument;
	for (;;)
		__asm__ volatile("pause");
}

TEST(selftest_hang_waits, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a test that waits without end is an ERROR; the kernel starts again",
     .source = "docs/design.md#restart")
{
	struct task *task = task_create("endless", endless_task, NULL);

	REQUIRE(task != NULL);
	task_join(task);
}

TEST(selftest_hang_leaves, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "after a hang that leaves a task the kernel starts again",
     .source = "docs/design.md#restart")
{
	REQUIRE(task_create("endless", endless_task, NULL) != NULL);
	for (;;)
		__asm__ volatile("pause");
}

TEST(selftest_pmi_storm, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a performance-monitoring interrupt that nothing explains and that repeats without "
	      "end is a panic",
     .source = "docs/design.md#interrupt-at-the-threshold")
{
	for (;;) /* at the same instruction each time */
		lapic_self_ipi(VECTOR_PMI);
}

TEST(selftest_panic_mid_line, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a panic in the middle of a line begins a new one", .source = "docs/console.md")
{
	printk("# half a line, and then");
	panic("in the middle of a line");
}

/* In the midst of what the panic prints. */
#define SOON 300 /* microseconds */

TEST(selftest_panic_nmi, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "an NMI does not stop the CPU that panics", .source = "docs/console.md")
{
	watchdog_disarm();
	hpet_nmi_after(SOON);
	panic("an NMI is to come");
}

TEST(selftest_panic_traced, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_BTS,
     .claim = "a panic in a traced task prints registers, backtrace and the newest 32 branches",
     .source = "docs/design.md#last-branches-in-a-panic")
{
	record(current_task());
	interrupts_save(); /* as with a spinlock held: the end of one test is not enough */
	chain_walk(&chain_a, 40);
	__asm__ volatile("ud2");
}

/* The stack has a few branches of the way from the exception to where it is stopped. */
TEST(selftest_panic_newest, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_LBR,
     .claim = "a panic in a task whose newest branches are traced prints those of the LBR stack "
	      "where no branch trace is loaded, and says how many entries the way there took",
     .source = "docs/design.md#last-branches-in-a-panic")
{
	const struct branch_stack_options options = {
		.flags = PTRACE_LBR_USER | PTRACE_LBR_KERNEL, .entries = 32, .privileged = true};
	struct tracer *tracer;

	EXPECT_EQ(branch_stack_attach(current_task(), 0, &options, &tracer), 0);
	interrupts_save();
	chain_walk(&chain_a, 40);
	__asm__ volatile("ud2");
}

static atomic_uint walks[MAX_CPUS]; /* that came to their end */

static void walk_on(void *argument)
{
	for (;;) {
		chain_walk(&chain_b, 40);
		atomic_fetch_add((atomic_uint *)argument, 1);
	}
}

/* Until each of the others has begun and ended a walk since the call. */
static void await_walks(void)
{
	for (unsigned i = 1; i < cpu_count(); i++) {
		unsigned ended = atomic_load(&walks[i]);

		while (atomic_load(&walks[i]) < ended + 2)
			task_sleep(1000);
	}
}

static void trace_walker(struct task *task, bool newest)
{
	const struct branch_stack_options stack = {
		.flags = PTRACE_LBR_USER | PTRACE_LBR_KERNEL, .entries = 32, .privileged = true};
	struct tracer *tracer;

	record(task);
	EXPECT(!newest || !branch_stack_attach(task, 0, &stack, &tracer));
}

/* Each of the others walks when it stops. */
static void trace_walkers(bool newest)
{
	for (unsigned i = 1; i < cpu_count(); i++) {
		struct task *task = test_task("walks on", walk_on, &walks[i]);

		test_keep_on(task, i);
		trace_walker(task, newest);
		task_start(task);
	}
	await_walks();
}

TEST(selftest_panic_frozen, .group = "selftest", .ids = "I14",
     .needs = NEED_SELFTEST | NEED_BTS | NEED_SMP,
     .claim = "with freeze=panic a panic prints the newest branches of each CPU, and when it "
	      "stopped",
     .source = "docs/ptrace-freeze.2, NOTES")
{
	trace_walkers(false);
	test_pin();
	interrupts_save();
	panic("with all CPUs traced");
}

/* tools/view/tests/panic.sh reads the three records of each CPU out of the log, and compares. */
TEST(selftest_panic_units, .group = "selftest", .ids = "I14",
     .needs = NEED_SELFTEST | NEED_BTS | NEED_LBR | NEED_PT | NEED_SMP,
     .claim = "with freeze=panic a panic prints of each CPU what BTS, the LBR stack and Intel PT "
	      "recorded at once, up to where they stopped",
     .source = "docs/ptrace-freeze.2, NOTES")
{
	struct insntrace_config config = insntrace_config(4, 0, INSNTRACE_CIRCULAR);

	if (ds_caps()->suspended_by_pt || !pt_caps()->topa_many)
		test_skip("Intel PT suspends BTS, or has one chunk");
	config.control = RTIT_CTL_OS | RTIT_CTL_USER | RTIT_CTL_BRANCH_EN;
	trace_walkers(true);
	insntrace_open(NULL, &config);
	REQUIRE_EQ(insntrace_start(NULL), 0);
	await_walks();
	test_pin();
	trace_walker(current_task(), true);
	interrupts_save();
	chain_walk(&chain_a, 40);
	__asm__ volatile("ud2");
}

static void panic_locked(void *argument)
{
	static struct spinlock lock;

	(void)argument;
	spin_lock(&lock);
	panic("with a lock held");
}

TEST(selftest_panic_locked, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_SMP,
     .claim = "a panic of the last CPU, with a lock held: the kernel starts again",
     .source = "docs/design.md#restart")
{
	struct task *task = test_task("panics", panic_locked, NULL);

	test_keep_on(task, cpu_count() - 1);
	task_start(task);
	task_join(task);
}

static void print_lines(void *argument)
{
	(void)argument;
	for (;;)
		printk("# a line that another CPU prints, to its end\n");
}

/* tests/runner/restart.sh looks at each line. */
TEST(selftest_panic_beside_lines, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_SMP,
     .claim = "a panic cuts no line that another CPU prints", .source = "docs/console.md")
{
	struct task *task = test_task("prints", print_lines, NULL);

	test_pin();
	test_keep_on(task, (this_cpu()->index + 1) % cpu_count());
	task_start(task);
	task_sleep(2000);
	panic("beside a CPU that prints");
}

static unsigned deaf_cpu;
static atomic_bool deaf;

/* In memory that a kernel after this one may use otherwise. */
static void record_packets(void)
{
	static uint8_t packets[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));

	if (!pt_caps()->single_range)
		return;
	wrmsr(IA32_RTIT_OUTPUT_BASE, (uint64_t)packets - KERNEL_BASE);
	wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, PAGE_SIZE - 1);
	wrmsr(IA32_RTIT_CTL, RTIT_CTL_TRACE_EN | RTIT_CTL_OS | RTIT_CTL_BRANCH_EN);
}

/* A handler of an NMI that does not return lets no other in. */
static bool stay_deaf(struct trap_frame *frame)
{
	(void)frame;
	if (this_cpu()->index != deaf_cpu)
		return false;
	record_packets();
	atomic_store(&deaf, true);
	for (;;)
		__asm__ volatile("pause");
}

static _Noreturn void panic_beside_deaf(unsigned index)
{
	deaf_cpu = index;
	nmi_add_handler(stay_deaf);
	interrupts_save();
	lapic_send_nmi(cpu_by_index(index)->apic_id);
	while (!atomic_load(&deaf))
		__asm__ volatile("pause");
	panic("CPU %u answers no NMI", index);
}

TEST(selftest_panic_deaf, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_SMP,
     .claim = "INIT stops a CPU that is deaf to NMIs", .source = "docs/design.md#restart")
{
	EXPECT(cpu_count() > 1);
	panic_beside_deaf(cpu_count() - 1);
}

TEST(selftest_panic_deaf_after, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_SMP,
     .claim = "after that no CPU has a trace unit on when it starts",
     .source = "docs/design.md#restart")
{
	EXPECT_EQ(trace_found_at_start(), 0);
}

TEST(selftest_panic_boot_deaf, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_SMP,
     .claim = "a boot CPU that answers no NMI starts no kernel: a panic ends the run",
     .source = "docs/design.md#restart")
{
	EXPECT(this_cpu()->index != 0);
	panic_beside_deaf(0);
}

#define NO_PROCESSOR 0xfdu /* an APIC id: an IPI to it arrives nowhere */

TEST(selftest_panic_boot_gone, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_SMP,
     .claim = "a boot CPU that has stopped and answers no further NMI starts no kernel: a panic "
	      "ends the run",
     .source = "docs/design.md#restart")
{
	EXPECT(this_cpu()->index != 0);
	interrupts_save();
	watchdog_disarm(); /* its NMI would hand over as well */
	smp_stop_others();
	cpu_by_index(0)->apic_id = NO_PROCESSOR;
	panic("the boot CPU answers one NMI only");
}

TEST(selftest_panic_no_init, .group = "selftest", .ids = "", .needs = NEED_SELFTEST | NEED_SMP,
     .claim = "beside a CPU that answers no INIT no kernel starts: a panic ends the run",
     .source = "docs/design.md#restart")
{
	EXPECT(cpu_count() > 1);
	interrupts_save();
	cpu_by_index(cpu_count() - 1)->apic_id = NO_PROCESSOR;
	panic("CPU %u answers no INIT", cpu_count() - 1);
}

TEST(selftest_panic_damaged, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "no kernel starts from a damaged copy", .source = "docs/design.md#restart")
{
	uint8_t *copy = (uint8_t *)(uintptr_t)restart_copy();

	REQUIRE(copy != NULL);
	page_protect((uint64_t)copy, VM_WRITE);
	copy[0] ^= 1;
	panic("the copy is damaged");
}

TEST(selftest_double_fault, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a double fault is a panic", .source = "SDM Vol 3, 6.15: double fault")
{
	__asm__ volatile("cli\n\txorl %esp, %esp\n\tpushq %rax");
}

TEST(selftest_triple_fault, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a processor that shuts down ends the run without a verdict: never a pass",
     .source = "SDM Vol 3, 6.15: double fault")
{
	static const struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) no_gates = {0, 0};

	__asm__ volatile("cli\n\tlidt %0\n\tud2" : : "m"(no_gates));
}
