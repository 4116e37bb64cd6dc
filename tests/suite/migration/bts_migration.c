// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "drivers/ds/registers.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/context.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/rig.h"
#include "tests/lib/viewer.h"
#include "tests/lib/walker.h"

#include <stdint.h>

/* CPUs that record at the same time. */

#define MOST	  8
#define OWN_WALKS 100

struct one {
	struct user_chain user;
	struct walker walker;
	struct viewer viewer;
};

static atomic_uint missing; /* that have not made their first walk */

/* From here on all walk at the same time. */
static void wait_for_others(struct walker *walker)
{
	if (walker->walked > 1)
		return;
	atomic_fetch_sub(&missing, 1);
	while (atomic_load(&missing))
		__asm__ volatile("pause");
}

static void prepare_one(struct one *one, unsigned cpu)
{
	const struct bts_options options = viewer_options(TRACE_USER, OWN_WALKS);

	user_chain_open(&one->user, cpu);
	one->walker = (struct walker){.name = "own",
				      .chain = &chain_a,
				      .walks = OWN_WALKS,
				      .user = &one->user,
				      .between = wait_for_others};
	walkers_create(&one->walker, 1);
	test_keep_on(one->walker.task, cpu);
	viewer_open_cpu(&one->viewer, &one->walker, cpu, &options);
}

static void finish(struct one *one)
{
	walkers_join(&one->walker, 1);
	viewer_expect(&one->viewer, OWN_WALKS);
	viewer_close(&one->viewer);
	walker_end(&one->walker);
	user_chain_close(&one->user);
}

/*
 * On each CPU of the set (the first eight count) a task walks its own chain in ring 3, with a
 * tracer of the CPU. Fails the test unless each has its own branches, all of them, and no other.
 */
static void per_cpu_traces(const struct cpu_set *cpus)
{
	static struct one ones[MOST];
	unsigned count = 0;

	for (unsigned cpu = 0; cpu < cpu_count() && count < MOST; cpu++)
		if (cpu_set_has(cpus, cpu))
			prepare_one(&ones[count++], cpu);
	EXPECT(count > 1);
	atomic_store(&missing, count);
	for (unsigned i = 0; i < count; i++)
		task_start(ones[i].walker.task);
	for (unsigned i = 0; i < count; i++)
		finish(&ones[i]);
}

TEST(bts_migration_own_branches, .group = "S", .ids = "S1", .needs = NEED_BTS | NEED_SMP,
     .claim = "CPUs that all record at once have each its own branches, and no other's",
     .source = "SDM Vol 3, 17.4.9.5: separate areas, buffers and state for each processor")
{
	struct cpu_set all = cpu_set_all();

	per_cpu_traces(&all);
}

/* SDM Vol 2, CPUID leaf 0BH: EAX[4:0] shifts the thread off the APIC id in EDX. */
static void find_core(void *core)
{
	struct cpuid_result threads = cpuid(0xb, 0);

	*(uint64_t *)core = threads.ebx ? threads.edx >> (threads.eax & 31) : UINT64_MAX;
}

TEST(bts_migration_siblings, .group = "S", .ids = "S5", .needs = NEED_BTS | NEED_SMP,
     .claim = "two threads of one core that record at once have each its own branches",
     .source = "SDM Vol 3, 17.4.9.5: separate areas, buffers and state for each processor")
{
	static uint64_t cores[MAX_CPUS];
	struct cpu_set pair;

	if (cpuid(0, 0).eax < 0xb)
		test_skip("no CPUID leaf 0BH to tell threads of one core");
	for (unsigned i = 0; i < cpu_count(); i++) {
		smp_call(i, find_core, &cores[i]);
		for (unsigned k = 0; k < i; k++) {
			if (cores[i] != cores[k] || cores[i] == UINT64_MAX)
				continue;
			pair = cpu_set_of(i);
			pair.words[k / 64] |= 1ul << k % 64;
			per_cpu_traces(&pair);
			return;
		}
	}
	test_skip("no two CPUs are threads of one core");
}

#define MOVE_WALKS 60

static uint64_t left_recording, moves;

static void look_for_area(void *argument)
{
	(void)argument;
	left_recording +=
		(rdmsr(IA32_DEBUGCTL) & (ds_configuration->tr | ds_configuration->bts)) != 0;
}

static void move_and_look(struct walker *walker)
{
	unsigned from = this_cpu()->index;

	test_keep_on(walker->task, walker->walked % cpu_count());
	if (this_cpu()->index == from)
		return;
	moves++;
	smp_call(from, look_for_area, NULL);
}

static void trace(const struct user_chain *user, enum trace_overflow overflow)
{
	struct walker walker CLOSED_BY(walker_end) = {.name = "moves",
						      .chain = &chain_a,
						      .walks = MOVE_WALKS,
						      .user = user,
						      .between = move_and_look};
	struct bts_options options = viewer_options(TRACE_USER | TRACE_KERNEL, MOVE_WALKS * 4);
	struct viewer viewer CLOSED_BY(viewer_close);

	options.overflow = overflow;
	walkers_create(&walker, 1);
	viewer_open(&viewer, &walker, &options);
	walker_run(&walker);
	viewer_expect(&viewer, MOVE_WALKS);
}

TEST(bts_migration_follows, .group = "S", .ids = "S2", .needs = NEED_BTS | NEED_SMP,
     .claim =
	     "a task that moves from CPU to CPU has all its branches in order, and none goes on recording",
     .source = "docs/design.md#contexts")
{
	USER_CHAIN(user);

	left_recording = moves = 0;
	trace(&user, TRACE_STOP);
	trace(&user, TRACE_WRAP);
	EXPECT(moves >= MOVE_WALKS); /* of two traces */
	EXPECT_EQ(left_recording, 0);
}

#define TASKS 4
#define WALKS 40

static struct user_chain users[TASKS];
static struct walker walkers[TASKS];
static struct viewer viewers[TASKS];
static unsigned disturbances;

static void move(struct walker *walker)
{
	unsigned at = (unsigned)(walker - walkers);

	walker->step = walker->step * 5 + at + 1;
	test_keep_on(walker->task, walker->step % cpu_count());
}

static void prepare(unsigned at)
{
	struct walker *walker = &walkers[at];
	/* Without the hardware's filter the kernel's records are in a circular buffer too. */
	bool few = at % 2 && ds_caps()->filters;
	struct bts_options options = viewer_options(at % 2 ? TRACE_USER : TRACE_USER | TRACE_KERNEL,
						    few ? WALKS : WALKS * 16);

	user_chain_open(&users[at], at);
	*walker = (struct walker){.name = "moves",
				  .chain = at < TASKS / 2 ? &chain_a : &chain_b,
				  .walks = WALKS,
				  .user = &users[at],
				  .between = move};
	walkers_create(walker, 1);
	options.overflow = at < TASKS / 2 ? TRACE_WRAP : TRACE_STOP;
	viewer_open(&viewers[at], walker, &options);
}

/*
 * A tracer that never holds anybody for long, of a task or of a CPU, for a moment. One that stops
 * when full has 4 records at least with stamps.
 */
static bool disturb(void)
{
	const struct walker *walker = &walkers[test_random() % TASKS];
	struct bts_options options = walker_options(4 + test_random() % 200);
	struct tracer *tracer = NULL;
	bool of_cpu = test_random() % 3 == 0;
	size_t available; /* a gap before the oldest record takes no place */
	int error;

	options.overflow = test_random() % 2 ? TRACE_WRAP : TRACE_STOP;
	options.view = 1 + (unsigned)(test_random() % 3);
	options.stamps = test_random() % 2;
	error = of_cpu ? bts_attach(NULL, (unsigned)test_random() % cpu_count(), &options, &tracer)
		       : bts_attach(walker->task, 0, &options, &tracer);
	if (error)
		return error == -ESRCH && walker->task->trace_over;
	disturbances++;
	task_sleep(test_random() % 300);
	available = bts_available(tracer);
	return trace_detach(tracer) &&
	       available <= options.size / sizeof(struct ptrace_bts_record) + options.stamps;
}

static bool all_ended(void)
{
	for (unsigned i = 0; i < TASKS; i++)
		if (!walkers[i].task->ended)
			return false;
	return true;
}

TEST(bts_migration_disturbed, .group = "S", .ids = "S2 S3 S4", .needs = NEED_BTS,
     .claim = "tasks that move lose no branch while tracers of theirs and of CPUs come and go",
     .source = "docs/design.md#tracers")
{
	unsigned wrong = 0;

	disturbances = 0;
	for (unsigned i = 0; i < TASKS; i++)
		prepare(i);
	for (unsigned i = 0; i < TASKS; i++)
		task_start(walkers[i].task);
	while (!all_ended())
		wrong += !disturb();
	EXPECT_EQ(wrong, 0);
	EXPECT(disturbances > 0);
	for (unsigned i = 0; i < TASKS; i++) {
		walkers_join(&walkers[i], 1);
		viewer_expect(&viewers[i], WALKS);
		viewer_close(&viewers[i]);
		walker_end(&walkers[i]);
		user_chain_close(&users[i]);
	}
}

// A CPU's Debug Store MSRs can be written by that CPU only. Releasing a trace from another one
// without asking frees memory that is still being written. Passing means: a release waits until the
// CPU that has the trace loaded has let go of it.

#define ROUNDS 12 /* each waits several times for the other CPU */

struct msrs {
	uint64_t debugctl, area;
	bool loaded; /* a lease is on this CPU */
};

static void read_msrs(void *argument)
{
	*(struct msrs *)argument = (struct msrs){rdmsr(IA32_DEBUGCTL), rdmsr(IA32_DS_AREA),
						 this_cpu()->trace->ds.loaded != NULL};
}

/* A copy of the lease at one moment: the real one may be between two. */
static struct ds_lease wait_until_loaded(const struct tracer *tracer, const struct ds_cpu *cpu)
{
	struct ds_lease lease;

	while ((lease = *(volatile const struct ds_lease *)lease_of(tracer)).cpu != cpu)
		task_yield();
	return lease;
}

static void release(const struct walker *walker, unsigned there)
{
	struct bts_options options = walker_options(64);
	const struct ds_idle *idle = cpu_by_index(there)->trace->ds.idle;
	struct tracer *tracer = NULL;
	struct ds_lease lease;
	struct msrs msrs;

	options.overflow = TRACE_WRAP;
	EXPECT_EQ(bts_attach(walker->task, 0, &options, &tracer), 0);
	do { /* it may be preempted between the two */
		lease = wait_until_loaded(tracer, &cpu_by_index(there)->trace->ds);
		smp_call(there, read_msrs, &msrs);
	} while (!msrs.loaded);
	EXPECT_EQ(ds_release_bts(&this_cpu()->trace->ds, &lease), -EPERM);
	EXPECT_EQ(lease.area, lease_of(tracer)->area);
	EXPECT_EQ(msrs.debugctl, lease.debugctl);
	EXPECT(bts_available(tracer) > 0);
	EXPECT(trace_detach(tracer));
	smp_call(there, read_msrs, &msrs);
	EXPECT_EQ(msrs.debugctl, 0);
	EXPECT_EQ(msrs.area, idle->area);
}

/* Freed memory is not mapped any more: a later record would end the run. */
TEST(bts_migration_release_elsewhere, .group = "S", .ids = "S4", .needs = NEED_BTS | NEED_SMP,
     .claim = "a CPU gives back a trace only by itself; who detaches elsewhere waits until it has",
     .source = "docs/design.md#ownership")
{
	struct walker walker CLOSED_BY(walker_end) = {
		.name = "far", .chain = &chain_a, .walks = UINT64_MAX};
	unsigned there = (this_cpu()->index + 1) % cpu_count();

	walkers_create(&walker, 1);
	test_keep_on(walker.task, there);
	task_start(walker.task);
	for (unsigned i = 0; i < ROUNDS && test_has_time(); i++)
		release(&walker, there);
	task_kill(walker.task);
	walkers_join(&walker, 1);
}

/* --- Two buffers at once, by hand ------------------------------------------------------------- */

/* The last slot may stay unused: W2. */
enum { BESIDE_N = 120, BESIDE_SLOTS = BESIDE_N + 2, BESIDE_TURNS = 30 };
atomic_uint bts_beside; /* 1: the other CPU records; 2: it is to end */

/* Returns when `task` records on the last CPU. The test is on the first one. */
static void begin_beside(struct task *task)
{
	atomic_store(&bts_beside, 0);
	test_keep_on(task, cpu_count() - 1);
	task_start(task);
	while (!atomic_load(&bts_beside))
		__asm__ volatile("pause");
}

/* First of all that CPU, whose IF is 0: anything else may wait for it. */
static void end_beside(struct task *task, struct rig *rig)
{
	atomic_store(&bts_beside, 2);
	wrmsr(IA32_DS_AREA, (uint64_t)rig->area);
	rig_close(rig);
	test_task_end(task);
}

static void expect_own(struct rig *rig, const struct chain *chain)
{
	EXACTLY (rig)
		chain_trace(rig, rig_all(), chain, BESIDE_N);
	EXPECT_EQ(rig_count(rig), BESIDE_N);
	chain_expect(rig, 0, BESIDE_N, chain, BESIDE_N, 0);
}

/* In the second half of the buffer of `argument`. */
static void record_beside(void *argument)
{
	const struct rig *rig = argument;
	struct rig half;

	RIG(own, 1);
	half = own;
	half.slots = BESIDE_SLOTS;
	half.base = rig->base + BESIDE_SLOTS * rig->record;
	ds_set(half.area, DS_BTS_BUFFER_BASE, half.base);
	rig_shorten(&half, BESIDE_SLOTS, 0);
	atomic_store(&bts_beside, 1);
	for (unsigned turn = 0; turn < BESIDE_TURNS; turn++)
		expect_own(&half, &chain_b);
}

TEST(bts_beside_another, .group = "S", .ids = "S1", .needs = NEED_BTS | NEED_SMP,
     .claim = "two CPUs that record the kernel at once have each all of their own branches and "
	      "none of the other's",
     .source = "SDM Vol 3, 17.4.9.5: separate areas, buffers and state for each processor")
{
	struct rig rig, half;
	struct task *task = test_task("beside", record_beside, &rig);

	test_go_to(0);
	rig_open(&rig, 2 * BESIDE_SLOTS);
	half = rig;
	half.slots = BESIDE_SLOTS;
	begin_beside(task);
	for (unsigned turn = 0; turn < BESIDE_TURNS; turn++)
		expect_own(&half, &chain_a);
	end_beside(task, &rig);
}

/* --- The same addresses in two address spaces ------------------------------------------------ */

enum { SHARED_BUFFER = 1024, SHARED_SLOTS = 16 };

/* A page with a DS area and its buffer; at its address another, by the tables from `root` on. */
struct shared {
	uint8_t *page, *other;
	uint64_t root;
};

/* Copies of the tables on the way to `page`, which lead to `other`. They map what there is by now:
 * the stack of the task that is to load them too. */
static void make_root(struct shared *shared)
{
	uint64_t linear = (uint64_t)shared->page, *table, *entry = &shared->root;

	shared->root = pt_own_cr3();
	for (unsigned shift = 39; shift >= 12; shift -= 9) {
		table = (void *)test_area(1);
		memcpy(table, direct(*entry & PTE_ADDRESS), PAGE_SIZE);
		*entry = pt_physical(table) | (*entry & ~PTE_ADDRESS);
		entry = &table[linear >> shift & 511];
	}
	*entry = pt_physical(shared->other) | (*entry & ~PTE_ADDRESS);
}

/* The fields of an area at `page` for a buffer that wraps, into `area`. */
static void fill_area(void *area, const uint8_t *page, size_t bytes)
{
	uint64_t base = (uint64_t)page + SHARED_BUFFER;

	ds_set(area, DS_BTS_BUFFER_BASE, base);
	ds_set(area, DS_BTS_INDEX, base);
	ds_set(area, DS_BTS_ABSOLUTE_MAXIMUM, base + bytes);
	ds_set(area, DS_BTS_INTERRUPT_THRESHOLD, base + 2 * bytes);
}

static void load_root(uint64_t root, const void *page)
{
	__asm__ volatile("movq %0, %%cr3\n\tinvlpg (%1)" : : "r"(root), "r"(page) : "memory");
}

/* On another CPU: a branch round and round the other page until the test is over, the first one
   before anybody can end it. */
static void record_there(void *argument)
{
	const struct shared *shared = argument;
	uint64_t own_root = pt_own_cr3();

	RIG(own, 1);
	fill_area(shared->other, shared->page, SHARED_SLOTS * own.record);
	load_root(shared->root, shared->page);
	wrmsr(IA32_DS_AREA, (uint64_t)shared->page);
	TRACED(rig_all(), "jmp 1f\n1:\tmovl $1, bts_beside(%%rip)\n2:\tpause\n\t"
			  "cmpl $2, bts_beside(%%rip)\n\tjne 2b");
	wrmsr(IA32_DS_AREA, (uint64_t)own.area);
	load_root(own_root, shared->page);
}

TEST(bts_same_address_beside, .group = "S", .ids = "S6", .needs = NEED_BTS | NEED_SMP,
     .claim = "two CPUs record each in its own page where area and "
	      "buffer of both have one linear address",
     .source = "SDM Vol 3, 17.4.9.2: linear addresses; SDM Vol 3, 17.4.9.5")
{
	struct shared shared = {.page = test_area(1), .other = test_area(1)};
	struct task *task = test_task("there", record_there, &shared);
	struct rig rig, own;

	test_go_to(0);
	make_root(&shared);
	rig_open(&rig, BESIDE_SLOTS);
	own = rig;
	own.area = shared.page;
	own.base = (uint64_t)shared.page + SHARED_BUFFER;
	wrmsr(IA32_DS_AREA, (uint64_t)shared.page);
	begin_beside(task);
	for (unsigned turn = 0; turn < BESIDE_TURNS; turn++) {
		fill_area(own.area, own.area, own.slots * own.record);
		expect_own(&own, &chain_a);
	}
	end_beside(task, &rig);
	EXPECT(*(uint64_t *)(void *)(shared.other + SHARED_BUFFER) != 0);
}
