// SPDX-License-Identifier: MIT
// The enumeration of PEBS, and its MSRs.
#include "drivers/ds/pebs.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/sched/sched.h"
#include "kernel/silicon.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/cpu.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/rig.h"

#define SAVE_REGS (1ull << 7)

/* A control: the unit that these MSRs are of records. */
static void expect_a_record(void)
{
	struct pebs pebs;

	pebs_open(&pebs, 4);
	pebs_arm(&pebs, 0, 100);
	SAMPLED(1, JUMPS(150));
	EXPECT_EQ(pebs_get(&pebs, DS_PEBS_INDEX), pebs.base + pebs.record);
	EXPECT(!pebs_is_poison(&pebs, 0) && pebs_is_poison(&pebs, 1));
	pebs_close(&pebs);
}

TEST(pebs_format_known, .group = "PE", .ids = "PE1 PE55", .needs = NEED_PEBS,
     .claim =
	     "IA32_PERF_CAPABILITIES names a record format that the manual has, and records are as "
	     "long as it says",
     .source = "SDM Vol 3, 18.4.4 and table 35-2")
{
	uint64_t capabilities =
		cpuid(1, 0).ecx & CPUID_1_ECX_PDCM ? rdmsr(IA32_PERF_CAPABILITIES) : 0;

	test_observe("capabilities", "%lx", capabilities);
	EXPECT(ds_caps()->ds);
	EXPECT(ds_caps()->pebs_format <= 5 || ds_caps()->pebs_format == 15);
	EXPECT(!capabilities || capabilities & SAVE_REGS);
	if (ds_caps()->pebs_format >= 4)
		test_observe("baseline", "%d", !!(capabilities & BASELINE));
	if (ds_caps()->pebs_format <= 4 && pmu_caps()->version)
		expect_a_record();
}

/* Which bits exist: table 18-10, figure 18-21; fixed counters with PEBS_BASELINE. */
static uint64_t enable_bits(const struct pebs *pebs)
{
	if (!pebs->format)
		return 1;
	if (pebs->format < 4)
		return ds_configuration->pebs_counters & 2 ? 0xf0000000full : 1;
	return ((1ull << pmu_caps()->general) - 1) |
	       (pebs->adaptive ? ((1ull << pmu_caps()->fixed) - 1) << PMU_FIXED : 0);
}

TEST(pebs_enable_bits, .group = "PE", .ids = "PE3", .needs = NEED_PEBS,
     .claim = "IA32_PEBS_ENABLE keeps a bit for each counter that takes samples, refuses others",
     .source = "SDM Vol 3, 18.4.4 and 18.8.1.1")
{
	uint64_t refused = 0, kept = 0;
	struct pebs pebs;

	pebs_open(&pebs, 4);
	for (unsigned bit = 0; bit < 64; bit++) {
		struct msr_trial trial = msr_try(IA32_PEBS_ENABLE, 1ull << bit, 0);

		refused |= trial.refused ? 1ull << bit : 0;
		kept |= trial.read_back & 1ull << bit;
		if (trial.refused)
			EXPECT_EQ(trial.read_back, 0);
	}
	test_observe("kept", "%lx", kept);
	EXPECT_EQ(kept & 0xffffff0fffffffff, enable_bits(&pebs) & 0xffffff0fffffffff);
	EXPECT_EQ(refused & kept, 0);
	EXPECT_EQ(rdmsr(IA32_PEBS_ENABLE), 0);
	pebs_close(&pebs);
}

#define FRONTEND_BITS 0x7fff17ull /* event, length, width */

/* Skylake and what followed it, by the model of CPUID.1: SDM Vol 3, 18.13. */
static bool has_frontend_events(void)
{
	static const uint8_t models[] = {0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0x7d, 0x7e, 0x6a, 0x6c};
	struct cpuid_signature signature = cpuid_signature(cpuid(1, 0).eax);

	for (unsigned i = 0; i < sizeof(models); i++)
		if (signature.family == 6 && signature.model == models[i])
			return true;
	return false;
}

TEST(pebs_frontend_bits, .group = "PE", .ids = "PE3", .needs = NEED_PEBS,
     .claim = "MSR_PEBS_FRONTEND keeps an event with its length and width, refuses other bits",
     .source = "SDM Vol 3, 18.13")
{
	uint64_t refused = 0, kept = 0;

	if (!has_frontend_events())
		test_skip("the processor has no MSR_PEBS_FRONTEND (3F7H)");
	if (silicon_is_foreign_guest() && !rdmsr_safe(MSR_PEBS_FRONTEND, &kept))
		test_skip("the hypervisor hides MSR_PEBS_FRONTEND (3F7H)");
	kept = 0;
	test_pin();
	for (unsigned bit = 0; bit < 64; bit++) {
		struct msr_trial trial = msr_try(MSR_PEBS_FRONTEND, 1ull << bit, 0);

		refused |= trial.refused ? 1ull << bit : 0;
		kept |= trial.read_back & 1ull << bit;
	}
	EXPECT_EQ(kept, FRONTEND_BITS);
	EXPECT_EQ(refused, ~FRONTEND_BITS);
	wrmsr(MSR_PEBS_FRONTEND, FRONTEND_BITS & 0xff);
	expect_a_record();
	wrmsr(MSR_PEBS_FRONTEND, 0);
}

TEST(pebs_absent_refuses, .group = "PE", .ids = "PE4", .needs = NEED_DS,
     .claim = "where PEBS is unavailable IA32_PEBS_ENABLE raises #GP or stays 0",
     .source = "SDM Vol 3, 18.4.4 and table 35-2")
{
	struct msr_trial trial;

	if (!(rdmsr(IA32_MISC_ENABLE) & MISC_ENABLE_PEBS_UNAVAILABLE))
		test_skip("IA32_MISC_ENABLE[12] says that PEBS is available");
	test_pin();
	trial = msr_try(IA32_PEBS_ENABLE, 1, 0);
	EXPECT(trial.refused || trial.read_back == 0);
}

TEST(pebs_off_area_moves, .group = "PE", .ids = "PE5", .needs = NEED_PEBS,
     .claim = "IA32_DS_AREA takes canonical addresses and no other while PEBS is off",
     .source = "SDM Vol 2, WRMSR")
{
	uint64_t area;
	struct pebs pebs;

	pebs_open(&pebs, 4);
	area = rdmsr(IA32_DS_AREA);
	EXPECT(msr_try(IA32_DS_AREA, 1ull << 63, area).refused);
	EXPECT(!msr_try(IA32_DS_AREA, area + 64, area).refused);
	EXPECT_EQ(rdmsr(IA32_DS_AREA), area);
	pebs_close(&pebs);
}

#define MOST_WAIT 1000000 /* microseconds */

static struct {
	void *area;
	uint64_t base, event;
	uint64_t enable_before, enable, area_after, counter, cr4_before, cr4_after;
	uint64_t index_before, index_after; /* bytes that records took */
	bool looked;
} init;

/* The first thing that runs on the CPU once it is in C again. */
static void look(void *argument)
{
	(void)argument;
	init.looked = true;
	init.enable = rdmsr(IA32_PEBS_ENABLE);
	init.area_after = rdmsr(IA32_DS_AREA);
	init.counter = rdmsr(IA32_PMC0);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	wrmsr(IA32_PERFEVTSEL0, 0);
	wrmsr(IA32_PMC0, 0);
}

static uint64_t read_cr4(void)
{
	uint64_t cr4;

	__asm__ volatile("movq %%cr4, %0" : "=r"(cr4));
	return cr4;
}

/* Counter 0 overflows, with IA32_PEBS_ENABLE as it is; returns the bytes that records take. */
static uint64_t overflow(void)
{
	ds_set(init.area, DS_PEBS_BUFFER_BASE, init.base);
	ds_set(init.area, DS_PEBS_INDEX, init.base);
	ds_set(init.area, DS_PEBS_ABSOLUTE_MAXIMUM, init.base + 4 * ds_pebs_record_size() + 1);
	ds_set(init.area, DS_PEBS_INTERRUPT_THRESHOLD, init.base + 8 * ds_pebs_record_size());
	wrmsr(IA32_DS_AREA, (uint64_t)init.area);
	wrmsr(IA32_PMC0, (uint64_t)-100);
	ds_set(init.area, DS_PEBS_COUNTER_RESET, (1ull << pmu_caps()->general_width) - 5000);
	wrmsr(IA32_PERFEVTSEL0, init.event | PERFEVTSEL_EN);
	SAMPLED(1, JUMPS(150));
	wrmsr(IA32_PERFEVTSEL0, 0);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, 1);
	return ds_get(init.area, DS_PEBS_INDEX) - init.base;
}

/* On the CPU that gets the INIT. */
static void go_through_init(void *argument)
{
	uint64_t flags;

	(void)argument;
	preemption_disable();
	flags = interrupts_save();
	if (ds_checkout(&this_cpu()->trace->ds) == 0) {
		wrmsr(IA32_PEBS_ENABLE, 1);
		init.index_before = overflow();
		init.enable_before = rdmsr(IA32_PEBS_ENABLE);
		wrmsr(IA32_PMC0, 4711);
		init.cr4_before = read_cr4();
		smp_park(look, NULL);
		init.cr4_after = read_cr4();
		init.index_after = overflow();
		wrmsr(IA32_PMC0, 0);
		wrmsr(IA32_PEBS_ENABLE, 0);
		wrmsr(IA32_DS_AREA, 0);
		ds_checkin(&this_cpu()->trace->ds);
	}
	interrupts_restore(flags);
	preemption_enable();
}

static void send_init(void)
{
	unsigned index = cpu_count() - 1;
	uint64_t end = time_now() + MOST_WAIT;
	struct task *task;
	struct pebs pebs;

	pebs_open(&pebs, 4);
	init.event = pebs.event;
	pebs_close(&pebs);
	task_set_affinity(current_task(), cpu_set_of(0)); /* INIT is for the others */
	init.looked = false;
	init.area = test_area(1);
	init.base = (uint64_t)test_area(1);
	task = task_create_stopped("init", go_through_init, NULL);
	if (!task)
		test_error("no memory for a task");
	task_set_affinity(task, cpu_set_of(index));
	task_start(task);
	while (atomic_load(&cpu_by_index(index)->online))
		if (time_now() > end)
			test_error("CPU %u does not wait", index);
	EXPECT(smp_unpark(index));
	task_join(task);
	task_put(task);
}

TEST(pebs_off_after_init, .group = "PE", .ids = "PE34 PE41", .needs = NEED_PEBS | NEED_SMP,
     .claim =
	     "INIT turns PEBS off: IA32_PEBS_ENABLE is clear, and a counter that took samples takes "
	     "none",
     .source = "SDM Vol 3, 17.4.9")
{
	if (!pmu_caps()->version)
		test_skip("no architectural performance monitoring of version 2 (CPUID.0AH)");
	send_init();
	EXPECT(init.index_before > 0);
	EXPECT_EQ(init.enable_before, 1);
	EXPECT(init.looked);
	EXPECT_EQ(init.enable, 0);
	EXPECT_EQ(init.index_after, 0);
	test_observe("after_init", "area %lx, counter %lx", init.area_after, init.counter);
}

TEST(pebs_cr4_after_init, .group = "PE", .ids = "", .needs = NEED_PEBS | NEED_SMP,
     .claim = "a CPU that goes on after INIT has the CR4 that it had", .source = "SDM Vol 3, 9.1.1")
{
	if (!pmu_caps()->version)
		test_skip("no architectural performance monitoring of version 2 (CPUID.0AH)");
	send_init();
	EXPECT(init.looked && init.index_before);
	EXPECT(init.cr4_before);
	EXPECT_EQ(init.cr4_after, init.cr4_before);
}
