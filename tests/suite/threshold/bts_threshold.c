// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/lbr/lbr.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/silicon.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/context.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmi.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"
#include "tests/lib/walker.h"

#define SLOTS	  512
#define THRESHOLD 256

TEST(bts_threshold_fixed, .group = "T", .ids = "T1", .needs = NEED_BTS,
     .claim =
	     "with BTINT one interrupt arrives by its fixed vector, with the index at the threshold",
     .source = "SDM Vol 3, 17.4.9.5 and 10.5.1: delivery mode fixed")
{
	uint64_t unknown = nmi_unknown_count();
	RIG(rig, SLOTS);
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	pmi_take(&pmi);
	pmi_cross(&pmi, THRESHOLD, SLOTS);
	pmi_release(&pmi);
	EXPECT_EQ(nmi_unknown_count(), unknown);
}

#define X2APIC_LVTPC 0x834u
#define X2APIC_ICR   0x830u
/* All but vector, delivery mode, status and mask: SDM Vol 3, figure 10-8. */
#define X2APIC_LVTPC_RESERVED (~0x117ffull)

TEST(bts_threshold_x2apic, .group = "T", .ids = "T9", .needs = NEED_BTS,
     .claim =
	     "through the LVT entry of an x2APIC, MSR 834H, one interrupt arrives at the threshold",
     .source = "SDM Vol 3, 10.12.1.2 and 17.4.9.5")
{
	struct rig rig CLOSED_BY(rig_close);
	struct pmi pmi CLOSED_BY(pmi_release) = {.rig = &rig, .delivery = PMI_FIXED};
	uint64_t entry;

	if (!lapic_is_x2apic())
		test_skip("the run is in xAPIC mode; the word x2apic changes that");
	rig_open(&rig, SLOTS);
	pmi_take(&pmi);
	pmi_cross(&pmi, THRESHOLD, SLOTS);
	entry = rdmsr(X2APIC_LVTPC);
	EXPECT(pmi.lvtpc & LVT_MASKED);
	EXPECT_EQ(entry & LVT_MASKED, 0);
	for (unsigned bit = 0; bit < 64; bit++)
		if (X2APIC_LVTPC_RESERVED >> bit & 1)
			EXPECT(msr_try(X2APIC_LVTPC, entry | 1ull << bit, entry).refused);
	EXPECT_EQ(rdmsr(X2APIC_ICR) & LVT_PENDING, 0);
}

/* A filter that leaves out nothing here. */
static uint64_t off_usr(void)
{
	return ds_caps()->filters ? ds_configuration->off_usr : 0;
}

#define PENDS_SLOTS 64
#define N	    200

/* The state after 200 branches in 64 slots of a longer piece of memory. */
static void check_buffer(struct rig *rig, const struct calibration *c)
{
	size_t capacity = PENDS_SLOTS - c->unused;

	if (c->when_full == FULL_WRAPS) {
		circular_expect(rig, capacity, &chain_a, N);
		return;
	}
	test_observe("records_behind_maximum", "%zu", rig_used(rig) - capacity);
	EXPECT_EQ(rig_count(rig), c->when_full == FULL_STOPS ? capacity : N);
	EXPECT_EQ(rig_used(rig), c->when_full == FULL_STOPS ? capacity : N);
	rig_lengthen(rig);
	chain_expect(rig, 0, capacity, &chain_a, N, 0);
}

TEST(bts_threshold_pends, .group = "T", .ids = "T6 P2", .needs = NEED_BTS,
     .claim = "the interrupt waits for IF = 1; records past the maximum stop, wrap or go on alike",
     .source = "SDM Vol 3, 17.4.9.5")
{
	const struct calibration *c = calibration();
	struct rig rig CLOSED_BY(rig_close);
	struct pmi pmi CLOSED_BY(pmi_release) = {.rig = &rig, .delivery = PMI_FIXED};
	uint64_t flags;

	test_observe("when_full", "%s", when_full_name(c->when_full));
	rig_open(&rig, N + 8);
	pmi_take(&pmi);
	rig_shorten(&rig, PENDS_SLOTS, maximum_extra(c->maximum));
	rig_set_threshold(&rig, PENDS_SLOTS / 2);
	flags = interrupts_save();
	chain_trace(&rig, rig_interrupt() | off_usr(), &chain_a, N);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	interrupts_restore(flags);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	EXPECT_EQ(pmi.index, rig_index(&rig));
	EXPECT(c->when_full != FULL_OTHER);
	check_buffer(&rig, c);
}

TEST(bts_threshold_nmi, .group = "T", .ids = "S1 T7", .needs = NEED_BTS | ON_EACH_CPU,
     .claim = "with NMI delivery the interrupt arrives though IF = 0, at or past the threshold",
     .source = "SDM Vol 3, 10.5.1 and 17.4.9.5: delivery mode NMI")
{
	RIG(rig, SLOTS);
	struct pmi pmi CLOSED_BY(pmi_release) = {.rig = &rig, .delivery = PMI_NMI};
	uint64_t flags;

	pmi_take(&pmi);
	rig_set_threshold(&rig, THRESHOLD);
	flags = interrupts_save();
	chain_trace(&rig, rig_interrupt(), &chain_a, THRESHOLD - 1);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	chain_trace(&rig, rig_interrupt(), &chain_a, SLOTS - THRESHOLD);
	pmi_settle();
	/* Unmasked, the handler's own first branches may ask for one more. */
	EXPECT(pmi.count == 1 || (pmi.count == 2 && !(pmi.lvtpc & LVT_MASKED)));
	interrupts_restore(flags);
	EXPECT(pmi.index >= rig.base + THRESHOLD * rig.record);
	EXPECT(pmi.index <= rig.base + SLOTS * rig.record);
	if (!silicon_is_foreign_guest())
		EXPECT(pmi.lvtpc & LVT_MASKED && pmi.lvtpc & LVT_NMI);
	test_observe("nmi_skid_at_first_read", "%lu",
		     (pmi.index - rig.base) / rig.record - THRESHOLD);
}

#define IN_NMI_SLOTS	 16384
#define IN_NMI_THRESHOLD 8192 /* more than the way to the first NMI takes */

static volatile uint64_t nmis __attribute__((used));
static volatile uint64_t nmi_left __attribute__((used));  /* where the second one came */
static volatile uint64_t nmi_flags __attribute__((used)); /* the first one's IRETQ has them too */
static uint64_t nmi_rsp __attribute__((used));
#define FLAG_NT (1u << 14) /* with it IRETQ raises #GP */

extern const char in_nmi_handler[], in_nmi_end[], in_nmi_gp[], in_nmi_iretq[], in_nmi_iretd[];
static const char *nmi_return __attribute__((used)); /* of the two last, for the first one */

/* JMP RAX, and at 100H the frame of an IRETD to it: QEMU 7.2 reads it below 4 GiB alone. */
#define NARROW_AT 0x40100000u
static const uint32_t nmi_narrow[] = {NARROW_AT, KERNEL_CODE, 2, NARROW_AT, KERNEL_DATA};

/* The first NMI branches past the threshold; any other ends recording. The handler of #GP never
   returns: another NMI has taken the stack. */
__asm__(".pushsection .text\n"
	"in_nmi_handler: pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\tincq nmis(%rip)\n\t"
	"cmpq $1, nmis(%rip)\n\tjne 2f\n\t"
	"movl $10000, %ecx\n1:\tdecl %ecx\n\tjnz 1b\n\t"
	"pushfq\n\tmovq nmi_flags(%rip), %rax\n\torq %rax, (%rsp)\n\tpopfq\n\tjmp *nmi_return(%rip)\n"
	"2:\tmovl $0x1d9, %ecx\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\t"
	"movq 24(%rsp), %rax\n\tmovq %rax, nmi_left(%rip)\n"
	"in_nmi_iretq: popq %rdx\n\tpopq %rcx\n\tpopq %rax\n\tiretq\n"
	"in_nmi_iretd: movl $0x40100100, %esp\n\tleaq in_nmi_gp(%rip), %rax\n\tiretl\n"
	"in_nmi_end: .popsection");

/* Waits for both NMIs for at most 1000 rounds, in the handler of #GP if there is one. */
static __attribute__((noinline)) void trace(void)
{
	TRACED_WITH(rig_interrupt(),
		    "pushq %%rbp\n\tmovq %%rsp, nmi_rsp(%%rip)\n\tcall lapic_self_nmi\n"
		    "in_nmi_gp: movl $1000, %%ecx\n1:\tpause\n\tcmpq $1, nmis(%%rip)\n\t"
		    "ja 2f\n\tdecl %%ecx\n\tjnz 1b\n2:\tmovq nmi_rsp(%%rip), %%rsp\n\t"
		    "popq %%rbp\n\t",
		    , , "rbx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15");
}

static void check_in_nmi(struct rig *rig, uint64_t flags, const char *returns)
{
	uint32_t lvtpc = apic_read(APIC_LVT_PC);
	bool waited;

	rig_reset(rig);
	nmis = 0;
	nmi_flags = flags;
	nmi_return = returns;
	own_idt_load();
	pmu_take_overflows(0); /* OvfBuf, left set, may interrupt before trace() */
	lapic_set_lvtpc(0, true);
	trace();
	lapic_mask_lvtpc();
	own_idt_unload();
	lapic_set_lvtpc((uint8_t)(lvtpc & LVT_VECTOR_MASK), lvtpc & LVT_NMI);
	EXPECT(nmis >= 2);
	waited = nmi_left - (uint64_t)in_nmi_handler >= (uint64_t)(in_nmi_end - in_nmi_handler);
	EXPECT(waited);
	EXPECT(rig_count(rig) > IN_NMI_THRESHOLD);
}

TEST(bts_threshold_in_nmi, .group = "T", .ids = "T7 K8 K12", .needs = NEED_BTS,
     .claim = "an NMI at a threshold that is reached inside an NMI handler is delivered after its "
	      "IRETQ, one that faults too, or its IRETD",
     .source = "SDM Vol 3, 10.5.1: delivery mode NMI; SDM Vol 3, 6.7.1: NMIs wait for IRET")
{
	uint8_t *narrow = test_area(1);

	memcpy(narrow, "\xff\xe0", 2);
	memcpy(narrow + 0x100, nmi_narrow, sizeof(nmi_narrow));
	code_map(NARROW_AT, narrow, 0);
	RIG(rig, IN_NMI_SLOTS);
	rig_set_threshold(&rig, IN_NMI_THRESHOLD);
	own_idt_begin(VECTOR_NMI, in_nmi_handler, false);
	own_idt_set(VECTOR_GP, in_nmi_gp, false);
	check_in_nmi(&rig, 0, in_nmi_iretq);
	check_in_nmi(&rig, FLAG_NT, in_nmi_iretq);
	check_in_nmi(&rig, 0, in_nmi_iretd);
	code_unmap(NARROW_AT);
}

/*
 * Silicon that interrupts on the crossing only, and compares after the index moved on, never sees
 * the index below this threshold: there, and only there, none is accepted.
 */
TEST(bts_threshold_first_slot, .group = "T", .ids = "T8", .needs = NEED_BTS,
     .claim = "a threshold at the base interrupts at the first record",
     .source = "SDM Vol 3, 17.4.9: BTS interrupt threshold")
{
	bool level = calibration()->level;
	RIG(rig, 16);
	struct pmi pmi CLOSED_BY(pmi_release) = {.rig = &rig, .delivery = PMI_FIXED};

	pmi_take(&pmi);
	rig_set_threshold(&rig, 0);
	TRACED(rig_interrupt(), "nop");
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	TRACED(rig_interrupt(), "jmp 1f\n\tud2\n1:\n\t");
	pmi_settle();
	test_observe("interrupts_at_first_slot", "%u", pmi.count);
	EXPECT(pmi.count == 1 || (!level && !pmi.count));
	EXPECT_EQ(rig_count(&rig), 1);
}

#define REACHED_SLOTS 16

TEST(bts_threshold_last_slot, .group = "T", .ids = "T8", .needs = NEED_BTS,
     .claim = "a threshold at the last slot interrupts when that slot is reached, not before",
     .source = "SDM Vol 3, 17.4.9: BTS interrupt threshold")
{
	const struct calibration *c = calibration();
	size_t capacity = REACHED_SLOTS - c->unused;
	RIG(rig, 2 * REACHED_SLOTS);
	struct pmi pmi CLOSED_BY(pmi_release) = {.rig = &rig, .delivery = PMI_FIXED};

	pmi_take(&pmi);
	rig_shorten(&rig, REACHED_SLOTS, maximum_extra(c->maximum));
	rig_set_threshold(&rig, capacity - 1);
	chain_trace(&rig, rig_interrupt(), &chain_a, capacity - 2);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	rig_reset(&rig);
	chain_trace(&rig, rig_interrupt(), &chain_a, capacity - 1);
	pmi_settle();
	test_observe("interrupts_when_index_meets", "%u", pmi.count);
	pmi.count = 0;
	rig_reset(&rig);
	chain_trace(&rig, rig_interrupt(), &chain_a, capacity);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
}

TEST(bts_threshold_not_reset, .group = "T", .ids = "T5", .needs = NEED_BTS,
     .claim = "an index left above the threshold interrupts again (level) or not (edge), no storm",
     .source = "SDM Vol 3, 17.4.9.5: \"matches/exceeds\"")
{
	bool level = calibration()->level;
	RIG(rig, 128);
	struct pmi pmi CLOSED_BY(pmi_release) = {.rig = &rig, .delivery = PMI_FIXED};

	pmi_take(&pmi);
	rig_set_threshold(&rig, 8);
	chain_trace(&rig, rig_interrupt(), &chain_a, 16);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	for (unsigned more = 1; more <= 5; more++) {
		chain_trace(&rig, rig_interrupt(), &chain_a, 10);
		pmi_settle();
		EXPECT_EQ(pmi.count, level ? 1 + more : 1);
	}
	pmi_settle();
	EXPECT_EQ(pmi.count, level ? 6 : 1);
	EXPECT_EQ(rig_count(&rig), 16 + 5 * 10);
	test_observe("threshold_trigger", "%s", level ? "level" : "edge");
}

extern const char event_fault[], event_handler_in_place[], event_jump[], event_jump_to[];

/* A jump, then the branch in question, and no other. */
static void trace_jump(void)
{
	TRACED(rig_interrupt(), "jmp 1f\n\tud2\n1:\n"
				"event_jump: jmp event_jump_to\n\tud2\n"
				"event_jump_to:\n\t");
}

/* The handler is what follows: it never returns. */
static void trace_fault(void)
{
	TRACED_WITH(rig_interrupt(),
		    "movq %%rsp, %%r12\n\tjmp 1f\n\tud2\n1:\n"
		    "event_fault: ud2\n"
		    "event_handler_in_place: movq %%r12, %%rsp\n\t",
		    , , "r12");
}

/* How many interrupts came with the threshold at slot `slot`. */
static unsigned interrupts(struct pmi *pmi, size_t slot, void (*walk)(void))
{
	pmi->count = 0;
	rig_reset(pmi->rig);
	rig_set_threshold(pmi->rig, slot);
	own_idt_load();
	walk();
	own_idt_unload();
	pmi_settle();
	EXPECT_EQ(rig_count(pmi->rig), 2);
	return pmi->count;
}

/* Whether the index before or after a record counts is the processor's: hence two thresholds. */
TEST(bts_threshold_by_event, .group = "T", .ids = "T1 T8 W3 K5", .needs = NEED_BTS,
     .claim = "the record of an exception reaches threshold and last slot as that of a jump does",
     .source = "SDM Vol 3, 17.4.9 and 17.4.9.5: BTS interrupt threshold")
{
	const struct calibration *c = calibration();
	unsigned by_jump, most = 0;
	RIG(rig, 16);
	struct pmi pmi CLOSED_BY(pmi_release) = {.rig = &rig, .delivery = PMI_FIXED};

	pmi_take(&pmi);
	own_idt_begin(VECTOR_UD, event_handler_in_place, false);
	for (size_t slot = 1; slot <= 2; slot++) {
		by_jump = interrupts(&pmi, slot, trace_jump);
		EXPECT_EQ(interrupts(&pmi, slot, trace_fault), by_jump);
		most = by_jump > most ? by_jump : most;
	}
	EXPECT_EQ(most, 1);
	rig_shorten(&rig, 2 + c->unused, maximum_extra(c->maximum));
	own_idt_load();
	trace_fault();
	own_idt_unload();
	rig_lengthen(&rig);
	rig_expect(&rig, 1, event_fault, event_handler_in_place);
}

// No status bit is documented for BTS: counters and PEBS share its interrupt, and only the index
// says whether it was BTS. Passing means: an interrupt with the index below the threshold is not
// taken for the buffer's.

#define WALKS 64

/* A PMI without a cause: by the kernel's own vector, and as an NMI. */
static void interrupt(struct walker *walker)
{
	uint64_t flags;

	if (walker->walked % 2) {
		lapic_self_ipi(VECTOR_PMI);
		return;
	}
	flags = interrupts_save();
	lapic_self_nmi();
	interrupts_restore(flags);
}

/* One of a linear trace, with the index at the threshold or a record below it. */
static void look(struct walker *walker)
{
	uint64_t flags = interrupts_save();
	struct trace_paused paused = trace_pause_cpu();
	size_t below = walker->walked % 2 * ds_configuration->record_size;
	void *area = staging_area();

	ds_set(area, DS_BTS_INTERRUPT_THRESHOLD, ds_get(area, DS_BTS_INDEX) + below);
	EXPECT_EQ(ds_pmi(&this_cpu()->trace->ds), !below);
	trace_resume_cpu(paused);
	task_yield(); /* which empties the buffer */
	interrupts_restore(flags);
}

TEST(bts_threshold_spurious, .group = "T", .ids = "T11", .needs = NEED_BTS,
     .claim = "an interrupt with the index below the threshold is not taken for ours",
     .source = "SDM Vol 3, 17.4.9.5: how the handler finds the cause")
{
	uint64_t unknown = nmi_unknown_count();

	for (unsigned circular = 0; circular < 2; circular++) {
		struct walker walker = {.name = "spurious",
					.chain = &chain_a,
					.walks = WALKS,
					.options = walker_options(32768),
					.between = circular ? interrupt : look};
		struct bts_status status;

		if (circular)
			walker.options.overflow = TRACE_WRAP; /* no threshold to be reached */
		walkers_start(&walker, 1);
		walkers_join(&walker, 1);
		bts_status(walker.tracer, &status);
		EXPECT_EQ(status.circular, circular);
		walkers_check(&walker, 1);
	}
	EXPECT_EQ(nmi_unknown_count() - unknown, WALKS / 2);
}

// A processor whose interrupts arrive late may have many that no unit explains any more, all at one
// instruction. Passing means: the kernel does not count them for a storm, which never ends.

#define LATE  1500 /* half as many again as make a storm */
#define WAKES 60   /* each costs what a host takes to run another of its processors */

TEST(bts_threshold_late_in_loop, .group = "T", .ids = "", .needs = NEED_BTS,
     .claim = "interrupts without a cause are no storm while the loop that they find gets on",
     .source = "docs/design.md#interrupt-at-the-threshold")
{
	test_go_to(0);
	for (unsigned i = 0; i < LATE; i++) /* in a register */
		lapic_self_ipi(VECTOR_PMI);
	EXPECT(this_cpu()->trace->unexplained < LATE / 4);
}

static void do_nothing(void *argument)
{
	(void)argument;
}

TEST(bts_threshold_late_in_idle, .group = "T", .ids = "", .needs = NEED_BTS | NEED_SMP,
     .claim = "interrupts without a cause are no storm while the CPU that they wake halts again",
     .source = "docs/design.md#interrupt-at-the-threshold")
{
	unsigned idle = cpu_count() - 1;

	test_go_to(0);
	for (unsigned i = 0; i < WAKES; i++) {
		lapic_send_ipi(cpu_by_index(idle)->apic_id, VECTOR_PMI);
		smp_call(idle, do_nothing, NULL);
		task_sleep(500); /* else the next interrupts may find it before it gets on */
	}
	EXPECT(cpu_by_index(idle)->trace->unexplained < WAKES / 4);
}

TEST(bts_threshold_skid, .group = "T", .ids = "T2", .needs = NEED_BTS,
     .claim =
	     "the interrupt never arrives before the threshold, and does before the buffer is full",
     .source = "SDM Vol 3, 17.4.9: BTS interrupt threshold")
{
	size_t runs = test_scaled(200);
	struct skid skid;

	skid_measure(&skid, runs < SKID_MOST ? runs : SKID_MOST);
	test_observe("skid_at_first_read", "%lu/%lu/%lu", skid.read.least, skid.read.median,
		     skid.read.most);
	test_observe("skid_of_interrupt", "%lu/%lu/%lu", skid.recorded.least, skid.recorded.median,
		     skid.recorded.most);
	EXPECT_EQ(skid.missing, 0);
	EXPECT_EQ(skid.early, 0);
	EXPECT(skid.read.most < SKID_ROOM);
}

static void cross_beside(struct rig *rig, uint64_t flags)
{
	rig_reset(rig);
	chain_trace(rig, rig_interrupt() | flags, &chain_a, 16);
	pmi_settle();
}

static void cross(struct rig *rig)
{
	cross_beside(rig, 0);
}

// Xen forwards the PMI of a guest that has vpmu=bts and leaves the guest's LVT entry unmasked: this
// test fails there, which is a finding on Xen, not on the chip (docs/hypervisors.md).
// On the processor the local APIC masks the entry when it delivers a PMI (SDM Vol 3, 10.5.1), and
// the handler has to clear the mask (17.4.9.5). A handler that does not do so gets one interrupt in
// its life and a buffer that stays full.
// Passing means: delivery masks the entry, and clearing the mask lets the next crossing interrupt.
// BTF does nothing by itself, as TF is clear, and LBR has nothing to do with it.
// On a failure as on Xen the log has "pmi.lvtpc & LVT_MASKED". "pmi.count" is an interrupt that was
// missing or came twice, "rig_count(&rig)" a record that was lost.
TEST(bts_threshold_masks, .group = "T", .ids = "T1 T3 T10", .needs = NEED_BTS,
     .claim = "delivery masks the LVT entry, and clearing the mask lets the next crossing "
	      "interrupt; no record is missing after the index was moved back",
     .source = "SDM Vol 3, 10.5.1 and 17.4.9.5: mask")
{
	RIG(rig, 64);
	struct pmi pmi CLOSED_BY(pmi_release) = {.rig = &rig, .delivery = PMI_FIXED};

	pmi_take(&pmi);
	rig_set_threshold(&rig, 8);
	for (unsigned crossing = 1; crossing <= 3; crossing++) {
		cross_beside(&rig, (crossing & 1 ? rig_lbr() : off_usr()) |
					   (crossing & 2 ? DEBUGCTL_BTF : 0));
		EXPECT_EQ(pmi.count, crossing);
		EXPECT_EQ(rig_count(&rig), 16);
		chain_expect(&rig, 0, 16, &chain_a, 16, 0);
		EXPECT(pmi.lvtpc & LVT_MASKED);
		EXPECT(!(apic_read(APIC_LVT_PC) & LVT_MASKED));
		EXPECT_EQ(pmi.lvtpc & LVT_VECTOR_MASK, PMI_VECTOR);
	}
}

TEST(bts_threshold_left_masked, .group = "T", .ids = "T4", .needs = NEED_BTS,
     .claim =
	     "while the LVT entry is left masked no second interrupt arrives, and recording goes on",
     .source = "SDM Vol 3, 17.4.9.5 and 10.5.1: mask")
{
	RIG(rig, 64);
	struct pmi pmi CLOSED_BY(pmi_release) = {
		.rig = &rig, .delivery = PMI_FIXED, .keep_masked = true};

	pmi_take(&pmi);
	rig_set_threshold(&rig, 8);
	cross(&rig);
	EXPECT_EQ(pmi.count, 1);
	cross(&rig);
	EXPECT_EQ(pmi.count, 1);
	EXPECT_EQ(rig_count(&rig), 16);
	chain_expect(&rig, 0, 16, &chain_a, 16, 0);

	lapic_unmask_lvtpc();
	pmi_settle();
	test_observe("masked_interrupt_comes_later", "%d", pmi.count == 2);
	pmi.count = 0;
	lapic_unmask_lvtpc();
	cross(&rig);
	EXPECT_EQ(pmi.count, 1);
}

#define OVERFLOW_BUFFER (1ull << 62)

static bool overflow_shows(void)
{
	return rdmsr(IA32_PERF_GLOBAL_STATUS) & OVERFLOW_BUFFER;
}

/* FREEZE_LBRS_ON_PMI clears TR on the Atoms of 45 and 32 nm, before version 4: 17.4.9.5. */
static void expect_freeze(struct rig *rig)
{
	bool streamlined = pmu_caps()->version >= 4, stopped;
	uint64_t freeze = FREEZE_PERFMON | (streamlined ? FREEZE_LBRS : 0);

	if (msr_try(IA32_DEBUGCTL, freeze, 0).read_back != freeze)
		return;
	wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
	lapic_unmask_lvtpc();
	rig_reset(rig);
	chain_trace(rig, rig_interrupt() | freeze, &chain_a, SKID_ROOM + 32);
	pmi_settle();
	stopped = streamlined ? rdmsr(IA32_PERF_GLOBAL_STATUS) & STATUS_CTR_FRZ
			      : !rdmsr(IA32_PERF_GLOBAL_CTRL);
	EXPECT(stopped && rig_count(rig) == SKID_ROOM + 32);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL,
	      OVERFLOW_BUFFER | (streamlined ? STATUS_CTR_FRZ | STATUS_LBR_FRZ : 0));
}

/* Of counters and last branches, which an interrupt of BTS changes only where it freezes them. A
   counter that firmware has set going counts on. */
static uint64_t registers_of_others(void)
{
	const struct lbr_stack *lbr = lbr_known();
	uint64_t control = rdmsr(IA32_PERF_GLOBAL_CTRL);

	return control + (control & 1 ? 0 : 3 * rdmsr(IA32_PMC0)) +
	       (lbr && lbr_caps()->depth ? lbr_top(lbr) << 8 : 0);
}

/* Described for PEBS; of BTS nothing is said. */
TEST(bts_threshold_status, .group = "T", .ids = "T1 M2 PM37 BF2", .needs = NEED_BTS,
     .claim = "the threshold shows in IA32_PERF_GLOBAL_STATUS.OvfBuf each time or never, not "
	      "before it is reached, and software can clear it; it freezes counters, no more",
     .source = "SDM Vol 3, table 35-2: 38EH bit 62; SDM Vol 3, 17.4.7; SDM Vol 3, 17.4.9.5: the "
	       "index tells the cause")
{
	struct rig rig CLOSED_BY(rig_close);
	struct pmi pmi CLOSED_BY(pmi_release) = {
		.rig = &rig, .delivery = PMI_FIXED, .keep_masked = true};
	uint64_t before;
	bool shows;

	if (cpuid(0, 0).eax < 0xa || (cpuid(0xa, 0).eax & 0xff) < 2)
		test_skip("no IA32_PERF_GLOBAL_STATUS (CPUID.0AH:EAX[7:0] < 2)");
	rig_open(&rig, 2 * SKID_ROOM);
	pmi_take(&pmi);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, OVERFLOW_BUFFER | 1);
	EXPECT(!overflow_shows());
	rig_set_threshold(&rig, 8);
	chain_trace(&rig, rig_interrupt(), &chain_a, 6);
	EXPECT(!overflow_shows());
	before = registers_of_others();
	cross(&rig);
	EXPECT_EQ(registers_of_others(), before);
	shows = overflow_shows();
	EXPECT(!(rdmsr(IA32_PERF_GLOBAL_STATUS) & 1)); /* no counter's overflow */
	test_observe("ovfbuf", "%d", shows);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, OVERFLOW_BUFFER);
	EXPECT(!overflow_shows());
	lapic_unmask_lvtpc();
	cross(&rig);
	EXPECT_EQ(overflow_shows(), shows);
	EXPECT_EQ(pmi.count, 2);
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, OVERFLOW_BUFFER); /* else it may interrupt at once */
	expect_freeze(&rig);
}

/* The work of a driver of BTS in interrupt mode, as a test. */

#define DRAIN_SLOTS	512 /* a handler's own way in must fit past the threshold */
#define DRAIN_THRESHOLD 128
#define DRAIN_WALKS	(20 * DRAIN_SLOTS / 32)

static struct chain_reader reader;
static size_t emptied_full;

static void empty(struct pmi *pmi)
{
	size_t count = rig_count(pmi->rig);

	emptied_full += count >= DRAIN_SLOTS - 1;
	for (size_t slot = 0; slot < count; slot++) {
		struct bts_struct record = rig_record(pmi->rig, slot);

		chain_feed(&reader, &record);
	}
	ds_set(pmi->rig->area, DS_BTS_INDEX, pmi->rig->base);
}

/*
 * Walks many times the buffer's size while the interrupt's handler empties it (TR cleared first,
 * index back to the base, LVT entry unmasked, TR restored), and fails the test unless every branch
 * came through, once and in order. With NMI delivery interrupts are off all the time.
 */
static void drain_walks(enum pmi_delivery delivery)
{
	struct rig rig CLOSED_BY(rig_close);
	struct pmi pmi = {.rig = &rig, .delivery = delivery, .go_on = true, .serve = empty};
	uint64_t flags = 0;

	reader = (struct chain_reader){.chain = &chain_a};
	emptied_full = 0;
	rig_open(&rig, DRAIN_SLOTS);
	pmi_take(&pmi);
	rig_set_threshold(&rig, DRAIN_THRESHOLD);
	if (delivery == PMI_NMI)
		flags = interrupts_save();
	wrmsr(IA32_DEBUGCTL, rig_interrupt());
	for (uint64_t walk = 0; walk < DRAIN_WALKS; walk++)
		chain_walk(&chain_a, chain_length(walk));
	wrmsr(IA32_DEBUGCTL, 0);
	interrupts_restore(flags);
	pmi_settle();
	pmi.go_on = false;
	empty(&pmi);
	pmi_release(&pmi);
	EXPECT(pmi.count >= DRAIN_WALKS * 32 / DRAIN_SLOTS);
	EXPECT_EQ(emptied_full, 0);
	chain_expect_walks(&reader, DRAIN_WALKS, "drained");
}

// The handler of BranchMonitoringProject ignored the index and took as many records as the
// threshold says. The processor goes on storing past the threshold until TR is clear: these
// records are lost once the index is back at the base.
// By SDM Vol 3, 17.4.9.5 the handler clears TR, empties the buffer, resets the index to the base,
// clears the mask of the LVT entry and sets TR again.
// Passing means: a handler that goes by the index has every branch of many buffers, once.
// On a failure the log has "drained: N of M branches out of sequence" with the first one and the
// one that was due. "emptied_full" counts interrupts that were too late for the buffer's room.
TEST(bts_threshold_drain_fixed, .group = "T", .ids = "T10", .needs = NEED_BTS,
     .claim = "a fixed-vector handler that empties the buffer loses no branch and gets none twice",
     .source = "SDM Vol 3, 17.4.9.5: duties of the handler")
{
	drain_walks(PMI_FIXED);
}

TEST(bts_threshold_drain_nmi, .group = "T", .ids = "T10", .needs = NEED_BTS,
     .claim = "an NMI handler that empties the buffer loses no branch and gets none twice",
     .source = "SDM Vol 3, 17.4.9.5: duties of the handler")
{
	drain_walks(PMI_NMI);
}
