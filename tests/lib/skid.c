// SPDX-License-Identifier: MIT
#include "tests/lib/skid.h"

#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"

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
	wrmsr(IA32_DEBUGCTL, rig_interrupt());
	while (!pmi->count && rig_count(rig) < SLOTS - 1)
		chain_walk(&chain_a, 2);
	wrmsr(IA32_DEBUGCTL, 0);
	pmi_settle();
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
