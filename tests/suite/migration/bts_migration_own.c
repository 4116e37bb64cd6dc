// SPDX-License-Identifier: MIT
/* CPUs that record at the same time. */
#include "drivers/cpuid.h"
#include "kernel/cpu.h"
#include "kernel/smp/smp.h"
#include "tests/framework/test.h"
#include "tests/lib/sight.h"

#include <stdint.h>

#define MOST  8
#define WALKS 100

struct one {
	struct user_chain user;
	struct walker walker;
	struct sight sight;
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

static void prepare(struct one *one, unsigned cpu)
{
	const struct trace_options options = sight_options(TRACE_USER, WALKS);

	user_chain_open(&one->user, cpu);
	one->walker = (struct walker){.name = "own",
				      .chain = &chain_a,
				      .walks = WALKS,
				      .user = &one->user,
				      .between = wait_for_others};
	walkers_create(&one->walker, 1);
	task_set_affinity(one->walker.task, 1ul << cpu);
	sight_open_cpu(&one->sight, &one->walker, cpu, &options);
}

static void finish(struct one *one)
{
	walkers_join(&one->walker, 1);
	sight_read(&one->sight);
	sight_expect(&one->sight, WALKS);
	sight_close(&one->sight);
	walker_end(&one->walker);
	user_chain_close(&one->user);
}

/*
 * On each CPU of the set (the first eight count) a task walks a chain of its own in ring 3, with a
 * tracer of the CPU: fails the test unless each has its own branches, all of them, and no other.
 */
static void per_cpu_traces(uint64_t cpus)
{
	static struct one ones[MOST];
	unsigned count = 0;

	for (unsigned cpu = 0; cpu < cpu_count() && count < MOST; cpu++)
		if (cpus >> cpu & 1)
			prepare(&ones[count++], cpu);
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
	per_cpu_traces(UINT64_MAX);
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
	uint64_t cores[MAX_CPUS];

	if (cpuid(0, 0).eax < 0xb)
		test_skip("no CPUID leaf 0BH to tell threads of one core");
	for (unsigned i = 0; i < cpu_count(); i++) {
		smp_call(i, find_core, &cores[i]);
		for (unsigned k = 0; k < i; k++) {
			if (cores[i] != cores[k] || cores[i] == UINT64_MAX)
				continue;
			per_cpu_traces(1ul << i | 1ul << k);
			return;
		}
	}
	test_skip("no two CPUs are threads of one core");
}
