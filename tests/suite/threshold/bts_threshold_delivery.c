// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/lock.h"
#include "kernel/trap/trap.h"
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmi.h"
#include "tests/lib/rig.h"

#define SLOTS	  512
#define THRESHOLD 256

TEST(bts_threshold_fixed, .group = "T", .ids = "T1", .needs = NEED_BTS,
     .claim =
	     "with BTINT one interrupt arrives by its fixed vector, with the index at the threshold",
     .source = "SDM Vol 3, 17.4.9.5 and 10.5.1: delivery mode fixed")
{
	uint64_t unknown = nmi_unknown_count();
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, SLOTS);
	pmi_take(&pmi);
	pmi_cross(&pmi, THRESHOLD, SLOTS);
	pmi_release(&pmi);
	EXPECT_EQ(nmi_unknown_count(), unknown);
	rig_close(&rig);
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
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};
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
	pmi_release(&pmi);
	rig_close(&rig);
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

TEST(bts_threshold_pends, .group = "T", .ids = "T6", .needs = NEED_BTS,
     .claim = "the interrupt waits for IF = 1; records past the maximum stop, wrap or go on alike",
     .source = "SDM Vol 3, 17.4.9.5")
{
	const struct calibration *c = calibration();
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};
	uint64_t flags;

	test_observe("when_full", "%s", when_full_name(c->when_full));
	rig_open(&rig, N + 8);
	pmi_take(&pmi);
	rig_shorten(&rig, PENDS_SLOTS, maximum_extra(c->maximum));
	rig_set_threshold(&rig, PENDS_SLOTS / 2);
	flags = interrupts_save();
	chain_trace(&rig, rig_interrupt(), &chain_a, N);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	interrupts_restore(flags);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	EXPECT_EQ(pmi.index, rig_index(&rig));
	EXPECT(c->when_full != FULL_OTHER);
	check_buffer(&rig, c);
	pmi_release(&pmi);
	rig_close(&rig);
}

TEST(bts_threshold_nmi, .group = "T", .ids = "T7", .needs = NEED_BTS,
     .claim = "with NMI delivery the interrupt arrives though IF = 0, at or past the threshold",
     .source = "SDM Vol 3, 10.5.1 and 17.4.9.5: delivery mode NMI")
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_NMI};
	uint64_t flags;

	rig_open(&rig, SLOTS);
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
	test_observe("lvt_masked_by_nmi", "%d", !!(pmi.lvtpc & LVT_MASKED));
	test_observe("nmi_skid_at_first_read", "%lu",
		     (pmi.index - rig.base) / rig.record - THRESHOLD);
	pmi_release(&pmi);
	rig_close(&rig);
}

#define IN_NMI_SLOTS	 16384
#define IN_NMI_THRESHOLD 8192 /* more than the way to the first NMI takes */

static volatile uint64_t nmis __attribute__((used));

extern const char in_nmi_handler[];

/* The first NMI branches past the threshold; any other ends recording. */
__asm__(".pushsection .text\n"
	"in_nmi_handler: pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\tincq nmis(%rip)\n\t"
	"cmpq $1, nmis(%rip)\n\tjne 2f\n\t"
	"movl $10000, %ecx\n1:\tdecl %ecx\n\tjnz 1b\n\tjmp 3f\n"
	"2:\tmovl $0x1d9, %ecx\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n"
	"3:\tpopq %rdx\n\tpopq %rcx\n\tpopq %rax\n\tiretq\n"
	".popsection");

/* Waits for both NMIs for at most 1000 rounds. */
static void trace(void)
{
	TRACED_WITH(rig_interrupt(),
		    "call lapic_self_nmi\n\tmovl $1000, %%ecx\n"
		    "1:\tpause\n\tcmpq $1, %[nmis]\n\tja 2f\n\tdecl %%ecx\n\tjnz 1b\n2:\n\t",
		    , OPERANDS([nmis] "m"(nmis)), "rsi", "rdi", "r8", "r9", "r10", "r11");
}

TEST(bts_threshold_in_nmi, .group = "T", .ids = "T7", .needs = NEED_BTS,
     .claim =
	     "an NMI at a threshold that is reached inside an NMI handler is delivered after its IRETQ",
     .source = "SDM Vol 3, 10.5.1: delivery mode NMI")
{
	uint32_t lvtpc = lapic_read_lvtpc();
	struct rig rig;

	rig_open(&rig, IN_NMI_SLOTS);
	rig_set_threshold(&rig, IN_NMI_THRESHOLD);
	own_idt_copy();
	own_idt_set(VECTOR_NMI, in_nmi_handler, false);
	nmis = 0;
	own_idt_load();
	lapic_set_lvtpc(0, true);
	trace();
	lapic_mask_lvtpc();
	own_idt_unload();
	lapic_set_lvtpc((uint8_t)(lvtpc & LVT_VECTOR_MASK), lvtpc & LVT_NMI);
	EXPECT(nmis >= 2);
	EXPECT(rig_count(&rig) > IN_NMI_THRESHOLD);
	rig_close(&rig);
}
