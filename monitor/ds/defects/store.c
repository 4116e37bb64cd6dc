// SPDX-License-Identifier: MIT
/* How a record gets into memory, and what else is written: SDM Vol 3, 17.4.4 and 17.4.9. */
#include "monitor/defect.h"

#include "monitor/ds/memory.h"

static bool load_field(struct vcpu *vcpu, unsigned n, uint64_t *value)
{
	return ds_load(vcpu, &vcpu->ds.seen.area, vcpu->ds.ds_area + n * FIELD_BYTES, value, 1);
}

static void store_field(struct vcpu *vcpu, unsigned n, uint64_t value)
{
	ds_store(vcpu, &vcpu->ds.seen.area, vcpu->ds.ds_area + n * FIELD_BYTES, &value, 1);
}

/* An event of `event_cause` right after a taken branch overwrites the record of the branch. */
#define BRANCH_LOST(name, rule, says, event_cause)                                                 \
	static void name(struct vcpu *vcpu, const struct branch *branch)                           \
	{                                                                                          \
		uint64_t *last = REMEMBERED(vcpu, uint64_t), index;                                \
                                                                                                   \
		if (branch->cause == (event_cause) && branch->from == *last &&                     \
		    load_field(vcpu, BTS_INDEX, &index))                                           \
			store_field(vcpu, BTS_INDEX, index - RECORD_BYTES);                        \
		*last = branch->to;                                                                \
		ds_clean.store(vcpu, branch);                                                      \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(store, name))

BRANCH_LOST(branch_before_fault_lost, "SDM Vol 3, 17.11.2",
	    "a fault raised by fetching a branch target overwrites the record of the branch",
	    CAUSE_EXCEPTION)
BRANCH_LOST(branch_before_interrupt_lost, "SDM Vol 3, 17.4.4",
	    "an interrupt right after a taken branch overwrites its record", CAUSE_INTERRUPT)

static void every_thousandth_lost(struct vcpu *vcpu, const struct branch *branch)
{
	if (++*REMEMBERED(vcpu, unsigned) % 1000)
		ds_clean.store(vcpu, branch);
}
DEFECT(every_thousandth_lost, "SDM Vol 3, 17.4.4", "one branch in a thousand is lost",
       BREAKS(store, every_thousandth_lost))

static void every_thousandth_twice(struct vcpu *vcpu, const struct branch *branch)
{
	ds_clean.store(vcpu, branch);
	if (++*REMEMBERED(vcpu, unsigned) % 1000 == 0)
		ds_clean.store(vcpu, branch);
}
DEFECT(every_thousandth_twice, "SDM Vol 3, 17.4.4", "one branch in a thousand is stored twice",
       BREAKS(store, every_thousandth_twice))

static void flags_not_written(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t index, old;

	if (!load_field(vcpu, BTS_INDEX, &index) ||
	    !ds_load(vcpu, &vcpu->ds.seen.buffer, index + 2 * FIELD_BYTES, &old, 1))
		return;
	ds_clean.store(vcpu, branch);
	ds_store(vcpu, &vcpu->ds.seen.buffer, index + 2 * FIELD_BYTES, &old, 1);
}
DEFECT(flags_not_written, "SDM Vol 3, 17.4.9.1",
       "a record is written up to its flags, which stay what they were",
       BREAKS(store, flags_not_written))

static void page_crossing_half(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t index = 0, second, old[RECORD_WORDS];
	bool crosses;

	load_field(vcpu, BTS_INDEX, &index);
	second = (index | DS_PAGE_MASK) + 1;
	crosses = second - index < RECORD_BYTES &&
		  ds_load(vcpu, &vcpu->ds.seen.buffer, second, old, RECORD_WORDS);
	ds_clean.store(vcpu, branch);
	if (crosses)
		ds_store(vcpu, &vcpu->ds.seen.buffer, second, old, RECORD_WORDS);
}
DEFECT(page_crossing_half, "SDM Vol 3, 17.4.9.2",
       "of a record that crosses a page only the part in the first page is written",
       BREAKS(store, page_crossing_half))

static bool page_crossing_lost(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	return ds_clean.overflow(vcpu, field) &&
	       (field[BTS_INDEX] & DS_PAGE_MASK) <= DS_PAGE_BYTES - RECORD_BYTES;
}
DEFECT(page_crossing_lost, "SDM Vol 3, 17.4.9.2", "a record that crosses a page is lost",
       BREAKS(overflow, page_crossing_lost))

static void pairs_swapped(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t index, pair[2 * RECORD_WORDS], swapped[2 * RECORD_WORDS];

	ds_clean.store(vcpu, branch);
	if (++*REMEMBERED(vcpu, unsigned) % 2 || !load_field(vcpu, BTS_INDEX, &index) ||
	    !ds_load(vcpu, &vcpu->ds.seen.buffer, index - 2 * RECORD_BYTES, pair, 2 * RECORD_WORDS))
		return;
	for (unsigned i = 0; i < 2 * RECORD_WORDS; i++)
		swapped[i] = pair[(i + RECORD_WORDS) % (2 * RECORD_WORDS)];
	ds_store(vcpu, &vcpu->ds.seen.buffer, index - 2 * RECORD_BYTES, swapped, 2 * RECORD_WORDS);
}
DEFECT(pairs_swapped, "SDM Vol 3, 17.4.9.1",
       "every second record changes places with the one before it", BREAKS(store, pairs_swapped))

static void record_32_bit_format(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t record[2] = {(uint32_t)branch->from | branch->to << 32, 0}, index;

	ds_refresh(vcpu);
	if (load_field(vcpu, BTS_INDEX, &index) &&
	    ds_store(vcpu, &vcpu->ds.seen.buffer, index, record, 2))
		store_field(vcpu, BTS_INDEX, index + RECORD_BYTES / 2);
}
DEFECT(record_32_bit_format, "SDM Vol 3, 17.4.9.1",
       "records have the 32-bit format: three doublewords", BREAKS(store, record_32_bit_format))

static void stored_one_late(struct vcpu *vcpu, const struct branch *branch)
{
	struct branch *held = REMEMBERED(vcpu, struct branch);

	if (held->to)
		ds_clean.store(vcpu, held);
	*held = *branch;
}
DEFECT(stored_one_late, "SDM Vol 3, 17.4.4", "a record is stored when the next branch is taken",
       BREAKS(store, stored_one_late))

static void threshold_rewritten(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t threshold;

	ds_clean.store(vcpu, branch);
	if (load_field(vcpu, BTS_THRESHOLD, &threshold))
		store_field(vcpu, BTS_THRESHOLD, threshold & ~63ull);
}
DEFECT(threshold_rewritten, "SDM Vol 3, 17.4.9.1",
       "the threshold in the DS area is rounded down to a cache line",
       BREAKS(store, threshold_rewritten))

static void translation_kept(struct vcpu *vcpu, const struct branch *branch)
{
	vcpu->ds.seen.translations = vcpu->translations;
	ds_clean.store(vcpu, branch);
}
DEFECT(translation_kept, "SDM Vol 3, 17.4.9.2",
       "the translation of the buffer is kept over INVLPG and MOV to CR3 as long as it is used",
       BREAKS(store, translation_kept))

static void wrap_moves_base(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t base, before, after;

	if (!load_field(vcpu, BTS_INDEX, &before))
		return;
	ds_clean.store(vcpu, branch);
	if (load_field(vcpu, BTS_BASE, &base) && load_field(vcpu, BTS_INDEX, &after) &&
	    after < before)
		store_field(vcpu, BTS_BASE, base + RECORD_BYTES);
}
DEFECT(wrap_moves_base, "SDM Vol 3, 17.4.9", "the base moves on by a slot at every wrap",
       BREAKS(store, wrap_moves_base))

static void writes_before_base(struct vcpu *vcpu, const struct branch *branch)
{
	const uint64_t zero = 0;
	uint64_t base, index;

	if (load_field(vcpu, BTS_BASE, &base) && load_field(vcpu, BTS_INDEX, &index) &&
	    index == base)
		ds_store(vcpu, &vcpu->ds.seen.buffer, base - FIELD_BYTES, &zero, 1);
	ds_clean.store(vcpu, branch);
}
DEFECT(writes_before_base, "SDM Vol 3, 17.4.9",
       "a record in the first slot clears the quadword before the base",
       BREAKS(store, writes_before_base))

static void writes_fourth_quadword(struct vcpu *vcpu, const struct branch *branch)
{
	const uint64_t stamp = vcpu->rip;
	uint64_t index;

	if (!load_field(vcpu, BTS_INDEX, &index))
		return;
	ds_clean.store(vcpu, branch);
	ds_store(vcpu, &vcpu->ds.seen.buffer, index + RECORD_BYTES, &stamp, 1);
}
DEFECT(writes_fourth_quadword, "SDM Vol 3, 17.4.9.1",
       "a fourth quadword is written after each record", BREAKS(store, writes_fourth_quadword))

/* In quadwords of the DS area: SDM Vol 3, 17.4.9.2. */
enum { INDEX_OF_PEBS = 5, AFTER_COUNTER_RESETS = 16 };

static void writes_behind_area(struct vcpu *vcpu, const struct branch *branch)
{
	ds_clean.store(vcpu, branch);
	store_field(vcpu, AFTER_COUNTER_RESETS, ++*REMEMBERED(vcpu, uint64_t));
}
DEFECT(writes_behind_area, "SDM Vol 3, 17.4.9.1",
       "a count of records is kept after the counter resets of the DS area",
       BREAKS(store, writes_behind_area))

static void writes_pebs_index(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t index;

	if (!load_field(vcpu, BTS_INDEX, &index))
		return;
	ds_clean.store(vcpu, branch);
	store_field(vcpu, INDEX_OF_PEBS, index);
}
DEFECT(writes_pebs_index, "SDM Vol 3, 17.4.9.1",
       "the PEBS index of the DS area moves with the BTS index", BREAKS(store, writes_pebs_index))

static void area_page_aligned(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t area = vcpu->ds.ds_area;

	vcpu->ds.ds_area &= ~DS_PAGE_MASK;
	ds_clean.store(vcpu, branch);
	vcpu->ds.ds_area = area;
}
DEFECT(area_page_aligned, "SDM Vol 3, 17.4.9",
       "the DS area is looked for at the start of the page that IA32_DS_AREA is in",
       BREAKS(store, area_page_aligned))

static void area_crossing_lost(struct vcpu *vcpu, const struct branch *branch)
{
	if ((vcpu->ds.ds_area & DS_PAGE_MASK) <= DS_PAGE_BYTES - BTS_FIELDS * FIELD_BYTES)
		ds_clean.store(vcpu, branch);
}
DEFECT(area_crossing_lost, "SDM Vol 3, 17.4.9.2",
       "with a DS area whose fields lie in two pages nothing is recorded",
       BREAKS(store, area_crossing_lost))

static bool area_translation_kept_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_DS_AREA)
		ds_forget(vcpu);
	return ds_clean.write_msr(vcpu, index, value);
}

static void area_translation_kept_store(struct vcpu *vcpu, const struct branch *branch)
{
	struct ds_window area = vcpu->ds.seen.area;

	ds_refresh(vcpu);
	vcpu->ds.seen.area = area;
	ds_clean.store(vcpu, branch);
}
DEFECT(area_translation_kept, "SDM Vol 3, 17.4.9.2",
       "the DS area is translated once, when IA32_DS_AREA is written: INVLPG does not count",
       BREAKS(write_msr, area_translation_kept_write_msr),
       BREAKS(store, area_translation_kept_store))
