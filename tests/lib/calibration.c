// SPDX-License-Identifier: MIT
#include "tests/lib/calibration.h"

#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"
#include "tests/lib/rig.h"

#define SLOTS CALIBRATION_SLOTS
#define ROOM  (3 * SLOTS) /* the buffer's memory goes on: nothing measured here leaves it */

static size_t used_with(struct rig *rig, uint64_t extra)
{
	rig_shorten(rig, SLOTS, extra);
	chain_trace(rig, rig_all(), &chain_a, 2 * SLOTS + 2);
	return rig_used(rig);
}

static void measure_index(struct rig *rig, struct calibration *c)
{
	size_t capacity = SLOTS - c->unused;

	rig_shorten(rig, SLOTS, maximum_extra(c->maximum));
	chain_trace(rig, rig_all(), &chain_a, capacity);
	if (rig_index(rig) == rig->base)
		c->index_after_last = INDEX_AT_BASE;
	else if (rig_index(rig) == rig->base + capacity * rig->record)
		c->index_after_last = INDEX_BEHIND_LAST;
	else
		c->index_after_last = INDEX_OTHER;
}

static bool slot_holds(const struct rig *rig, size_t slot, uint64_t n, uint64_t i)
{
	struct bts_struct record = rig_record(rig, slot);
	struct branch branch = chain_branch(&chain_a, n, i);

	return record.from == branch.from && record.to == branch.to;
}

/* Slot 0 and the slot after the last one show what became of what did not fit. */
static void measure_full(struct rig *rig, struct calibration *c)
{
	const uint64_t n = SLOTS + 4;
	size_t capacity = SLOTS - c->unused, used;

	rig_shorten(rig, SLOTS, maximum_extra(c->maximum));
	chain_trace(rig, rig_interrupt(), &chain_a, n);
	used = rig_used(rig);
	c->when_full = FULL_OTHER;
	if (slot_holds(rig, 0, n, 0) && used == capacity)
		c->when_full = FULL_STOPS;
	else if (slot_holds(rig, 0, n, capacity) && used == capacity)
		c->when_full = FULL_WRAPS;
	else if (slot_holds(rig, 0, n, 0) && used == n)
		c->when_full = FULL_WRITES_ON;
}

/* Counts interrupts with the threshold at slot 2. */
static void measure_interrupts(struct rig *rig, struct pmi *pmi, struct calibration *c)
{
	ds_set(rig->area, DS_BTS_ABSOLUTE_MAXIMUM, rig->base + ROOM * rig->record);
	rig_reset(rig);
	pmi->count = 0;
	rig_set_threshold(rig, 2);
	chain_trace(rig, rig_all(), &chain_a, 4);
	pmi_settle();
	c->interrupt_when_circular = pmi->count;

	rig_reset(rig);
	chain_trace(rig, rig_interrupt(), &chain_a, 4);
	pmi_settle();
	pmi->count = 0;
	chain_trace(rig, rig_interrupt(), &chain_a, 4);
	pmi_settle();
	c->level = pmi->count;
}

static void measure(struct calibration *c)
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, ROOM);
	pmi_take(&pmi);
	c->used_at_end = used_with(&rig, 0);
	c->used_at_end_plus_1 = used_with(&rig, 1);
	if (c->used_at_end != SLOTS && c->used_at_end_plus_1 == SLOTS)
		c->maximum = DS_MAXIMUM_AT_END_PLUS_1;
	c->unused = c->maximum == DS_MAXIMUM_AT_END && c->used_at_end == SLOTS - 1;
	measure_index(&rig, c);
	measure_full(&rig, c);
	pmi_settle();
	measure_interrupts(&rig, &pmi, c);
	pmi_release(&pmi);
	rig_close(&rig);
}

const struct calibration *calibration(void)
{
	static struct calibration measured;
	static bool done;

	if (!done) {
		measure(&measured);
		ds_maximum = measured.maximum;
		done = true;
	}
	return &measured;
}

const char *index_after_last_name(enum index_after_last index)
{
	static const char *const names[] = {"base", "behind_last", "other"};

	return names[index];
}

const char *when_full_name(enum when_full when)
{
	static const char *const names[] = {"stops", "wraps", "writes_on", "other"};

	return names[when];
}
