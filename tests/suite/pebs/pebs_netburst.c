// SPDX-License-Identifier: MIT
// PEBS of NetBurst with 64-bit records: IQ_COUNTER4, IQ_CCCR4 and CRU_ESCR2, execution_event.
#include "drivers/ds/pebs.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/silicon.h"
#include "kernel/time.h"
#include "kernel/trace/context.h"
#include "lib/string.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/pmi.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"

#define IQ_COUNTER4 0x310u
#define IQ_CCCR4    0x370u
#define CRU_ESCR2   0x3ccu
#define MY_THREAD   (1ull << 25)
#define OTHERS	    (1ull << 26) /* ENABLE_PEBS_OTH_THR */
#define UOP_TAG	    (1ull << 24)
/* With the metrics of replayed and of mispredicted branches, bits 12:0 and 16:15. */
#define DEFINED (MY_THREAD | OTHERS | UOP_TAG | 0x19fffull)
#define METRICS 0x607ull /* those of table 19-36 that replays have */
/* ENABLE, ESCR select 5, both thread bits; execution_event 0CH, NBOGUS0 to 3, OS. */
#define CCCR	       0x0003b000u
#define ESCR	       (0x0cull << 25 | 0xfull << 9 | 1ull << 3)
#define MASK	       ((1ull << 40) - 1)
#define OVF_PMI	       (1ull << 26) /* of the CCCR: figure 18-44 */
#define BRANCH_RETIRED 0x06ull	    /* an event of CRU_ESCR2 too */

/* What R8 and RBX begin with. */
#define FIRST 0x5566778811223344ul

enum { RECORD = 144, SLOTS = 8 };

static uint64_t *records;

/* SDM Vol 3, 18.15.6.3: on a chip another ESCR has to tag what execution_event counts. */
static void need_netburst(bool events)
{
	if (cpuid_signature(cpuid(1, 0).eax).family != 15 || (events && !silicon_is_virtual()))
		test_skip("no NetBurst, or a chip");
}

static void open(struct rig *rig)
{
	need_netburst(true);
	records = test_area(1);
	memset(records, 0xa5, 4096);
	rig_open(rig, 16);
	ds_set(rig->area, DS_PEBS_BUFFER_BASE, (uint64_t)records);
	ds_set(rig->area, DS_PEBS_INDEX, (uint64_t)records);
	ds_set(rig->area, DS_PEBS_ABSOLUTE_MAXIMUM, (uint64_t)records + SLOTS * RECORD + 1);
	ds_set(rig->area, DS_PEBS_INTERRUPT_THRESHOLD, (uint64_t)records + (SLOTS + 1) * RECORD);
}

static void close(struct rig *rig)
{
	wrmsr(IQ_CCCR4, 0);
	wrmsr(IA32_PEBS_ENABLE, 0);
	wrmsr(CRU_ESCR2, 0);
	rig_close(rig);
}

static uint64_t count(const struct rig *rig)
{
	return (ds_get(rig->area, DS_PEBS_INDEX) - (uint64_t)records) / RECORD;
}

static void arm(struct rig *rig, uint64_t period, uint64_t enable)
{
	wrmsr(IQ_CCCR4, 0);
	wrmsr(CRU_ESCR2, ESCR);
	wrmsr(IQ_COUNTER4, -period & MASK);
	ds_set(rig->area, DS_PEBS_COUNTER_RESET, -period & MASK);
	wrmsr(IA32_PEBS_ENABLE, enable);
}

static __attribute__((noinline)) void run(void)
{
	__asm__ volatile("pushfq\n\tcli\n\tmovq %[first], %%r8\n\tleaq 1(%%r8), %%r9\n\t"
			 "leaq 2(%%r8), %%r10\n\tleaq 3(%%r8), %%r11\n\tleaq 4(%%r8), %%r12\n\t"
			 "leaq 5(%%r8), %%r13\n\tleaq 6(%%r8), %%r14\n\tleaq 7(%%r8), %%r15\n\t"
			 "leaq 8(%%r8), %%rsi\n\tleaq 9(%%r8), %%rdi\n\tpushq %%rbp\n\t"
			 "leaq 10(%%r8), %%rbp\n\twrmsr\n\tleaq 11(%%r8), %%rax\n\t"
			 "leaq 12(%%r8), %%rcx\n\tleaq 13(%%r8), %%rdx\n\t"
			 ".rept 400\n\tincq %%rbx\n\t.endr\n\tmovl $0x370, %%ecx\n\t"
			 "xorl %%eax, %%eax\n\txorl %%edx, %%edx\n\twrmsr\n\tpopq %%rbp\n\tpopfq"
			 :
			 : "a"(CCCR), "d"(0), "c"(IQ_CCCR4), "b"(FIRST), [first] "i"(FIRST)
			 : "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
			   "memory", "cc");
}

/* R8 to R15, RSI, RDI, RBP, RAX, RCX, RDX; RSP below `stack`; of RFLAGS bit 1, and no IF. */
static void expect_registers(const uint64_t *at, const void *stack)
{
	static const uint8_t fields[] = {10, 11, 12, 13, 14, 15, 16, 17, 6, 7, 8, 2, 4, 5};

	for (unsigned i = 0; i < sizeof(fields); i++)
		EXPECT_EQ(at[fields[i]], FIRST + i);
	EXPECT((uint64_t)stack - at[9] < 1024);
	EXPECT_EQ(at[0] & 0x202, 2);
}

TEST(pebs_netburst_samples, .group = "PE", .ids = "PE6 PE7 PE12 PE13 PE24 PE60 PE62 PE63 PE65 PE98",
     .needs = NEED_PEBS,
     .claim = "NetBurst: every N+1st execution_event writes a 64-bit record of 18 quadwords, while "
	      "there is room; the counter begins with each bit of its reset value",
     .source = "SDM Vol 3, 18.15 and 17.4.9.1")
{
	struct rig rig CLOSED_BY(close);
	uint64_t taken;

	open(&rig);
	arm(&rig, 59, MY_THREAD | UOP_TAG);
	run();
	taken = count(&rig);
	EXPECT(taken > 2 && taken <= 6);
	for (unsigned slot = 0; slot < taken; slot++) {
		const uint64_t *at = records + slot * RECORD / 8;

		/* RBX */
		EXPECT(at[3] - FIRST - 52 - 60 * slot <= (slot + 1) * PEBS_SKID_MOST);
		expect_registers(at, &rig);
		EXPECT(at[1] >> 47 == 0x1ffff);
		EXPECT_EQ(at[1] - records[1], 3 * (at[3] - records[3]));
	}
	EXPECT_EQ(records[taken * RECORD / 8], 0xa5a5a5a5a5a5a5a5);
	EXPECT_EQ(rig_count(&rig), 0);
	arm(&rig, 59, MY_THREAD | UOP_TAG);
	ds_set(rig.area, DS_PEBS_COUNTER_RESET, 1ull << 31);
	run();
	EXPECT((rdmsr(IQ_COUNTER4) ^ 1ull << 31) < 1000);
	arm(&rig, 59, MY_THREAD | UOP_TAG);
	taken += 3; /* one of the run before; two for which there is room */
	ds_set(rig.area, DS_PEBS_ABSOLUTE_MAXIMUM, (uint64_t)records + taken * RECORD + 1);
	run();
	EXPECT_EQ(count(&rig), taken);
	EXPECT_EQ(records[taken * RECORD / 8], 0xa5a5a5a5a5a5a5a5);
}

// The manual contradicts itself about the bit of IA32_PEBS_ENABLE that turns samples on in
// NetBurst. It is bit 25, ENABLE_PEBS_MY_THR, by SDM Vol 3, 18.16.3 and table 35-41, and bit 24 by
// 18.15.7.3. Bit 24 is UOP_TAG, which execution_event needs besides (docs/bts.md).
// Passing means: with neither bit nothing is sampled, and a reserved bit raises #GP. The
// observation "by_bit_24" says how many records bit 24 alone gives, so that a chip settles the
// question.
// On a failure the log has "count(&rig)", samples that nothing turned on. "rdmsr(IQ_COUNTER4)"
// means that the counter did not overflow, and the test showed nothing.
TEST(pebs_netburst_enable, .group = "PE", .ids = "PE3 PE31 PE38 PE131", .needs = NEED_PEBS,
     .claim =
	     "NetBurst: ENABLE_PEBS_MY_THR turns samples on; reserved bits are refused, and MSRs of "
	     "later formats",
     .source = "SDM Vol 3, 18.15 and table 35-2")
{
	struct rig rig CLOSED_BY(close);

	open(&rig);
	arm(&rig, 99, UOP_TAG);
	run();
	test_observe("by_bit_24", "%lu records", count(&rig));
	ds_set(rig.area, DS_PEBS_INDEX, (uint64_t)records);
	for (uint64_t enable = 0; enable <= OTHERS; enable += OTHERS) {
		arm(&rig, 99, enable);
		run();
		EXPECT_EQ(count(&rig), 0);
		EXPECT(rdmsr(IQ_COUNTER4) < 1000);
	}
	EXPECT_EQ(msr_try(IA32_PEBS_ENABLE, METRICS, 0).read_back, METRICS);
	for (unsigned bit = 13; bit < 64; bit++)
		if (!(DEFINED >> bit & 1))
			EXPECT(msr_try(IA32_PEBS_ENABLE, 1ull << bit, 0).refused);
	for (uint32_t msr = MSR_PEBS_LD_LAT; msr <= MSR_PEBS_FRONTEND; msr++)
		EXPECT(msr_is_refused(msr));
}

enum { MARGIN = 5, PERIOD = 59 };

static atomic_uint told;

static void tell(struct ds_pebs_lease *lease, void *argument)
{
	(void)lease, (void)argument;
	atomic_fetch_add(&told, 1);
}

/* The counter of the driver's lease; it counts until run() stops it. */
static void start(struct ds_cpu *ds, struct ds_pebs_lease *lease)
{
	wrmsr(CRU_ESCR2, ESCR);
	wrmsr(IQ_COUNTER4, -PERIOD & MASK);
	EXPECT_EQ(ds_set_pebs_reset(ds, lease, 0, -PERIOD & MASK), 0);
	EXPECT_EQ(ds_pebs_start(ds, lease, ds_pebs_counters()), 0);
}

TEST(pebs_netburst_lease, .group = "PE", .ids = "PE12 PE19", .needs = NEED_PEBS,
     .claim = "NetBurst: the lease of the PEBS half takes samples and tells its holder, once, when "
	      "they reach the threshold",
     .source = "SDM Vol 3, 18.15 and 17.4.9.5")
{
	struct ds_cpu *ds = &this_cpu()->trace->ds;
	struct ds_pebs_lease lease = {.cpu = NULL};
	uint64_t end = clock_us() + 1000000;
	long threshold = SLOTS - MARGIN, count;

	need_netburst(true);
	test_pin();
	atomic_store(&told, 0);
	records = test_area(1);
	REQUIRE_EQ(ds_request_pebs(ds, &lease,
				   &(struct ds_pebs_request){.buffer = records,
							     .bytes = SLOTS * RECORD,
							     .margin = MARGIN,
							     .name = "test",
							     .tell = tell}),
		   0);
	start(ds, &lease);
	run();
	while (!atomic_load(&told) && clock_us() < end)
		__asm__ volatile("pause");
	count = ds_get_pebs_index(ds, &lease);
	EXPECT_EQ(atomic_load(&told), 1);
	EXPECT(lease.overflowed);
	/* The way to the handler is sampled too. */
	EXPECT(count >= threshold && count <= SLOTS);
	for (long slot = 0; slot < threshold; slot++)
		EXPECT_EQ(records[slot * RECORD / 8 + 10], FIRST); /* R8 */
	EXPECT_EQ(ds_release_pebs(ds, &lease), 0);
	EXPECT_EQ(rdmsr(IA32_PEBS_ENABLE), 0);
	wrmsr(CRU_ESCR2, 0);
}

/* Returns how far the counter moves from `value` while 500 NOPs run. */
static uint64_t count_nops(uint64_t escr, uint64_t cccr, uint64_t value)
{
	uint64_t flags = interrupts_save();

	wrmsr(CRU_ESCR2, escr);
	wrmsr(IQ_COUNTER4, value);
	wrmsr(IQ_CCCR4, cccr);
	__asm__ volatile(".rept 500\n\tnop\n\t.endr");
	wrmsr(IQ_CCCR4, rdmsr(IQ_CCCR4) & ~(1ull << 12));
	interrupts_restore(flags);
	return rdmsr(IQ_COUNTER4) - value;
}

/* Interrupts of one overflow. */
static unsigned interrupts_of(struct rig *rig, uint64_t cccr)
{
	struct pmi pmi = {.rig = rig, .delivery = PMI_NMI};

	pmi_take(&pmi);
	count_nops(ESCR, cccr, MASK - 100);
	pmi_settle();
	pmi_release(&pmi);
	return pmi.count;
}

TEST(pebs_netburst_counts, .group = "PE", .ids = "PE31", .needs = NEED_PEBS,
     .claim = "NetBurst: IQ_COUNTER4 counts while it is enabled, for the levels and tags of its "
	      "ESCR; RDPMC has it at 16 alone; its overflow sets OVF, and interrupts with OVF_PMI",
     .source = "SDM Vol 3, 18.15; SDM Vol 2, RDPMC")
{
	const uint64_t os = 1 << 3, user = 1 << 2, not_bogus = 0xf << 9, overflow = 1ull << 31;
	struct rig rig CLOSED_BY(close);

	open(&rig);
	EXPECT(count_nops(ESCR, CCCR, 1ull << 32) >= 500);
	EXPECT_EQ(rdmsr(IQ_CCCR4) & overflow, 0);
	EXPECT_EQ(pmu_rig_rdpmc(16), rdmsr(IQ_COUNTER4));
	EXPECT_EQ(pmu_rig_rdpmc(1u << 31 | 16), (uint32_t)rdmsr(IQ_COUNTER4));
	for (unsigned bit = 5; bit < 31; bit++)
		EXPECT(pmu_rig_rdpmc_refused(1u << bit | 16));
	EXPECT(count_nops(ESCR | user, CCCR, 0) >= 500);
	EXPECT_EQ(count_nops(ESCR, CCCR & ~(1u << 12), 0), 0);
	EXPECT_EQ(count_nops(ESCR & ~os, CCCR, 0), 0);
	EXPECT_EQ(count_nops((ESCR & ~os) | user, CCCR, 0), 0);
	EXPECT_EQ(count_nops(ESCR & ~not_bogus, CCCR, 0), 0);
	EXPECT(count_nops(ESCR ^ (0x0cull ^ BRANCH_RETIRED) << 25, CCCR, 0) < 100);
	EXPECT(((count_nops(ESCR, CCCR, MASK - 100)) & MASK) >= 500);
	EXPECT_EQ(rdmsr(IQ_CCCR4), (CCCR & ~(1u << 12)) | overflow);
	EXPECT_EQ(interrupts_of(&rig, CCCR), 0);
	EXPECT_EQ(interrupts_of(&rig, CCCR | OVF_PMI), 1);
}

/* The two of a core with Hyper-Threading have these registers in common: SDM Vol 3, 18.16. */
static bool share_a_core(const struct cpu *one, const struct cpu *other)
{
	unsigned cores = cpuid(0, 0).eax >= 4 ? (cpuid(4, 0).eax >> 26) + 1 : 1;
	unsigned threads = (cpuid(1, 0).ebx >> 16 & 0xff) / cores;

	return cpuid(1, 0).edx >> 28 & 1 && threads > 1 &&
	       one->apic_id / threads == other->apic_id / threads;
}

TEST(pebs_netburst_of_each_cpu, .group = "PE", .ids = "PE31", .needs = NEED_PEBS | NEED_SMP,
     .claim = "NetBurst: IQ_COUNTER4, IQ_CCCR4 and CRU_ESCR2 are each processor's own",
     .source = "SDM Vol 3, 18.15 and chapter 35")
{
	static const uint32_t msrs[] = {IQ_COUNTER4, CRU_ESCR2, IQ_CCCR4};
	unsigned last = cpu_count() - 1;

	need_netburst(false);
	if (share_a_core(cpu_by_index(0), cpu_by_index(last)))
		test_skip("the first CPU and the last are of one core");
	for (unsigned i = 0; i < 3; i++) {
		test_go_to(0);
		wrmsr(msrs[i], 0x2000);
		test_go_to(last);
		wrmsr(msrs[i], 0x4000);
		test_go_to(0);
		EXPECT_EQ(rdmsr(msrs[i]), 0x2000);
		wrmsr(msrs[i], 0);
		test_go_to(last);
		EXPECT_EQ(rdmsr(msrs[i]), 0x4000);
		wrmsr(msrs[i], 0);
	}
}
