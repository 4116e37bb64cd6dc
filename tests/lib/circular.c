// SPDX-License-Identifier: MIT
#include "tests/lib/circular.h"

#include "tests/lib/chain.h"

static void set_end(struct rig *rig, size_t slots, uint64_t extra)
{
	uint64_t end = rig->base + slots * rig->record + extra;

	ds_set(rig->area, DS_BTS_ABSOLUTE_MAXIMUM, end);
	ds_set(rig->area, DS_BTS_INTERRUPT_THRESHOLD, end + rig->record);
}

void rig_shorten(struct rig *rig, size_t slots, uint64_t extra)
{
	rig_reset(rig);
	set_end(rig, slots, extra);
}

void rig_lengthen(struct rig *rig)
{
	set_end(rig, rig->slots, 0);
}

size_t rig_used(const struct rig *rig)
{
	const uint8_t *bytes = (const uint8_t *)rig->base;
	size_t end = rig->slots * rig->record;

	while (end > 0 && !bytes[end - 1])
		end--;
	return (end + rig->record - 1) / rig->record;
}

void circular_expect(struct rig *rig, size_t capacity, const struct chain *chain, uint64_t n)
{
	size_t newest = n % capacity; /* slots written in the round under way */
	uint64_t index = rig_index(rig), behind = rig->base + newest * rig->record;
	bool at_end = !newest && index == rig->base + capacity * rig->record;

	EXPECT_EQ(at_end ? rig->base : index, behind);
	rig_lengthen(rig);
	chain_expect(rig, 0, newest, chain, n, n - newest);
	if (n >= capacity)
		chain_expect(rig, newest, capacity - newest, chain, n, n - capacity);
	EXPECT_EQ(rig_used(rig), n < capacity ? n : capacity);
}
