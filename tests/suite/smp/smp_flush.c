// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/time.h"
#include "tests/framework/test.h"

/* One for each other CPU: a task that does nothing but read, so that its translation is cached. */
static struct reader {
	struct task *task;
	atomic_ulong reads, seen;
} readers[MAX_CPUS];
static atomic_bool enough;
static volatile uint64_t *place;

static void read(void *argument)
{
	struct reader *reader = argument;

	while (!atomic_load(&enough)) {
		atomic_store(&reader->seen, *place);
		atomic_fetch_add(&reader->reads, 1);
	}
}

/* What `reader` reads from now on. */
static uint64_t seen_by(struct reader *reader)
{
	uint64_t before = atomic_load(&reader->reads);

	while (atomic_load(&reader->reads) < before + 2)
		task_sleep(100);
	return atomic_load(&reader->seen);
}

static void start(unsigned cpu)
{
	struct reader *reader = &readers[cpu];

	atomic_store(&reader->reads, 0);
	reader->task = task_create_stopped("reader", read, reader);
	REQUIRE(reader->task != NULL);
	task_set_affinity(reader->task, cpu_set_of(cpu));
	task_start(reader->task);
}

static void end(struct reader *reader)
{
	task_join(reader->task);
	task_put(reader->task);
}

#define PATIENCE 10000000 /* microseconds: a virtual processor's host may be busy */
#define AT_ONCE	 16

static struct {
	unsigned cpus;
	uint64_t end;
	atomic_uint here, met;
} meeting;

/* Waits for the other CPUs, as no call should: up to a time that all of them have in common. */
static void meet(void *argument)
{
	(void)argument;
	if (this_cpu()->index >= meeting.cpus)
		return;
	atomic_fetch_add(&meeting.here, 1);
	while (atomic_load(&meeting.here) < meeting.cpus && time_now() < meeting.end)
		__asm__ volatile("pause");
	if (atomic_load(&meeting.here) == meeting.cpus)
		atomic_fetch_add(&meeting.met, 1);
}

TEST(smp_call_all_at_once, .group = "S", .ids = "", .needs = NEED_SMP,
     .claim = "smp_call_all() has a function run on up to 16 CPUs at the same time",
     .source = "kernel/smp/smp.h")
{
	meeting.cpus = cpu_count() < AT_ONCE ? cpu_count() : AT_ONCE;
	meeting.end = time_now() + PATIENCE;
	atomic_store(&meeting.here, 0);
	atomic_store(&meeting.met, 0);
	smp_call_all(meet, NULL);
	EXPECT_EQ(atomic_load(&meeting.met), meeting.cpus);
}

TEST(smp_flush_everywhere, .group = "S", .ids = "", .needs = NEED_SMP,
     .claim = "when smp_flush() returns every CPU reads the page that the table names now",
     .source = "kernel/smp/smp.h")
{
	uint64_t *from = test_area(1), *to = test_area(1);
	uint64_t *entry = vm_entry((uint64_t)from), old = *entry;

	*from = 1;
	*to = 2;
	task_set_affinity(current_task(), cpu_set_of(0));
	place = from;
	atomic_store(&enough, false);
	for (unsigned i = 1; i < cpu_count(); i++)
		start(i);
	for (unsigned i = 1; i < cpu_count(); i++)
		EXPECT_EQ(seen_by(&readers[i]), 1);
	*entry = *vm_entry((uint64_t)to);
	smp_flush((uint64_t)from, PAGE_SIZE);
	for (unsigned i = 1; i < cpu_count(); i++)
		EXPECT_EQ(seen_by(&readers[i]), 2);
	atomic_store(&enough, true);
	for (unsigned i = 1; i < cpu_count(); i++)
		end(&readers[i]);
	*entry = old;
	smp_flush((uint64_t)from, PAGE_SIZE);
}
