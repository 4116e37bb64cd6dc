// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/sched/sched.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/context.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmi.h"
#include "tests/lib/rig.h"
#include "tests/lib/walker.h"

/*
 * Silicon that interrupts on the crossing only, and compares after the index moved on, never sees
 * the index below this threshold: there, and only there, none is accepted.
 */
TEST(bts_threshold_first_slot, .group = "T", .ids = "T8", .needs = NEED_BTS,
     .claim = "a threshold at the base interrupts at the first record",
     .source = "SDM Vol 3, 17.4.9: BTS interrupt threshold")
{
	bool level = calibration()->level;
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, 16);
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
	pmi_release(&pmi);
	rig_close(&rig);
}

#define SLOTS 16

TEST(bts_threshold_last_slot, .group = "T", .ids = "T8", .needs = NEED_BTS,
     .claim = "a threshold at the last slot interrupts when that slot is reached, not before",
     .source = "SDM Vol 3, 17.4.9: BTS interrupt threshold")
{
	const struct calibration *c = calibration();
	size_t capacity = SLOTS - c->unused;
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, 2 * SLOTS);
	pmi_take(&pmi);
	rig_shorten(&rig, SLOTS, maximum_extra(c->maximum));
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
	pmi_release(&pmi);
	rig_close(&rig);
}

TEST(bts_threshold_not_reset, .group = "T", .ids = "T5", .needs = NEED_BTS,
     .claim = "an index left above the threshold interrupts again (level) or not (edge), no storm",
     .source = "SDM Vol 3, 17.4.9.5: \"matches/exceeds\"")
{
	bool level = calibration()->level;
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, 128);
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
	pmi_release(&pmi);
	rig_close(&rig);
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
static unsigned interrupts(struct pmi *pmi, size_t slot, void (*trace)(void))
{
	pmi->count = 0;
	rig_reset(pmi->rig);
	rig_set_threshold(pmi->rig, slot);
	own_idt_load();
	trace();
	own_idt_unload();
	pmi_settle();
	EXPECT_EQ(rig_count(pmi->rig), 2);
	return pmi->count;
}

/* Whether the index before or after a record counts is the processor's: hence two thresholds. */
TEST(bts_threshold_by_event, .group = "T", .ids = "T1 T8", .needs = NEED_BTS,
     .claim = "the record of an exception reaches the threshold as that of a jump does",
     .source = "SDM Vol 3, 17.4.9 and 17.4.9.5: BTS interrupt threshold")
{
	unsigned by_jump, most = 0;
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, 16);
	pmi_take(&pmi);
	own_idt_copy();
	own_idt_set(VECTOR_UD, event_handler_in_place, false);
	for (size_t slot = 1; slot <= 2; slot++) {
		by_jump = interrupts(&pmi, slot, trace_jump);
		EXPECT_EQ(interrupts(&pmi, slot, trace_fault), by_jump);
		most = by_jump > most ? by_jump : most;
	}
	EXPECT_EQ(most, 1);
	pmi_release(&pmi);
	rig_close(&rig);
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

TEST(bts_threshold_spurious, .group = "T", .ids = "T11", .needs = NEED_BTS,
     .claim = "an interrupt with the index below the threshold is not taken for ours",
     .source = "SDM Vol 3, 17.4.9.5: how the handler finds the cause")
{
	struct walker walker = {.name = "spurious",
				.chain = &chain_a,
				.walks = WALKS,
				.options = walker_options(32768),
				.between = interrupt};
	uint64_t unknown = nmi_unknown_count();
	struct bts_status status;

	walker.options.overflow = TRACE_WRAP; /* no threshold to be reached */
	walkers_start(&walker, 1);
	walkers_join(&walker, 1);
	bts_status(walker.tracer, &status);
	EXPECT(status.circular);
	EXPECT_EQ(nmi_unknown_count() - unknown, WALKS / 2);
	walkers_check(&walker, 1);
}

// A processor whose interrupts arrive late may have many that no unit explains any more, all at one
// instruction. Passing means: the kernel does not count them for a storm, which never ends.

#define LATE  1500 /* half as many again as make a storm */
#define WAKES 60   /* each costs what a host takes to run another of its processors */

TEST(bts_threshold_late_in_loop, .group = "T", .ids = "", .needs = NEED_BTS,
     .claim = "interrupts without a cause are no storm while the loop that they find gets on",
     .source = "docs/design.md#interrupt-at-the-threshold")
{
	task_set_affinity(current_task(), cpu_set_of(0));
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

	task_set_affinity(current_task(), cpu_set_of(0));
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
