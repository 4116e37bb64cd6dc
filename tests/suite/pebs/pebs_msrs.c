// SPDX-License-Identifier: MIT
// The enumeration of PEBS, its MSRs, and its fields where BTS alone runs.
#include "drivers/apic/lapic.h"
#include "drivers/clock/tsc.h"
#include "drivers/ds/pebs.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/silicon.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/cpu.h"
#include "lib/string.h"
#include "tests/lib/chain.h"
#include "tests/lib/parked.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/pmi.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"

#define SAVE_REGS (1ull << 7)

/* A control: the unit that these MSRs are of records. */
static void expect_a_record(void)
{
	PEBS(pebs, 4);
	pebs_arm(&pebs, 0, 100);
	pebs_run_jumps(1, 150);
	EXPECT_EQ(pebs_get(&pebs, DS_PEBS_INDEX), pebs.base + pebs.record);
	EXPECT(!pebs_is_poison(&pebs, 0) && pebs_is_poison(&pebs, 1));
}

TEST(pebs_format_known, .group = "PE", .ids = "PE1 PE55 PE58", .needs = NEED_PEBS,
     .claim = "IA32_PERF_CAPABILITIES names a record format that the manual has, and records are "
	      "as long as it says",
     .source = "SDM Vol 3, 18.4.4 and table 35-2")
{
	uint64_t capabilities =
		cpuid(1, 0).ecx & CPUID_1_ECX_PDCM ? rdmsr(IA32_PERF_CAPABILITIES) : 0;

	test_observe("capabilities", "%lx", capabilities);
	EXPECT(ds_caps()->ds);
	EXPECT(ds_caps()->pebs_format <= 6 || ds_caps()->pebs_format == 15);
	EXPECT(!capabilities || capabilities & SAVE_REGS);
	if (ds_caps()->pebs_format >= 4)
		test_observe("baseline", "%d", !!(capabilities & BASELINE));
	if (ds_caps()->pebs_format <= 4 && pmu_caps()->version)
		expect_a_record();
}

/* In a virtual machine bits 12 and 7 are the VMM's, which may leave both clear. */
TEST(pebs_enumerated_is_present, .group = "PE", .ids = "PE132", .needs = NEED_DS,
     .claim = "IA32_PEBS_ENABLE can be read where IA32_MISC_ENABLE, with IA32_PERF_CAPABILITIES "
	      "in a virtual machine, says that PEBS is there",
     .source = "SDM Vol 3, 18.4.4 and table 35-2")
{
	uint64_t enable = rdmsr(IA32_MISC_ENABLE);

	if (!ds_configuration->pebs_counters || enable & MISC_ENABLE_PEBS_UNAVAILABLE ||
	    (!(enable & MISC_ENABLE_EMON_AVAILABLE) && !ds_caps()->pebs_format))
		test_skip("no PEBS: IA32_MISC_ENABLE[12] and [7], or the model");
	EXPECT(rdmsr_safe(IA32_PEBS_ENABLE, &enable));
}

#define FRONTEND_BITS 0x7fff17ull /* event, length, width */

static bool is_model(const uint8_t *models, size_t count)
{
	struct cpuid_signature signature = cpuid_signature(cpuid(1, 0).eax);

	for (size_t i = 0; i < count; i++)
		if (signature.family == 6 && signature.model == models[i])
			return true;
	return false;
}

/* Skylake and what followed it, by the model of CPUID.1: SDM Vol 3, 18.13. */
static bool has_frontend_events(void)
{
	static const uint8_t models[] = {0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0x7d, 0x7e, 0x6a, 0x6c};

	return is_model(models, sizeof(models));
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
     .claim = "IA32_DS_AREA takes canonical addresses and no other while PEBS is off, after it "
	      "has been on too",
     .source = "SDM Vol 2, WRMSR")
{
	uint64_t area;

	PEBS(pebs, 4);
	pebs_arm(&pebs, 0, 100);
	pebs_run_jumps(1, 150);
	pebs_reset(&pebs);
	area = rdmsr(IA32_DS_AREA);
	EXPECT(msr_try(IA32_DS_AREA, 1ull << 63, area).refused);
	EXPECT_EQ(msr_try(IA32_DS_AREA, area + 64, area).read_back, area + 64);
	EXPECT_EQ(rdmsr(IA32_DS_AREA), area);
}

#define MOST_WAIT 1000000 /* microseconds */

static struct {
	void *area;
	uint64_t base, event, events; /* so many of it are in overflow() */
	uint64_t enable_before, enable, enable_here, area_after, counter, cr4_before, cr4_after;
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
static uint64_t overflow(uint64_t period)
{
	ds_set(init.area, DS_PEBS_BUFFER_BASE, init.base);
	ds_set(init.area, DS_PEBS_INDEX, init.base);
	ds_set(init.area, DS_PEBS_ABSOLUTE_MAXIMUM, init.base + 4 * ds_pebs_record_size() + 1);
	ds_set(init.area, DS_PEBS_INTERRUPT_THRESHOLD, init.base + 8 * ds_pebs_record_size());
	wrmsr(IA32_DS_AREA, (uint64_t)init.area);
	wrmsr(IA32_PMC0, -period);
	ds_set(init.area, DS_PEBS_COUNTER_RESET, (1ull << pmu_caps()->general_width) - 5000);
	wrmsr(IA32_PERFEVTSEL0, init.event | PERFEVTSEL_EN);
	pebs_run_jumps(1, 150);
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
		init.index_before = overflow(100);
		overflow(init.events); /* leaves nothing to sample: the counter is armed */
		init.enable_before = rdmsr(IA32_PEBS_ENABLE);
		wrmsr(IA32_PMC0, 4711);
		init.cr4_before = read_cr4();
		cpu_park(look, NULL);
		init.cr4_after = read_cr4();
		init.index_after = overflow(100);
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
	uint64_t end = clock_us() + MOST_WAIT;
	struct task *task;
	struct pebs pebs;

	pebs_open(&pebs, 4);
	init.event = pebs.event;
	init.events = EVENTS_OF(&pebs, pebs_run_jumps(1, 150));
	pebs_close(&pebs);
	test_go_to(0); /* INIT is for the others */
	init.looked = false;
	init.area = test_area(1);
	init.base = (uint64_t)test_area(1);
	task = test_task("init", go_through_init, NULL);
	test_keep_on(task, index);
	task_start(task);
	while (atomic_load(&cpu_by_index(index)->online))
		if (clock_us() > end)
			test_error("CPU %u does not wait", index);
	wrmsr(IA32_PEBS_ENABLE, 1);
	EXPECT(cpu_unpark(index));
	test_task_end(task);
	init.enable_here = rdmsr(IA32_PEBS_ENABLE);
	wrmsr(IA32_PEBS_ENABLE, 0);
}

TEST(pebs_off_after_init, .group = "PE", .ids = "PE34 PE41", .needs = NEED_PEBS | NEED_SMP,
     .claim = "INIT turns PEBS of its processor off: IA32_PEBS_ENABLE is clear, and a counter that "
	      "took samples and was to take one takes none",
     .source = "SDM Vol 3, 17.4.9")
{
	pmu_rig_need_version();
	send_init();
	EXPECT(init.index_before > 0);
	EXPECT_EQ(init.enable_before, 1);
	EXPECT(init.looked);
	EXPECT_EQ(init.enable, 0);
	EXPECT_EQ(init.enable_here, 1);
	EXPECT_EQ(init.index_after, 0);
	test_observe("after_init", "area %lx, counter %lx", init.area_after, init.counter);
}

TEST(pebs_cr4_after_init, .group = "PE", .ids = "", .needs = NEED_PEBS | NEED_SMP,
     .claim = "a CPU that goes on after INIT has the CR4 that it had", .source = "SDM Vol 3, 9.1.1")
{
	pmu_rig_need_version();
	send_init();
	EXPECT(init.looked && init.index_before);
	EXPECT(init.cr4_before);
	EXPECT_EQ(init.cr4_after, init.cr4_before);
}

// The MSRs of PEBS bit by bit, and that each CPU has its own.

#define OUTPUT_PT (1ull << 16) /* IA32_PERF_CAPABILITIES.PEBS_OUTPUT_PT_AVAIL */

/* What becomes of each bit of an MSR. A bit in neither is open, or of a later edition. */
struct bits {
	uint32_t msr;
	uint64_t kept, refused;
	uint64_t with;	/* is written along with every bit */
	uint64_t other; /* what the MSR holds before: a refusal leaves it */
};

static void check_bits(const struct bits *bits)
{
	uint64_t kept = 0, refused = 0, changed = 0;

	wrmsr(IA32_PEBS_ENABLE, 1); /* counters are stopped; the other MSRs can be written */
	wrmsr(bits->msr, bits->other);
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t value = 1ull << bit | bits->with;
		struct msr_trial trial = msr_try(bits->msr, value, bits->other);

		refused |= trial.refused ? 1ull << bit : 0;
		kept |= trial.read_back == value && !trial.refused ? 1ull << bit : 0;
		changed |= trial.refused && trial.read_back != bits->other ? 1ull << bit : 0;
	}
	test_observe("kept", "%lx", kept);
	EXPECT_EQ(kept & (bits->kept | bits->refused), bits->kept);
	EXPECT_EQ(refused & (bits->kept | bits->refused), bits->refused);
	EXPECT_EQ(changed, 0);
	EXPECT_EQ(rdmsr(bits->msr), bits->other);
	wrmsr(bits->msr, 0);
	EXPECT_EQ(rdmsr(IA32_PEBS_ENABLE), bits->msr != IA32_PEBS_ENABLE);
}

/* Precise store is Sandy Bridge's and Ivy Bridge's alone: 18.9.4.3. */
static bool has_precise_store(void)
{
	static const uint8_t models[] = {0x2a, 0x2d, 0x3a, 0x3e};

	return is_model(models, sizeof(models));
}

/* Load latency has an enable bit for each of four counters: figure 18-21. */
static bool has_latency_bits(const struct pebs *pebs)
{
	return pebs->format >= 1 && pebs->format <= 3 && ds_configuration->pebs_counters & 2;
}

TEST(pebs_enable_every_bit, .group = "PE", .ids = "PE3 PE35 PE36 PE37 PE38 PE39",
     .needs = NEED_PEBS,
     .claim = "IA32_PEBS_ENABLE keeps the bits of its counters and of load latency, by format; it "
	      "refuses every other and stays as it was",
     .source = "SDM Vol 3, 18.4.4 and 18.8.1.1; Linux 6.1, ds.c")
{
	struct bits bits = {.msr = IA32_PEBS_ENABLE, .kept = 1, .other = 1};
	uint64_t later = 0;

	PEBS(pebs, 4);
	if (has_latency_bits(&pebs))
		bits.kept = 0xf0000000full | (has_precise_store() ? 1ull << 63 : 0);
	if (pebs.format >= 4)
		bits.kept = pmu_rig_here() & UINT32_MAX;
	if (pebs.adaptive)
		bits.kept = pmu_rig_here();
	else if (pebs.format >= 4)
		later |= 0xfull << PMU_FIXED;
	if (pebs.format >= 4 && rdmsr(IA32_PERF_CAPABILITIES) & OUTPUT_PT)
		later |= 7ull << 60;
	bits.refused = ~(bits.kept | later);
	check_bits(&bits);
	bits.with = bits.other = bits.kept;
	check_bits(&bits);
}

/* The least threshold is 3. */
TEST(pebs_latency_bits, .group = "PE", .ids = "PE44 PE45", .needs = NEED_PEBS,
     .claim = "MSR_PEBS_LD_LAT_THRESHOLD keeps bits 15:0, refuses every other and stays as it was",
     .source = "SDM Vol 3, 18.8.1.1")
{
	struct bits bits = {.msr = MSR_PEBS_LD_LAT,
			    .kept = 0xffff,
			    .refused = ~0xffffull,
			    .with = 4,
			    .other = 0x5a3};

	PEBS(pebs, 4);
	pebs_need(&pebs,
		  (has_latency_bits(&pebs) || pebs.adaptive) &&
			  !(silicon_is_foreign_guest() && msr_try(MSR_PEBS_LD_LAT, 4, 0).refused),
		  "no load latency, or the hypervisor hides it");
	check_bits(&bits);
}

/* Bits 31:29 are more entries than any LBR stack has; those from 4 on are later formats'. */
TEST(pebs_data_cfg_bits, .group = "PE", .ids = "PE51 PE52", .needs = NEED_PEBS,
     .claim = "MSR_PEBS_DATA_CFG keeps four groups and a number of LBR entries, refuses other bits "
	      "and stays as it was",
     .source = "Linux 6.1, perf_event.h")
{
	struct bits bits = {
		.msr = MSR_PEBS_DATA_CFG, .kept = 0x1f00000f, .other = CFG_GPR | CFG_ENTRIES(18)};

	PEBS(pebs, 4);
	pebs_need(&pebs, pebs.adaptive, "no PEBS_BASELINE");
	bits.refused = pebs.format == 4 ? ~0xff00000full : 0;
	check_bits(&bits);
	bits.with = bits.other = bits.kept;
	check_bits(&bits);
}

TEST(pebs_data_cfg_absent, .group = "PE", .ids = "PE54 PE131", .needs = NEED_PEBS,
     .claim = "there is no MSR_PEBS_DATA_CFG without PEBS_BASELINE, no MSR_PEBS_FRONTEND before "
	      "format 3 and no MSR_PEBS_LD_LAT_THRESHOLD in format 0: #GP",
     .source = "Linux 6.1, perf_event.h; SDM Vol 2, RDMSR and WRMSR")
{
	static const uint32_t msrs[] = {MSR_PEBS_DATA_CFG, MSR_PEBS_FRONTEND, MSR_PEBS_LD_LAT};

	PEBS(pebs, 4);
	pebs_need(&pebs, !pebs.adaptive && !silicon_is_foreign_guest(),
		  "PEBS_BASELINE, or a hypervisor that may ignore what it does not know");
	for (unsigned i = 0; i < (pebs.format ? pebs.format < 3 ? 2 : 1 : 3); i++) {
		EXPECT(msr_is_refused(msrs[i]));
		EXPECT(!wrmsr_safe(msrs[i], CFG_GPR));
	}
}

TEST(pebs_capabilities_fixed, .group = "PE", .ids = "PE57", .needs = NEED_PEBS,
     .claim = "no write changes IA32_PERF_CAPABILITIES",
     .source = "SDM Vol 3, table 35-2: read only")
{
	uint64_t before;

	if (!(cpuid(1, 0).ecx & CPUID_1_ECX_PDCM))
		test_skip("no PDCM: there is no IA32_PERF_CAPABILITIES");
	test_pin();
	before = rdmsr(IA32_PERF_CAPABILITIES);
	for (unsigned bit = 0; bit < 64; bit++) {
		EXPECT_EQ(msr_try(IA32_PERF_CAPABILITIES, before ^ 1ull << bit, before).read_back,
			  before);
		EXPECT_EQ(rdmsr(IA32_PERF_CAPABILITIES), before);
	}
}

/* One MSR of another CPU: its value before, and the one that is written, if any. */
struct visit {
	uint32_t msr;
	bool writes;
	uint64_t value, found;
};

static void visit(void *argument)
{
	struct visit *of = argument;

	of->found = rdmsr(of->msr);
	if (of->writes)
		wrmsr(of->msr, of->value);
}

static uint64_t find(unsigned cpu, uint32_t msr)
{
	struct visit of = {.msr = msr};

	smp_call(cpu, visit, &of);
	return of.found;
}

/* Returns what it was. */
static uint64_t put(unsigned cpu, uint32_t msr, uint64_t value)
{
	struct visit of = {.msr = msr, .writes = true, .value = value};

	smp_call(cpu, visit, &of);
	return of.found;
}

static unsigned another_cpu(void)
{
	return this_cpu()->index ? 0 : cpu_count() - 1;
}

static void each_its_own(unsigned other, uint32_t msr, uint64_t here, uint64_t there)
{
	uint64_t before = find(other, msr), mine = rdmsr(msr);

	wrmsr(msr, here);
	EXPECT_EQ(put(other, msr, there), before);
	EXPECT_EQ(rdmsr(msr), here);
	wrmsr(msr, here);
	EXPECT_EQ(find(other, msr), there);
	wrmsr(msr, mine);
	EXPECT_EQ(put(other, msr, before), there);
	EXPECT_EQ(rdmsr(msr), mine);
}

TEST(pebs_msrs_of_each_cpu, .group = "PE", .ids = "PE40 PE46 PE53 PE109",
     .needs = NEED_PEBS | NEED_SMP,
     .claim = "every processor has an IA32_PEBS_ENABLE, MSR_PEBS_LD_LAT_THRESHOLD, "
	      "MSR_PEBS_DATA_CFG and MSR_PEBS_FRONTEND that no other changes",
     .source = "SDM Vol 3, chapter 35; Linux 6.1, ds.c")
{
	uint64_t frontend;
	unsigned other;

	PEBS(pebs, 4);
	other = another_cpu();
	each_its_own(other, IA32_PEBS_ENABLE, 1,
		     has_latency_bits(&pebs) ? 0xf0000000eull : pebs_counters(&pebs) & ~1ull);
	each_its_own(other, IA32_PEBS_ENABLE, 0, 1);
	if (has_latency_bits(&pebs))
		each_its_own(other, MSR_PEBS_LD_LAT, 0x123, 0x4567);
	if (pebs.adaptive)
		each_its_own(other, MSR_PEBS_DATA_CFG, CFG_XMM | CFG_LBR | CFG_ENTRIES(7),
			     CFG_MEMINFO | CFG_GPR | CFG_ENTRIES(30));
	pebs_arm(&pebs, 0, 100); /* the other's groups are none */
	pebs_run_jumps(1, 150);
	EXPECT_EQ(pebs_get(&pebs, DS_PEBS_INDEX), pebs.base + pebs.record);
	if (pebs.format >= 3 && rdmsr_safe(MSR_PEBS_FRONTEND, &frontend))
		each_its_own(other, MSR_PEBS_FRONTEND, 0x11, 0x12);
}

/* By counter 1, in slot 2; it freezes. False: counter 0, which was due, has a sample as well. */
static bool reach_threshold(struct pebs *pebs)
{
	wrmsr(IA32_PEBS_ENABLE, 3);
	pebs_set(pebs, DS_PEBS_INDEX, pebs->base + 2 * pebs->record);
	pebs_set_threshold(pebs, 3);
	lapic_mask_lvtpc();
	pmu_rig_load(1, 5);
	pmu_rig_control(1, rdmsr(IA32_PERFEVTSEL0));
	wrmsr_safe(IA32_DEBUGCTL, FREEZE_PERFMON);
	pebs_run_jumps(2, 100);
	pmu_rig_control(1, 0);
	EXPECT(rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_OVF_BUF);
	return (pebs->format >= 3 || rdmsr(IA32_PERF_GLOBAL_STATUS) & 1) &&
	       rdmsr(IA32_PMC0) < UINT32_MAX; /* else it has its reset value */
}

/* What has nothing to do with a counter that was enabled before, and is to take a sample: other
   counters, the buffer's status, registers as they are, BTS, a stopped trace of Intel PT. */
static void write_others(uint64_t enable)
{
	static const uint32_t same[] = {IA32_DS_AREA, IA32_PMC0 + 1, MSR_PEBS_DATA_CFG,
					MSR_PEBS_LD_LAT, MSR_PEBS_FRONTEND};
	uint64_t value;

	wrmsr(IA32_PEBS_ENABLE, enable);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, (rdmsr(IA32_PERF_GLOBAL_STATUS) ^ 1) | 2);
	for (unsigned i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		if (rdmsr_safe(same[i], &value))
			wrmsr(same[i], value);
	if (ds_has_bts())
		wrmsr(IA32_DEBUGCTL, rig_all());
	wrmsr(IA32_DEBUGCTL, 0);
	pebs_trace_stopped(true);
	pebs_trace_stopped(false);
	lapic_unmask_lvtpc();
}

TEST(pebs_off_while_armed, .group = "PE",
     .ids = "PE7 PE10 PE11 PE19 PE20 PE31 PE39 PE59 PE75 PE92 BF4", .needs = NEED_PEBS,
     .claim = "between its overflow and the next event nothing but being disabled keeps a counter "
	      "from its sample",
     .source = "SDM Vol 3, 18.4.4")
{
	uint64_t events, began = 0;

	if (!ds_caps()->pebs_format)
		test_skip("WRMSR is an event as well");
	PEBS(pebs, 4);
	events = EVENTS_OF(&pebs, pebs_run_jumps(1, 10));
	EXPECT_EQ(pebs_count(&pebs), 0); /* nor of an overflow before */
	for (unsigned turn = 0; turn < 4; turn++) {
		bool cleared = turn == 1, kept;
		uint64_t enable = pebs_counters(&pebs) & ~(turn ? 0 : 1ull);

		pebs_reset(&pebs);
		pebs_arm(&pebs, 0, events);
		pebs_set_reset(&pebs, 0, -5000 & pmu_rig_mask(0)); /* one sample */
		pebs_run_jumps(1, 10);
		if (pebs_count(&pebs)) { /* as with the reduced skid of 18.7.1.2 */
			test_observe("armed", "no");
			return;
		}
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1, 1);
		wrmsr_safe(IA32_PEBS_ENABLE, ~0ull); /* refused: changes nothing */
		wrmsr(IA32_PEBS_ENABLE, turn ? 1 : enable);
		wrmsr(IA32_PERFEVTSEL0 + pmu_caps()->general - 1, 0); /* another's */
		kept = turn < 3 || !(pebs_counters(&pebs) & 2) || reach_threshold(&pebs);
		write_others(enable);
		if (!kept)
			return;
		EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1, 1);
		if (cleared) /* no sample sets it; there may be none */
			wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, 1);
		pebs_set(&pebs, DS_PEBS_INDEX, pebs.base + pebs.record);
		began = tsc_read();
		pebs_run_jumps(1, 100);
		EXPECT(pebs_is_poison(&pebs, 0));
		EXPECT(cleared ? !(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1)
			       : pebs_is_poison(&pebs, 1) == !turn);
	}
	if (pebs.format >= 3 && !silicon_is_foreign_guest())
		EXPECT(pebs_sample(&pebs, 1).tsc >= began);
}

/* With counter 0 of the processor that calls, far from its overflow, and the DS area of another. */
static void run_by_its_area(void *argument)
{
	static const uint32_t msrs[] = {IA32_PERF_GLOBAL_CTRL, IA32_PERFEVTSEL0, IA32_PMC0,
					IA32_PEBS_ENABLE, IA32_DS_AREA};
	const struct pebs *pebs = argument;
	const uint64_t values[] = {0, 0, 0, 1, (uint64_t)pebs->rig.area};
	uint64_t before[sizeof(msrs) / sizeof(msrs[0])];

	for (size_t i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++) {
		before[i] = rdmsr(msrs[i]);
		wrmsr(msrs[i], values[i]);
	}
	wrmsr(IA32_PERFEVTSEL0, pebs->event | PERFEVTSEL_EN);
	pebs_run_jumps(1, 50);
	wrmsr(IA32_PERFEVTSEL0, 0);
	for (size_t i = sizeof(msrs) / sizeof(msrs[0]); i--;)
		wrmsr(msrs[i], msrs[i] == IA32_PMC0 ? (uint32_t)before[i] : before[i]);
}

/* It overflows with the last event of its run, which alone may be sampled (18.7.1.2). */
TEST(pebs_armed_on_its_cpu, .group = "PE", .ids = "PE110", .needs = NEED_PEBS | NEED_SMP,
     .claim = "an overflow has the counter of the same processor take a sample, and not that of "
	      "another processor",
     .source = "SDM Vol 3, 18.4.4")
{
	uint64_t events, count;

	PEBS(pebs, 4);
	events = EVENTS_OF(&pebs, pebs_run_jumps(1, 100));
	for (uint64_t period = events; period <= events + 1; period++) {
		pebs_reset(&pebs);
		pebs_arm(&pebs, 0, period);
		pebs_run_jumps(1, 100);
		count = pebs_count(&pebs);
		smp_call(another_cpu(), run_by_its_area, &pebs);
		EXPECT_EQ(pebs_count(&pebs), count);
		EXPECT(pebs_is_poison(&pebs, count));
	}
	pebs_expect_samples(&pebs);
}

TEST(pebs_on_each_cpu, .group = "PE", .ids = "PE59", .needs = NEED_PEBS | NEED_SMP,
     .claim = "each processor takes its samples by its own IA32_DS_AREA",
     .source = "SDM Vol 3, 17.4.9 and 18.4.4")
{
	struct pebs pebs;

	for (unsigned round = 0; round < 2 * cpu_count() && round < 8; round++) {
		test_go_to(round % cpu_count());
		pebs_open(&pebs, 4);
		EXPECT_EQ(this_cpu()->index, round % cpu_count());
		pebs_arm(&pebs, 0, 100);
		pebs_run_jumps(1, 150);
		EXPECT_EQ(pebs_count(&pebs), 1);
		EXPECT(!pebs_is_poison(&pebs, 0));
		pebs_close(&pebs);
	}
}

// BTS and PEBS share one DS area, and BTS is often used with the PEBS fields left zero. Passing
// means: BTS records whatever those fields hold, and changes none of them.

#define PEBS_FIELDS_BRANCHES 5
#define PEBS_FIELDS_SLOTS    16
#define PEBS_FIELDS	     (4 * ds_configuration->field_size)
#define PEBS_RECORDS	     2
#define PEBS_RECORD	     256 /* as long as any, or longer */

static void expect_untouched(const struct rig *rig, const uint8_t *before, const char *when)
{
	size_t rest = DS_AREA_SIZE - PEBS_FIELDS;

	if (memcmp(rig->area_page + PEBS_FIELDS, before + PEBS_FIELDS, rest) != 0)
		test_note("the PEBS fields changed: %s", when);
	EXPECT(!memcmp(rig->area_page + PEBS_FIELDS, before + PEBS_FIELDS, rest));
}

/* Records with PEBS off and the PEBS half of the DS area as it is: nothing of that changes, and
   the threshold of BTS alone interrupts. */
static void trace(struct rig *rig)
{
	struct pmi pmi CLOSED_BY(pmi_release) = {.rig = rig, .delivery = PMI_FIXED};
	uint8_t before[DS_AREA_SIZE];

	memcpy(before, rig->area_page, sizeof(before));
	pmi_take(&pmi);
	EXACTLY (rig)
		chain_trace(rig, rig_all(), &chain_a, PEBS_FIELDS_BRANCHES);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	chain_expect(rig, 0, PEBS_FIELDS_BRANCHES, &chain_a, PEBS_FIELDS_BRANCHES, 0);
	expect_untouched(rig, before, "a few records");
	rig_reset(rig);
	chain_trace(rig, rig_all(), &chain_a, 5 * PEBS_FIELDS_SLOTS);
	expect_untouched(rig, before, "the buffer went round");
	rig_reset(rig);
	rig_set_threshold(rig, 2);
	chain_trace(rig, rig_interrupt(), &chain_a, PEBS_FIELDS_BRANCHES);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	expect_untouched(rig, before, "the threshold was reached");
	rig_set_threshold(rig, PEBS_FIELDS_SLOTS + 1);
}

TEST(bts_pebs_fields, .group = "B", .ids = "B1 B3", .needs = NEED_BTS,
     .claim =
	     "BTS records with the PEBS fields zero as well as set, and leaves them and their buffer alone",
     .source = "SDM Vol 3, 17.4.9 and figure 17-8")
{
	uint8_t *buffer = test_area(1);
	size_t written = 0;

	RIG(rig, PEBS_FIELDS_SLOTS);
	memset(rig.area_page + PEBS_FIELDS, 0, DS_AREA_SIZE - PEBS_FIELDS);
	trace(&rig);
	rig_reset(&rig);
	ds_set(rig.area, DS_PEBS_BUFFER_BASE, (uint64_t)buffer);
	ds_set(rig.area, DS_PEBS_INDEX, (uint64_t)buffer);
	ds_set(rig.area, DS_PEBS_ABSOLUTE_MAXIMUM,
	       (uint64_t)buffer + PEBS_RECORDS * PEBS_RECORD + 1);
	ds_set(rig.area, DS_PEBS_INTERRUPT_THRESHOLD, (uint64_t)buffer + PEBS_RECORD);
	trace(&rig);
	for (size_t i = 0; i < PEBS_RECORDS * PEBS_RECORD; i++)
		written += buffer[i] != 0;
	EXPECT_EQ(written, 0);
}
