// SPDX-License-Identifier: MIT
#include "tests/lib/pmi.h"

#include "drivers/apic/lapic.h"
#include "drivers/pmu/pmu.h"
#include "kernel/time.h"
#include "tests/lib/chain.h"

/* An interrupt storm ends here: the LVT entry stays masked. */
#define MOST_DELIVERIES 100000

#define SETTLING 50 /* microseconds */

static struct pmi *taken;

static void serve(struct pmi *pmi)
{
	uint64_t index = rig_index(pmi->rig);
	uint32_t lvtpc = apic_read(APIC_LVT_PC);
	uint64_t debugctl = rdmsr(IA32_DEBUGCTL);

	wrmsr(IA32_DEBUGCTL, debugctl & ~ds_configuration->tr);
	pmi->index = index;
	pmi->lvtpc = lvtpc;
	pmi->count++;
	if (pmi->serve)
		pmi->serve(pmi);
	if (pmi->delivery == PMI_FIXED)
		lapic_eoi();
	if (!pmi->keep_masked && pmi->count < MOST_DELIVERIES) {
		pmu_take_overflows(0); /* OvfBuf, left set, may interrupt again */
		lapic_unmask_lvtpc();
	}
	if (pmi->go_on)
		wrmsr(IA32_DEBUGCTL, debugctl);
}

static void fixed(struct trap_frame *frame)
{
	(void)frame;
	if (taken->delivery == PMI_FIXED) {
		serve(taken);
		return;
	}
	taken->astray++;
	lapic_eoi();
}

/* Other NMIs, a watchdog's, come too: ours has reached its threshold, or masked the LVT entry. */
static bool nmi(struct trap_frame *frame)
{
	bool reached =
		rig_index(taken->rig) >= ds_get(taken->rig->area, DS_BTS_INTERRUPT_THRESHOLD);

	(void)frame;
	if (!reached && !(apic_read(APIC_LVT_PC) & LVT_MASKED))
		return false;
	serve(taken);
	return true;
}

void pmi_take(struct pmi *pmi)
{
	pmi->lvtpc_before = apic_read(APIC_LVT_PC);
	taken = pmi;
	if (pmi->delivery == PMI_NMI)
		test_handle_nmis(nmi);
	interrupt_set_handler(PMI_VECTOR, fixed);
	lapic_set_task_priority(BELOW_PMI_VECTOR); /* a timer's way would fill a rig's buffer */
	lapic_set_lvtpc(PMI_VECTOR, pmi->delivery == PMI_NMI);
}

/* An interrupt that is on its way arrives before the handler is removed. */
void pmi_release(struct pmi *pmi)
{
	lapic_mask_lvtpc();
	pmi_settle();
	if (pmi->delivery == PMI_NMI)
		test_handle_nmis(NULL);
	interrupt_set_handler(PMI_VECTOR, NULL);
	lapic_set_task_priority(0);
	EXPECT_EQ(pmi->astray, 0);
	lapic_set_lvtpc((uint8_t)(pmi->lvtpc_before & LVT_VECTOR_MASK),
			pmi->lvtpc_before & LVT_NMI);
	lapic_mask_lvtpc();
}

/* Until the interrupt, or all slots but one, or walks of which each was to fill a slot. */
static void walk_to_interrupt(const struct pmi *pmi, size_t slots)
{
	wrmsr(IA32_DEBUGCTL, rig_interrupt());
	for (size_t walks = 0; walks < slots && !pmi->count && rig_count(pmi->rig) < slots - 1;
	     walks++)
		chain_walk(&chain_a, 2);
	wrmsr(IA32_DEBUGCTL, 0);
	pmi_settle();
}

void pmi_cross(struct pmi *pmi, size_t records, size_t slots)
{
	struct rig *rig = pmi->rig;

	rig_set_threshold(rig, records);
	chain_trace(rig, rig_interrupt(), &chain_a, records - 1);
	pmi_settle();
	EXPECT_EQ(pmi->count, 0);
	rig_reset(rig);
	walk_to_interrupt(pmi, slots);
	EXPECT_EQ(pmi->count, 1);
	EXPECT(pmi->index >= rig->base + records * rig->record);
	EXPECT(pmi->index <= rig->base + slots * rig->record);
}

void pmi_settle(void)
{
	uint64_t end = clock_us() + SETTLING;

	while (clock_us() < end)
		__asm__ volatile("pause");
}

#define THRESHOLD 8
#define SLOTS	  (THRESHOLD + SKID_ROOM)

/* The slot of the record that tells of the interrupt itself; SLOTS if there is none. */
static size_t interrupt_slot(const struct rig *rig)
{
	for (size_t slot = 0; slot < SLOTS; slot++)
		if (rig_record(rig, slot).to == trap_entry(PMI_VECTOR))
			return slot;
	return SLOTS;
}

static void cross(struct rig *rig, struct pmi *pmi)
{
	rig_reset(rig);
	pmi->count = 0;
	walk_to_interrupt(pmi, SLOTS);
}

void skid_measure(struct skid *skid, size_t runs)
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};
	uint64_t *recorded = test_area(SKID_MOST * sizeof(uint64_t) / 4096);
	uint64_t *read = test_area(SKID_MOST * sizeof(uint64_t) / 4096);
	size_t count = 0, found = 0;

	*skid = (struct skid){.runs = runs};
	rig_open(&rig, SLOTS);
	pmi_take(&pmi);
	rig_set_threshold(&rig, THRESHOLD);
	for (size_t i = 0; i < runs; i++) {
		uint64_t threshold = rig.base + THRESHOLD * rig.record;
		size_t slot;

		cross(&rig, &pmi);
		slot = interrupt_slot(&rig);
		if (!pmi.count) {
			skid->missing++;
		} else if (pmi.index < threshold || slot < THRESHOLD) {
			skid->early++;
		} else {
			read[count++] = (pmi.index - threshold) / rig.record;
			if (slot < SLOTS)
				recorded[found++] = slot - THRESHOLD;
		}
	}
	pmi_release(&pmi);
	rig_close(&rig);
	skid->recorded = distribution(recorded, found);
	skid->read = distribution(read, count);
}
