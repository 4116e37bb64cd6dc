// SPDX-License-Identifier: MIT
// Under a hypervisor CPUID, IN and OUT run in the hypervisor: it leaves the guest and returns.
// What it forgets on that way (to load IA32_DEBUGCTL or IA32_DS_AREA again, to clear TR before its
// own branches, whose interrupt it was) shows at these instructions and nowhere else. On a bare
// processor nothing happens at them.
#include "drivers/apic/lapic.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/sched/task.h"
#include "lib/io.h"
#include "tests/lib/chain.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/pmi.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/rig.h"

#include <stdatomic.h>

#define POST_CODE 0x80 /* a port that nothing minds */

extern const char over_first[], over_in[], over_out[], over_cpuid[], over_end[];

enum { OVER_EXITS = 4 }; /* records */

/* Four jumps with an exit between each two; IA32_DS_AREA and IA32_DEBUGCTL after the last. */
static __attribute__((noinline)) void record_over_exits(struct rig *rig, uint64_t *area,
							uint64_t *debugctl)
{
	EXACTLY (rig)
		TRACED_WITH(rig_all(),
			    "over_first: jmp over_in\n\tud2\n"
			    "over_in: inb $0x80, %%al\n\tjmp over_out\n\tud2\n"
			    "over_out: outb %%al, $0x80\n\tjmp over_cpuid\n\tud2\n"
			    "over_cpuid: xorl %%eax, %%eax\n\tcpuid\n\tjmp over_end\n\tud2\n"
			    "over_end: movl $0x1d9, %%ecx\n\trdmsr\n\tmovl %%eax, %k[debugctl]\n\t"
			    "movl $0x600, %%ecx\n\trdmsr\n\tshlq $32, %%rdx\n\torq %%rdx, %%rax\n\t"
			    "movq %%rax, %[area]\n\t",
			    OPERANDS([debugctl] "=&r"(*debugctl), [area] "=&r"(*area)), , "rbx");
}

static void expect_over_exits(const struct rig *rig)
{
	EXPECT_EQ(rig_count(rig), OVER_EXITS);
	EXPECT_EQ(rig_record(rig, 0).from, (uintptr_t)over_first);
	EXPECT_EQ(rig_record(rig, 0).to, (uintptr_t)over_in);
	EXPECT_EQ(rig_record(rig, 1).from, (uintptr_t)over_in + 2); /* after IN */
	EXPECT_EQ(rig_record(rig, 1).to, (uintptr_t)over_out);
	EXPECT_EQ(rig_record(rig, 2).from, (uintptr_t)over_out + 2); /* OUT */
	EXPECT_EQ(rig_record(rig, 2).to, (uintptr_t)over_cpuid);
	EXPECT_EQ(rig_record(rig, 3).from, (uintptr_t)over_cpuid + 4); /* XOR and CPUID */
	EXPECT_EQ(rig_record(rig, 3).to, (uintptr_t)over_end);
}

TEST(bts_taken_over_records, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim = "recording goes on over IN, OUT and CPUID, each branch once and no other",
     .source = "SDM Vol 3, 17.4.4 and 17.4.5: taken branch, interrupt, or exception")
{
	uint64_t debugctl = 0, area = 0;

	RIG(rig, 16);
	record_over_exits(&rig, &area, &debugctl);
	expect_over_exits(&rig);
	EXPECT_EQ(debugctl, rig_all());
	EXPECT_EQ(area, (uintptr_t)rig.area);
}

// A hypervisor gives memory to its guest when that first uses it, and takes it back as it likes. A
// store of BTS to such a page leaves the guest in the midst of a record (SDM Vol 3, 28.2.3.2),
// which Intel's processors repeat for PEBS from Ice Lake on alone. What is lost there is lost
// without a mark: one record in a page of 170. This test has a page's border in the buffer, and an
// exit before each record. It looks at records on either side, and at one that lies in both pages.
// The log of a failure has the record's ends, and in which slot:
//	# expected rig_record(rig, 2).to == (uintptr_t)over_cpuid: 0x0, expected 0xffffffff80...
TEST(bts_taken_over_pages, .group = "K", .ids = "V1", .needs = NEED_BTS,
     .claim = "records at the border of two pages are whole and once, an exit before each",
     .source = "SDM Vol 3, 17.4.9 and 17.4.9.2: contiguous linear addresses")
{
	uint64_t debugctl, area;

	/* How many bytes of the record in slot 2 are in the first page: none to all, by a field. */
	for (size_t bytes = 0; bytes <= ds_configuration->record_size; bytes += 8) {
		struct rig rig;

		rig_open_at(&rig, 16, PAGE_SIZE - 2 * ds_configuration->record_size - bytes);
		record_over_exits(&rig, &area, &debugctl);
		expect_over_exits(&rig);
		EXPECT_EQ(rig_used(&rig), OVER_EXITS);
		rig_close(&rig);
	}
}

static void leave_guest(void)
{
	for (unsigned round = 0; round < 3; round++) {
		cpuid(0, 0);
		outb(POST_CODE, inb(POST_CODE));
	}
}

// A hypervisor that profiles its host, or that left TR set on the processor from which it moved
// this one away, records the host's branches. Where IA32_DS_AREA is still the guest's they are in
// the guest's buffer.
TEST(bts_taken_over_off, .group = "K", .ids = "V2", .needs = NEED_BTS,
     .claim = "with TR clear CPUID, IN and OUT leave records, index and both MSRs as they are",
     .source = "SDM Vol 3, 17.4.5, 17.4.9 and 17.4.9.5: TR, BTS buffer, state of a processor")
{
	uint64_t debugctl, area;

	RIG(rig, 16);
	record_over_exits(&rig, &area, &debugctl);
	leave_guest();
	expect_over_exits(&rig);
	EXPECT_EQ(rig_used(&rig), OVER_EXITS);
	rig_reset(&rig);
	leave_guest();
	EXPECT_EQ(rig_index(&rig), rig.base);
	EXPECT_EQ(rig_used(&rig), 0);
	debugctl = rig_interrupt() & ~ds_configuration->tr;
	area += 8; /* no page begins there */
	wrmsr(IA32_DEBUGCTL, debugctl);
	wrmsr(IA32_DS_AREA, area);
	leave_guest();
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), debugctl);
	EXPECT_EQ(rdmsr(IA32_DS_AREA), area);
	wrmsr(IA32_DEBUGCTL, 0);
	wrmsr(IA32_DS_AREA, area - 8);
}

/* Another DS area and buffer of `slots` slots, beside those of `rig`. */
static struct rig other_rig(const struct rig *rig, size_t slots)
{
	struct rig other = *rig;

	other.area = test_area(1);
	other.base = (uint64_t)test_area(1);
	REQUIRE_EQ(ds_set_bts_buffer(other.area, (void *)other.base, slots * other.record), 0);
	return other;
}

// Xen's vpmu_load() fetches the MSRs of a virtual processor from the processor where it ran before.
// Where it does not, and the virtual one has been on this processor once, IA32_DS_AREA is that of
// then. A kernel that gives each task an area sees a task's branches in another's buffer.
TEST(bts_taken_over_area, .group = "K", .ids = "V3", .needs = NEED_BTS,
     .claim = "after a write of IA32_DS_AREA no CPUID, IN or OUT brings an earlier one back",
     .source = "SDM Vol 3, 17.4.9.1 and 17.4.9.5: IA32_DS_AREA, state of a processor")
{
	uint64_t debugctl, area;

	RIG(rig, 16);
	struct rig other = other_rig(&rig, 16);
	struct rig *rigs[] = {&rig, &other, &rig, &other};

	for (unsigned turn = 0; turn < 4; turn++) {
		struct rig *is = rigs[turn], *was = rigs[(turn + 1) % 2];

		rig_reset(was);
		wrmsr(IA32_DS_AREA, (uint64_t)is->area);
		record_over_exits(is, &area, &debugctl);
		expect_over_exits(is);
		EXPECT_EQ(area, (uint64_t)is->area);
		EXPECT_EQ(rig_index(was), was->base);
		EXPECT_EQ(rig_used(was), 0);
	}
	wrmsr(IA32_DS_AREA, (uint64_t)rig.area);
}

static void be_taken_over(void)
{
	for (unsigned i = 0; i < 3; i++) {
		cpuid(0, 0);
		inb(POST_CODE);
	}
	pmi_settle();
}

static void fill(struct rig *rig)
{
	rig_reset(rig);
	chain_trace(rig, rig_interrupt(), &chain_a, 16);
	pmi_settle();
}

// Whether delivery masks the entry is bts_threshold_masks' matter.
TEST(bts_taken_over_mask, .group = "T", .ids = "T4", .needs = NEED_BTS,
     .claim = "the mask that a delivery set in the LVT entry stays over CPUID and IN",
     .source = "SDM Vol 3, 10.5.1 and 17.4.9.5: mask")
{
	RIG(rig, 64);
	struct pmi pmi CLOSED_BY(pmi_release) = {
		.rig = &rig, .delivery = PMI_FIXED, .keep_masked = true};

	pmi_take(&pmi);
	rig_set_threshold(&rig, 8);
	fill(&rig);
	EXPECT_EQ(pmi.count, 1);
	be_taken_over();
	EXPECT_EQ(apic_read(APIC_LVT_PC) & LVT_MASKED, pmi.lvtpc & LVT_MASKED);
	fill(&rig);
	EXPECT_EQ(pmi.count, 1);
}

TEST(bts_taken_over_interrupt, .group = "T", .ids = "T3", .needs = NEED_BTS,
     .claim = "one crossing of the threshold gives one interrupt, and none at a later CPUID or IN",
     .source = "SDM Vol 3, 17.4.9.5 and 10.5.1")
{
	for (enum pmi_delivery delivery = PMI_FIXED; delivery <= PMI_NMI; delivery++) {
		struct rig rig;
		struct pmi pmi = {.rig = &rig, .delivery = delivery};
		unsigned crossings;

		rig_open(&rig, 64);
		pmi_take(&pmi);
		rig_set_threshold(&rig, 8);
		fill(&rig);
		crossings = pmi.count;
		/* The record of the delivery is beyond the threshold as well. */
		EXPECT(crossings == 1 || (crossings == 2 && !(pmi.lvtpc & LVT_MASKED)));
		be_taken_over();
		EXPECT_EQ(pmi.count, crossings);
		pmi_release(&pmi);
		rig_close(&rig);
	}
}

#define ROUNDS 200

static atomic_uint rounds;
static atomic_bool over;

/* Branches of another CPU, which nobody records. */
static void branch_elsewhere(void *unused)
{
	(void)unused;
	while (!atomic_load(&over)) {
		cpuid(0, 0);
		chain_walk(&chain_b, 64);
		atomic_fetch_add(&rounds, 1);
	}
}

static void wait_for_rounds(unsigned more)
{
	for (unsigned from = atomic_load(&rounds); atomic_load(&rounds) - from < more;)
		__asm__ volatile("pause");
}

extern const char alone_loop[], alone_again[];

/*
 * Records a loop of CPUID on this CPU, and it alone. True if the other one was at work after the
 * first CPUID and before the last. What the other one writes is read by a locked instruction, since
 * lockstep compares two executions of any other.
 */
static bool record_alone(struct rig *rig)
{
	uint64_t left = ROUNDS, foreign = 0;
	uint32_t from, to;

	rig_reset(rig);
	TRACED_WITH(rig_all(),
		    "xorl %%eax, %%eax\n\tcpuid\n\t"
		    "xorl %[from], %[from]\n\tlock xaddl %[from], %[rounds]\n"
		    "alone_loop: xorl %%eax, %%eax\n\tcpuid\n\t"
		    "xorl %[to], %[to]\n\tlock xaddl %[to], %[rounds]\n\t"
		    "decq %[left]\n"
		    "alone_again: jnz alone_loop\n\t",
		    OPERANDS([left] "+r"(left), [from] "=&r"(from), [to] "=&r"(to),
			     [rounds] "+m"(rounds)),
		    , "rbx");
	EXPECT_EQ(rig_count(rig), ROUNDS - 1);
	for (unsigned i = 0; i < ROUNDS - 1; i++)
		foreign += rig_record(rig, i).from != (uintptr_t)alone_again;
	EXPECT_EQ(foreign, 0);
	return to - from >= 3;
}

TEST(bts_taken_over_other_cpu, .group = "S", .ids = "S1", .needs = NEED_BTS | NEED_SMP,
     .claim = "a CPU that records has its own branches over CPUID, and none of another CPU's",
     .source = "SDM Vol 3, 17.4.9.5: separate areas, buffers and state for each processor")
{
	struct task *task = test_task("elsewhere", branch_elsewhere, NULL);
	unsigned there = (this_cpu()->index + 1) % cpu_count();
	struct rig rig;
	bool beside = false;

	atomic_store(&over, false);
	test_keep_on(task, there);
	rig_open(&rig, 8 * ROUNDS);
	task_start(task);
	wait_for_rounds(2);
	for (unsigned attempts = 0; attempts < 10000 && !beside; attempts++)
		beside = record_alone(&rig);
	atomic_store(&over, true);
	EXPECT(beside);
	rig_close(&rig);
	test_task_end(task);
}

#define CPUID_1_ECX_CX16 (1u << 13)

/* RFLAGS after CMPXCHG16B and CPUID, and at last an instruction that writes the flags of
   arithmetic. `operand` is added before. */
static uint64_t flags_behind_exchange(uint64_t operand)
{
	static uint64_t pair[2] __attribute__((aligned(16)));
	uint64_t flags, rax = 0, rbx = 0, rcx = 0, rdx = 0;

	pair[0] = pair[1] = 0;
	__asm__ volatile("pushfq\n\tpopfq\n\t"
			 "addq %[operand], %[flags]\n\t"
			 "cmpxchg16b %[pair]\n\t"
			 "cpuid\n\t"
			 "testl %%eax, %%eax\n\t"
			 "pushfq\n\tpopq %[flags]"
			 : [flags] "=&r"(flags), "+a"(rax), "+b"(rbx), "+c"(rcx),
			   "+d"(rdx), [pair] "+m"(pair)
			 : [operand] "r"(operand)
			 : "cc");
	return flags;
}

// QEMU 7.2 does not write down how flags are to be computed before it calls its function for
// CMPXCHG16B (`disas_insn` in target/i386/tcg/translate.c; 8.0 does). Bits of an operand of an
// earlier ADD then are in RFLAGS, until an instruction writes the flags of arithmetic. An exit in
// between saves TF, DF, NT, RF, VM, VIF and VIP that nobody set, and VMRUN makes them true.
// Linux 6.12 ended in a double fault in `__kmalloc_noprof` (docs/tricks.md).
// By SDM Vol 2, CMPXCHG16B changes ZF alone. The test lets a CPUID, which exits, follow it.
// On a failure the log has both values of "flags_behind_exchange": the bits in which they differ
// are those that the hypervisor brought back.
TEST(bts_taken_over_flags, .group = "transparency", .ids = "K12", .needs = NEED_BTS,
     .claim = "CMPXCHG16B with a CPUID after it changes no flag but those of arithmetic",
     .source = "SDM Vol 2, CMPXCHG16B: ZF alone")
{
	const uint64_t arithmetic = 0x8d5;

	if (!(cpuid(1, 0).ecx & CPUID_1_ECX_CX16))
		test_skip("the processor has no CMPXCHG16B");
	EXPECT_EQ(flags_behind_exchange(0x40dbc528) & ~arithmetic,
		  flags_behind_exchange(0) & ~arithmetic);
}

// What a hypervisor forgets to give back of counters, last branches, PEBS and Intel PT, and what of
// the host's it left in their registers.

#define ADDRESS	 ((1ull << 48) - 1)
#define SIZE(of) (sizeof(of) / sizeof((of)[0]))

/* Four instructions, of which three exit; and four that do not. */
#define EXITS	 "xorl %%eax, %%eax\n\tcpuid\n\tinb $0x80, %%al\n\toutb %%al, $0x80\n\t"
#define NO_EXITS "nop\n\tnop\n\tnop\n\tnop\n\t"

enum { MSRS_MOST = 12 };

/* Fails the test where one of these MSRs is another over exits. */
static void expect_kept(const uint32_t *msrs, size_t count)
{
	uint64_t before[MSRS_MOST];

	for (size_t n = 0; n < count; n++)
		before[n] = rdmsr(msrs[n]);
	leave_guest();
	for (size_t n = 0; n < count; n++)
		if (!EXPECT_EQ(rdmsr(msrs[n]), before[n]))
			test_note("MSR %x", msrs[n]);
}

TEST(pmu_taken_over, .group = "pmu", .ids = "", .needs = 0,
     .claim = "a counter counts CPUID, IN and OUT as NOPs, and keeps its registers",
     .source = "SDM Vol 3, 18.2.2")
{
	COUNTERS(counters, NO_INSTRUCTIONS);
	unsigned n = (unsigned)__builtin_ctzll(counters);
	uint64_t plain;
	const uint32_t msrs[] = {IA32_PERF_GLOBAL_STATUS, IA32_PERF_GLOBAL_CTRL, pmu_rig_msr(n),
				 IA32_PERFEVTSEL0 + n};

	pmu_rig_control(n, pmu_rig_counting(n, PMU_OS, false));
	wrmsr(pmu_rig_msr(n), 0);
	SAMPLED(1ull << n, NO_EXITS NO_EXITS);
	plain = rdmsr(pmu_rig_msr(n));
	wrmsr(pmu_rig_msr(n), 0);
	SAMPLED(1ull << n, EXITS EXITS);
	EXPECT(plain > 0);
	EXPECT_EQ(rdmsr(pmu_rig_msr(n)), plain);
	pmu_rig_load(n, 5);
	pmu_rig_run(1ull << n);
	pmu_rig_control(n, EVENT_INSTRUCTIONS | PMU_OS); /* EN is clear: it does not count */
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1ull << n);
	expect_kept(msrs, SIZE(msrs));
}

extern const char over_lbr_first[], over_lbr_second[];

TEST(lbr_taken_over, .group = "pmu", .ids = "LB1", .needs = 0,
     .claim = "LBR has no other branches over CPUID, IN and OUT, and keeps its registers",
     .source = "SDM Vol 3, 17.4.8")
{
	LBR_STACK(s);
	const uint32_t msrs[] = {s->top, s->from, s->to, s->from + s->depth - 1u, MSR_LBR_SELECT};
	uint32_t before = lbr_top(s);
	uint64_t apart;

	TRACED_WITH(LBR,
		    EXITS "over_lbr_first: jmp 1f\n1:\t" EXITS
			  "over_lbr_second: jmp 2f\n2:\t" EXITS,
		    , , "rbx");
	EXPECT_EQ(lbr_since(s, before), 2);
	apart = lbr_newest(s, 0, false) - lbr_newest(s, 1, false);
	EXPECT_EQ(apart & ADDRESS, (uintptr_t)(over_lbr_second - over_lbr_first));
	if (s->select)
		wrmsr(MSR_LBR_SELECT, 1);
	expect_kept(msrs, SIZE(msrs) - !s->select);
	if (s->select)
		wrmsr(MSR_LBR_SELECT, 0);
}

TEST(pebs_taken_over, .group = "PE", .ids = "", .needs = NEED_PEBS,
     .claim = "PEBS samples CPUID, IN and OUT as NOPs, and keeps its registers",
     .source = "SDM Vol 3, 18.4.4")
{
	static const uint32_t msrs[] = {IA32_DS_AREA, IA32_PEBS_ENABLE};
	size_t plain;

	PEBS(pebs, 16);
	pebs_arm(&pebs, 0, 100);
	SAMPLED(1, JUMPS(450) NO_EXITS JUMPS(450));
	plain = pebs_count(&pebs);
	pebs_reset(&pebs);
	pebs_arm(&pebs, 0, 100);
	SAMPLED(1, JUMPS(450) EXITS JUMPS(450));
	EXPECT(plain >= 8);
	expect_kept(msrs, SIZE(msrs));
	EXPECT_EQ(pebs_count(&pebs), plain);
}

/* A hypervisor that takes TraceEn away at an exit may end packets there and begin them anew. */
static void expect_branches(const struct pt_rig *rig)
{
	unsigned outcomes = 1;

	EACH_PACKET (rig, reader, packet)
		for (unsigned left = packet.kind == PACKET_TNT ? packet.count : 0; left;)
			outcomes = outcomes << 1 | (packet.value >> --left & 1);
	EXPECT_EQ(outcomes, 0xd);
}

TEST(pt_taken_over, .group = "PT", .ids = "PT70", .needs = NEED_PT,
     .claim = "PT has each branch once over CPUID, IN and OUT, and keeps its registers",
     .source = "SDM Vol 3, 36.2.7")
{
	static const uint32_t msrs[] = {IA32_RTIT_CTL, IA32_RTIT_STATUS, IA32_RTIT_OUTPUT_BASE,
					IA32_RTIT_OUTPUT_MASK_PTRS, IA32_RTIT_ADDR0_A};

	PT_RIG(rig, 1, false);
	PT_TRACED(&rig, PT_PLAIN,
		  "xorl %%eax, %%eax\n\t" PT_JCC(
			  "jz", "1f") "1:\t" EXITS
				      "xorl %%eax, %%eax\n\t" PT_JCC(
					      "jnz", "2f") "2:\t" EXITS
							   "xorl %%eax, %%eax\n\t" PT_JCC(
								   "jz", "3f") "3:\t" EXITS);
	expect_branches(&rig);
	if (pt_caps()->ranges)
		wrmsr(IA32_RTIT_ADDR0_A, 0x10000);
	wrmsr(IA32_RTIT_STATUS, RTIT_STATUS_STOPPED);
	wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
	expect_kept(msrs, SIZE(msrs) - !pt_caps()->ranges);
}
