// SPDX-License-Identifier: MIT
// Programs that trace with every unit end or are killed at any moment, on all CPUs at once.
#include "drivers/ds/ds.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "tests/framework/needs.h"
#include "tests/framework/pages.h"
#include "tests/lib/insntrace.h"
#include "tests/lib/programs.h"
#include "tests/lib/walker.h"

#define ROUNDS	4
#define TRACERS 3
#define WALKS	60

static struct process *tracers[TRACERS];

static uint64_t argument(void)
{
	bool samples = !needs_missing(NEED_SAMPLES), packets = !needs_missing(NEED_PT);
	uint64_t units = 1u | (unsigned)samples << 1 | (unsigned)packets << 2 |
			 (unsigned)(packets && pt_caps()->topa_many) << 3;

	return (test_random() & 0xffff) | units << 16 | (uint64_t)cpu_count() << 24;
}

/* Each stops when all that it traces is traced. */
static void start(void)
{
	for (unsigned i = 0; i < TRACERS; i++)
		tracers[i] = program_start("dying_tracer", argument());
	for (unsigned i = 0; i < TRACERS; i++)
		EXPECT_EQ(program_await(tracers[i], true), WAIT_STOPPED(SIGSTOP));
	for (unsigned i = 0; i < TRACERS; i++)
		process_signal(tracers[i], SIGCONT);
}

/* The first is killed, the others at random. */
static void end(void)
{
	for (unsigned i = 0; i < TRACERS; i++) {
		bool killed = !i || test_random() % 2;
		int status;

		task_sleep(test_random() % 3000);
		if (killed)
			process_signal(tracers[i], SIGKILL);
		status = program_end(tracers[i]);
		if (!EXPECT(status == WAIT_EXITED(0) || (killed && status == WAIT_KILLED(SIGKILL))))
			program_note_end("dying_tracer", status);
	}
}

static void expect_nothing_left(uint64_t before, uint64_t largest, uint64_t tables)
{
	EXPECT_EQ(pages_missing(before), 0);
	tables = vm_table_count() - tables;
	if (needs_missing(NEED_PT))
		return;
	EXPECT_EQ(insntrace_traced_cpus(), 0);
	EXPECT(insntrace_can_have(1, largest - tables, INSNTRACE_ORDER_MOST));
}

static void move(struct walker *walker)
{
	task_set_affinity(walker->task, cpu_set_of(walker->walked % cpu_count()));
}

TEST(smp_tracers_die, .group = "S", .ids = "S1 PT51", .needs = NEED_BTS,
     .claim =
	     "programs that trace with every unit and end or are killed at any moment leave no "
	     "CPU traced and no memory taken, and a task that is traced beside them loses no branch",
     .source = "docs/design.md#ownership")
{
	uint64_t rounds = 0;

	for (; rounds < test_scaled(ROUNDS) && test_has_time(); rounds++) {
		uint64_t before = programs_begin(), tables = vm_table_count();
		uint64_t largest = insntrace_largest();
		struct walker walker = {.name = "beside",
					.chain = &chain_a,
					.walks = WALKS,
					.options = walker_options(WALKS * 1024),
					.between = move};

		/* Where the processor cannot do both at once, it keeps every session of PT away. */
		if (rounds % 2)
			walkers_start(&walker, 1);
		start();
		end();
		if (rounds % 2) {
			walkers_join_reading(&walker, 1);
			walkers_check(&walker, 1);
		}
		process_kill_all();
		expect_nothing_left(before, largest, tables);
		programs_end(before);
	}
	EXPECT(rounds > 0);
}
