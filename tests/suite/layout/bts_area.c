// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"
#include "tests/lib/rig.h"

/* Whether a buffer works that begins `offset` bytes past the start of a page. */

#define ALIGNED_BRANCHES 24

/*
 * Traces so many branches into such a buffer and returns how many of the first records are right.
 * Fails the test if anything around the buffer was written.
 */
static size_t aligned_right(size_t offset)
{
	struct rig rig;
	size_t right = 0;

	rig_open_at(&rig, 2 * ALIGNED_BRANCHES, offset);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, ALIGNED_BRANCHES);
	if (rig_index(&rig) == rig.base + ALIGNED_BRANCHES * rig.record)
		for (; right < ALIGNED_BRANCHES; right++) {
			struct bts_struct record = rig_record(&rig, right);
			struct branch branch = chain_branch(&chain_a, ALIGNED_BRANCHES, right);

			if (record.from != branch.from || record.to != branch.to)
				break;
		}
	rig_close(&rig);
	return right;
}

TEST(bts_base_alignment, .group = "L", .ids = "L3", .needs = NEED_BTS,
     .claim = "a buffer may begin at any multiple of 64 or of 8",
     .source = "SDM Vol 3, 17.4.9 and 17.4.9.2: doubleword boundary, cache line recommended")
{
	static const size_t offsets[] = {0, 64, 192, 8, 16, 24, 56, 4096 - 64, 4096 - 8};

	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		EXPECT_EQ(aligned_right(offsets[i]), ALIGNED_BRANCHES);
}

/* The manual allows it, no system is known to do it: measured, not required. */
TEST(bts_base_doubleword, .group = "L", .ids = "L3", .needs = NEED_BTS,
     .claim = "a buffer that begins at an odd multiple of 4 makes the processor write nowhere else",
     .source = "SDM Vol 3, 17.4.9: natural doubleword boundary")
{
	EXPECT_EQ(aligned_right(0), ALIGNED_BRANCHES);
	test_observe("right_at_4", "%zu_of_%d", aligned_right(4), ALIGNED_BRANCHES);
	test_observe("right_at_60", "%zu_of_%d", aligned_right(60), ALIGNED_BRANCHES);
	test_observe("right_at_4092", "%zu_of_%d", aligned_right(4092), ALIGNED_BRANCHES);
}

#define BRANCHES 12

/* The area of `rig` from here on: the fields of the one that it has, and no pattern. */
static void move(struct rig *rig, void *area)
{
	for (unsigned field = DS_BTS_BUFFER_BASE; field <= DS_BTS_INTERRUPT_THRESHOLD; field++)
		ds_set(area, field, ds_get(rig->area, field));
	rig->area = area;
	wrmsr(IA32_DS_AREA, (uint64_t)area);
}

TEST(bts_area_anywhere, .group = "L", .ids = "L1 L4", .needs = NEED_BTS,
     .claim = "the DS area may begin anywhere in a page, and its fields may lie in two",
     .source = "SDM Vol 3, 17.4.9, 17.4.9.2 and figure 17-8: contiguous linear addresses")
{
	static const size_t offsets[] = {0,	    64,	       2048 + 8, 4096 - 32,
					 4096 - 24, 4096 - 16, 4096 - 8, 4096};
	uint8_t *pages = test_area(3);
	struct rig rig, moved;

	rig_open(&rig, 2 * BRANCHES);
	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		moved = rig;
		move(&moved, pages + offsets[i]);
		EXACTLY (&moved)
			chain_trace(&moved, rig_all(), &chain_a, BRANCHES);
		EXPECT_EQ(rig_count(&moved), BRANCHES);
		chain_expect(&moved, 0, BRANCHES, &chain_a, BRANCHES, 0);
	}
	wrmsr(IA32_DS_AREA, (uint64_t)rig.area);
	rig_close(&rig);
}

/* The page of the DS area becomes another, with the same content, between two jumps. */
static void remap(uint64_t *place, uint64_t entry, const void *area)
{
	TRACED_WITH(rig_all(),
		    "jmp 1f\n\tud2\n1:\tmovq %[entry], (%[place])\n\tinvlpg (%[area])\n\t"
		    "jmp 2f\n\tud2\n2:\n\t",
		    , OPERANDS([entry] "r"(entry), [place] "r"(place), [area] "r"(area)));
}

TEST(bts_area_remapped, .group = "L", .ids = "L4", .needs = NEED_BTS,
     .claim = "the DS area is found by the page tables: INVLPG makes a change count",
     .source = "SDM Vol 3, 17.4.9.2 and 4.10.4: linear addresses, invalidation")
{
	uint8_t *other = test_area(1);
	uint64_t *place, old;
	struct rig rig;

	rig_open(&rig, 16);
	for (unsigned field = DS_BTS_BUFFER_BASE; field <= DS_BTS_INTERRUPT_THRESHOLD; field++)
		ds_set(other, field, ds_get(rig.area, field));
	ds_set(other, DS_BTS_INDEX, rig.base + 4 * rig.record);
	place = vm_entry((uint64_t)rig.area);
	old = *place;
	remap(place, *vm_entry((uint64_t)other), rig.area);
	*place = old;
	vm_flush((uint64_t)rig.area);
	EXPECT_EQ(rig_count(&rig), 1);
	EXPECT_EQ(ds_get(other, DS_BTS_INDEX), rig.base + 5 * rig.record);
	EXPECT(rig_record(&rig, 0).from != 0);
	EXPECT(rig_record(&rig, 4).from > rig_record(&rig, 0).from);
	rig_close(&rig);
}

#define MANY 100000 /* 2.4 MB */

TEST(bts_buffer_large, .group = "L", .ids = "L1", .needs = NEED_BTS,
     .claim = "a buffer of more than 2 MiB is filled from end to end",
     .source = "SDM Vol 3, 17.4.9: BTS absolute maximum")
{
	struct rig rig;

	rig_open(&rig, MANY + 2);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, MANY);
	EXPECT_EQ(rig_count(&rig), MANY);
	chain_expect(&rig, 0, MANY, &chain_a, MANY, 0);
	rig_close(&rig);
}

/* Software must set both bits before; what happens else is only measured. */
static uint64_t *clear(const void *linear)
{
	uint64_t *entry = vm_entry((uint64_t)linear);

	*entry &= ~(PTE_ACCESSED | PTE_DIRTY);
	vm_flush((uint64_t)linear);
	return entry;
}

/* 1: the record is right; 0: nothing was stored. Anything else is corruption. */
static size_t right(const struct rig *rig, size_t slot, const char *from, const char *to)
{
	struct bts_struct record = rig_record(rig, slot);
	bool is = record.from == (uint64_t)from && record.to == (uint64_t)to;

	EXPECT(is || !(record.from | record.to | record.flags));
	return is;
}

/* With the bits clear in the entry of one page, the buffer's or the DS area's. */
static void measure(const char *key, bool buffer)
{
	struct rig rig;
	uint64_t *entry, before, after;
	size_t found = 0;
	bool faulted;

	rig_open(&rig, 16);
	EXPECT(!two_jumps_fault(rig_all()));
	EXPECT_EQ(right(&rig, 0, two_jumps_from1, two_jumps_to1), 1);
	EXPECT_EQ(rig_count(&rig), 2);
	rig_reset(&rig);
	entry = clear(buffer ? rig.pages : rig.area_page);
	before = *entry;
	faulted = two_jumps_fault(rig_all());
	after = *entry;
	*entry = before | PTE_ACCESSED | PTE_DIRTY;
	EXPECT_EQ(after & ~(PTE_ACCESSED | PTE_DIRTY), before);
	if (!faulted) {
		found = right(&rig, 0, two_jumps_from1, two_jumps_to1);
		found += right(&rig, 1, two_jumps_from2, two_jumps_to2);
		EXPECT(rig_count(&rig) <= 2);
		for (size_t slot = 2; slot < 16; slot++)
			EXPECT_EQ(rig_record(&rig, slot).from | rig_record(&rig, slot).to, 0);
	}
	test_observe(key, "accessed:%d,dirty:%d,fault:%d,records:%zu,right:%zu",
		     (after & PTE_ACCESSED) != 0, (after & PTE_DIRTY) != 0, faulted,
		     rig_count(&rig), found);
	rig_close(&rig);
}

TEST(bts_accessed_dirty_clear, .group = "L", .ids = "L5", .needs = NEED_BTS,
     .claim =
	     "clear Accessed and Dirty bits of a page of the DS corrupt no memory and hang nothing",
     .source = "SDM Vol 3, 17.4.9.2: all pages pre-marked Accessed and Dirty")
{
	measure("buffer_page", true);
	measure("area_page", false);
}

#define ONLY_INDEX_CHANGES_BRANCHES 7

/* Everything but the four BTS fields: PEBS fields, counter resets, what follows. */
static void fill(struct rig *rig)
{
	for (size_t i = 0x20; i < DS_AREA_SIZE; i++)
		rig->area_page[i] = (uint8_t)(i * 7 + 1);
}

TEST(bts_only_index_changes, .group = "L", .ids = "L1", .needs = NEED_BTS,
     .claim = "storing k records adds k times 24 to the BTS index and changes no other byte",
     .source = "SDM Vol 3, 17.4.9.1 and figure 17-8")
{
	uint8_t before[DS_AREA_SIZE];
	struct rig rig;

	rig_open(&rig, 64);
	fill(&rig);
	for (size_t threshold = 56; threshold <= 65; threshold++) {
		rig_set_threshold(&rig, threshold);
		EXACTLY (&rig) {
			memcpy(before, rig.area_page, sizeof(before));
			chain_trace(&rig, rig_all(), &chain_a, ONLY_INDEX_CHANGES_BRANCHES);
		}
		EXPECT_EQ(*(uint64_t *)&rig.area_page[8],
			  rig.base + 24 * ONLY_INDEX_CHANGES_BRANCHES);
		for (size_t i = 0; i < DS_AREA_SIZE; i++)
			if (i < 8 || i >= 16)
				EXPECT_EQ(rig.area_page[i], before[i]);
		chain_expect(&rig, 0, ONLY_INDEX_CHANGES_BRANCHES, &chain_a,
			     ONLY_INDEX_CHANGES_BRANCHES, 0);
	}
	rig_close(&rig);
}

// BTS and PEBS share one DS area, and BTS is often used with the PEBS fields left zero. Passing
// means: BTS records whatever those fields hold, and changes none of them.

#define PEBS_FIELDS_BRANCHES 5
#define PEBS_FIELDS_SLOTS    16
#define PEBS_FIELDS	     (4 * ds_configuration->field_size)
#define PEBS_RECORDS	     2
#define PEBS_RECORD	     256 /* as long as any, or longer */

static void expect_untouched(const struct rig *rig, const uint8_t *before, const char *when)
{
	size_t rest = DS_AREA_SIZE - PEBS_FIELDS;

	if (memcmp(rig->area_page + PEBS_FIELDS, before + PEBS_FIELDS, rest) != 0)
		test_note("the PEBS fields changed: %s", when);
	EXPECT(!memcmp(rig->area_page + PEBS_FIELDS, before + PEBS_FIELDS, rest));
}

/* Records with PEBS off and the PEBS half of the DS area as it is: nothing of that changes, and
   the threshold of BTS alone interrupts. */
static void trace(struct rig *rig)
{
	struct pmi pmi = {.rig = rig, .delivery = PMI_FIXED};
	uint8_t before[DS_AREA_SIZE];

	memcpy(before, rig->area_page, sizeof(before));
	pmi_take(&pmi);
	EXACTLY (rig)
		chain_trace(rig, rig_all(), &chain_a, PEBS_FIELDS_BRANCHES);
	pmi_settle();
	EXPECT_EQ(pmi.count, 0);
	chain_expect(rig, 0, PEBS_FIELDS_BRANCHES, &chain_a, PEBS_FIELDS_BRANCHES, 0);
	expect_untouched(rig, before, "a few records");
	rig_reset(rig);
	chain_trace(rig, rig_all(), &chain_a, 5 * PEBS_FIELDS_SLOTS);
	expect_untouched(rig, before, "the buffer went round");
	rig_reset(rig);
	rig_set_threshold(rig, 2);
	chain_trace(rig, rig_interrupt(), &chain_a, PEBS_FIELDS_BRANCHES);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
	expect_untouched(rig, before, "the threshold was reached");
	rig_set_threshold(rig, PEBS_FIELDS_SLOTS + 1);
	pmi_release(&pmi);
}

TEST(bts_pebs_fields, .group = "B", .ids = "B1 B3", .needs = NEED_BTS,
     .claim =
	     "BTS records with the PEBS fields zero as well as set, and leaves them and their buffer alone",
     .source = "SDM Vol 3, 17.4.9 and figure 17-8")
{
	uint8_t *buffer = test_area(1);
	size_t written = 0;
	struct rig rig;

	rig_open(&rig, PEBS_FIELDS_SLOTS);
	memset(rig.area_page + PEBS_FIELDS, 0, DS_AREA_SIZE - PEBS_FIELDS);
	trace(&rig);
	rig_reset(&rig);
	ds_set(rig.area, DS_PEBS_BUFFER_BASE, (uint64_t)buffer);
	ds_set(rig.area, DS_PEBS_INDEX, (uint64_t)buffer);
	ds_set(rig.area, DS_PEBS_ABSOLUTE_MAXIMUM,
	       (uint64_t)buffer + PEBS_RECORDS * PEBS_RECORD + 1);
	ds_set(rig.area, DS_PEBS_INTERRUPT_THRESHOLD, (uint64_t)buffer + PEBS_RECORD);
	trace(&rig);
	for (size_t i = 0; i < PEBS_RECORDS * PEBS_RECORD; i++)
		written += buffer[i] != 0;
	EXPECT_EQ(written, 0);
	rig_close(&rig);
}
