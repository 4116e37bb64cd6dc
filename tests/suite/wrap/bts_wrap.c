// SPDX-License-Identifier: MIT
#include "lib/string.h"
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/pmi.h"
#include "tests/lib/rig.h"

#define SLOTS 16

TEST(bts_wrap_half, .group = "W", .ids = "W1", .needs = NEED_BTS,
     .claim = "half as many branches as slots move the index half way and leave the rest alone",
     .source = "SDM Vol 3, 17.4.9: BTS index")
{
	RIG(rig, SLOTS);
	EXACTLY (&rig) {
		memset((void *)rig.base, 0xa5, SLOTS * rig.record);
		chain_trace(&rig, rig_all(), &chain_a, SLOTS / 2);
	}
	EXPECT_EQ(rig_index(&rig), rig.base + SLOTS / 2 * rig.record);
	chain_expect(&rig, 0, SLOTS / 2, &chain_a, SLOTS / 2, 0);
	for (size_t at = SLOTS / 2 * rig.record; at < SLOTS * rig.record; at++)
		EXPECT_EQ(((const uint8_t *)rig.base)[at], 0xa5);
}

// The SDM does not say whether the index wraps after a record or before the next one. The self-test
// of Linux 2.6.32 accepted any index from base to maximum for that reason. Passing means: all
// slots, or all but one, are used; the log says which, and the other tests of this group rely on
// what was measured.

static void check_capacity(struct rig *rig, size_t capacity, uint64_t n)
{
	rig_shorten(rig, SLOTS, 0);
	EXACTLY (rig)
		chain_trace(rig, rig_all(), &chain_a, n);
	circular_expect(rig, capacity, &chain_a, n);
}

TEST(bts_wrap_capacity, .group = "W", .ids = "W2", .needs = NEED_BTS,
     .claim = "with the maximum at the end all slots, or all but one, are used before the wrap",
     .source = "SDM Vol 3, 17.4.9: BTS absolute maximum")
{
	const struct calibration *c = calibration();
	size_t unused = CALIBRATION_SLOTS - c->used_at_end, capacity = SLOTS - unused;

	REQUIRE(unused <= 1);
	test_observe("wrap_capacity", "n%s", unused ? "-1" : "");
	test_observe("wrap_index_after_last", "%s", index_after_last_name(c->index_after_last));
	EXPECT(c->index_after_last != INDEX_OTHER);
	RIG(rig, 2 * SLOTS);
	rig_shorten(&rig, SLOTS, 0);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, SLOTS - 2);
	EXPECT_EQ(rig_index(&rig), rig.base + (SLOTS - 2) * rig.record);
	check_capacity(&rig, capacity, SLOTS - 1);
	check_capacity(&rig, capacity, SLOTS);
}

TEST(bts_wrap_first_slot, .group = "W", .ids = "S1 W3", .needs = NEED_BTS | ON_EACH_CPU,
     .claim = "one branch more than slots overwrites slot 0 and leaves the index past it",
     .source = "SDM Vol 3, 17.4.9.1 and 17.4.4")
{
	size_t capacity = SLOTS - (CALIBRATION_SLOTS - calibration()->used_at_end);

	RIG(rig, 2 * SLOTS);
	rig_shorten(&rig, SLOTS, 0);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, capacity + 1);
	EXPECT_EQ(rig_index(&rig), rig.base + rig.record);
	circular_expect(&rig, capacity, &chain_a, capacity + 1);
}

#define ORDER_SLOTS  64
#define ORDER_ROUNDS 1100 /* more branches than 16 bits can count */

TEST(bts_wrap_order, .group = "W", .ids = "W4", .needs = NEED_BTS,
     .claim = "after many rounds the buffer holds the newest branches, in order from the index on",
     .source = "SDM Vol 3, 17.4.4")
{
	size_t capacity = ORDER_SLOTS - (CALIBRATION_SLOTS - calibration()->used_at_end);
	uint64_t n = ORDER_ROUNDS * capacity + 3;

	RIG(rig, ORDER_SLOTS + 4);
	rig_shorten(&rig, ORDER_SLOTS, 0);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, n);
	circular_expect(&rig, capacity, &chain_a, n);
}

/* One slot: with the manual's form of the maximum, as less than that leaves all undefined. */
TEST(bts_wrap_one_slot, .group = "W", .ids = "W5", .needs = NEED_BTS,
     .claim = "a buffer of one to three slots holds the last branches, and nothing else is written",
     .source = "SDM Vol 3, 17.4.9: BTS absolute maximum; SDM Vol 3, 17.4.9.3: the least size")
{
	const struct calibration *c = calibration();

	if (c->unused)
		test_skip("this silicon leaves the last slot unused whatever the maximum");
	RIG(rig, 4);
	for (size_t slots = 1; slots <= 3; slots++) {
		size_t used = slots;

		rig_shorten(&rig, slots, slots == 1 ? 1 : maximum_extra(c->maximum));
		EXACTLY (&rig)
			chain_trace(&rig, rig_all(), &chain_a, 100);
		if (slots == 1)
			used += c->used_at_end_plus_1 - CALIBRATION_SLOTS; /* see W6 */
		circular_expect(&rig, used, &chain_a, 100);
	}
}

#define ANY_BASE_N (3 * SLOTS + 5)

/* The page has room before the base, so that a wrap to anywhere else shows. */
static void check_any_base(const struct calibration *c, size_t offset)
{
	struct rig rig CLOSED_BY(rig_close);

	rig_open_at(&rig, SLOTS + 4, offset);
	rig_shorten(&rig, SLOTS, maximum_extra(c->maximum));
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, ANY_BASE_N);
	circular_expect(&rig, SLOTS - c->unused, &chain_a, ANY_BASE_N);
}

TEST(bts_wrap_any_base, .group = "W", .ids = "W4 L3", .needs = NEED_BTS,
     .claim = "the index wraps to the base itself, wherever in a cache line or page that is",
     .source = "SDM Vol 3, 17.4.9: BTS buffer base")
{
	static const size_t offsets[] = {0,	   8,	      40,	 64,	  120,
					 2048 + 8, 4096 - 64, 4096 - 24, 4096 - 8};
	const struct calibration *c = calibration();

	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		check_any_base(c, offsets[i]);
}

#define MOVED	   5
#define NEW_BASE_N (3 * SLOTS + 1)

/* Once round the whole buffer first, so that the base has been used before it changes. */
TEST(bts_wrap_new_base, .group = "W", .ids = "W4", .needs = NEED_BTS,
     .claim = "the index wraps to what the base holds then, IA32_DS_AREA being written only before",
     .source = "SDM Vol 3, 17.4.9: BTS buffer base")
{
	const struct calibration *c = calibration();
	struct rig rig, moved;

	rig_open(&rig, SLOTS + 4);
	rig_shorten(&rig, SLOTS, maximum_extra(c->maximum));
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, NEW_BASE_N);
	circular_expect(&rig, SLOTS - c->unused, &chain_a, NEW_BASE_N);
	rig_shorten(&rig, SLOTS, maximum_extra(c->maximum));
	moved = rig;
	moved.base += MOVED * rig.record;
	moved.slots -= MOVED;
	ds_set(rig.area, DS_BTS_BUFFER_BASE, moved.base);
	ds_set(rig.area, DS_BTS_INDEX, moved.base);
	chain_trace(&moved, rig_all(), &chain_a, NEW_BASE_N);
	circular_expect(&moved, SLOTS - MOVED - c->unused, &chain_a, NEW_BASE_N);
	ds_set(rig.area, DS_BTS_BUFFER_BASE, rig.base);
	for (size_t slot = 0; slot < MOVED; slot++)
		EXPECT_EQ(rig_record(&rig, slot).from, 0);
	rig_close(&rig);
}

// Erratum P79 of the 64-bit Intel Xeon Processor: BTS may write outside a buffer whose size is no
// multiple of a record. The manual asks for a maximum at a multiple of the record size, plus 1
// (SDM Vol 3, 17.4.9). Here it is one byte below a multiple, inside the last slot.
// Passing means: nothing after that slot is written. The observation "wrap_crosses_maximum" says
// whether the slot itself is used.
// On a failure the log has "used == SLOTS - 1 || used == SLOTS": records are after the slot, or
// are missing before it. A line of chain.c instead means that the order is wrong.
TEST(bts_wrap_maximum_minus_one, .group = "W", .ids = "W7", .needs = NEED_BTS,
     .claim = "a maximum inside a slot lets no more than that one slot be written past it",
     .source = "SDM Vol 3, 17.4.9; erratum P79")
{
	size_t used;

	RIG(rig, SLOTS + 8);
	rig_shorten(&rig, SLOTS, (uint64_t)-1);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, 2 * SLOTS);
	used = rig_used(&rig);
	test_observe("wrap_capacity_minus_one", "n%s", used == SLOTS ? "" : "-1");
	test_observe("wrap_crosses_maximum", "%d", used == SLOTS);
	EXPECT(used == SLOTS - 1 || used == SLOTS);
	circular_expect(&rig, used, &chain_a, 2 * SLOTS);
}

// There are two conventions for the absolute maximum. The SDM (Vol 3, 17.4.9) and EDK2 put it one
// byte past a multiple of the record size, every Linux at the multiple itself. If silicon compares
// with >=, one of them overruns or wastes a slot.
// Passing means: the SDM's form uses all slots, and one more at most. The observation
// "wrap_overrun_plus_one" says whether there is one more, which a driver has to leave room for.
// On a failure the log has "capacity == SLOTS || capacity == SLOTS + 1", or a line of chain.c
// for records that are missing or out of order.
TEST(bts_wrap_maximum_plus_one, .group = "W", .ids = "W6", .needs = NEED_BTS,
     .claim = "with the maximum one byte above a multiple of the record size all slots are used",
     .source = "SDM Vol 3, 17.4.9: \"a multiple of the BTS record size (12 bytes) plus 1\"")
{
	const struct calibration *c = calibration();
	size_t capacity = SLOTS + c->used_at_end_plus_1 - CALIBRATION_SLOTS;

	test_observe("wrap_capacity_plus_one", "n%s", capacity > SLOTS ? "+1" : "");
	test_observe("wrap_overrun_plus_one", "%d", capacity > SLOTS);
	REQUIRE(capacity == SLOTS || capacity == SLOTS + 1);
	RIG(rig, SLOTS + 8);
	rig_shorten(&rig, SLOTS, 1);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, 3 * SLOTS);
	circular_expect(&rig, capacity, &chain_a, 3 * SLOTS);
}

#define NO_INTERRUPT_SLOTS 32

// The driver libiht never wrote the threshold, and took its buffer for circular because BTINT was
// 0. BTINT = 0 alone does not keep the interrupt away: SDM Vol 3, 17.4.9.3 asks for a threshold
// above the maximum as well.
// Passing means: with the threshold out of reach no interrupt arrives in a hundred rounds. Then
// the same buffer has BTINT = 1 and a threshold within reach, and interrupts.
// On a failure the log has "pmi.count", expected 0, where silicon interrupts all the same. With
// "expected 0x1" the interrupt's way to the test is broken, and the first part showed nothing.
TEST(bts_wrap_no_interrupt, .group = "W", .ids = "W9", .needs = NEED_BTS,
     .claim = "a circular buffer with its threshold above the maximum never interrupts",
     .source = "SDM Vol 3, 17.4.9.3")
{
	const struct calibration *c = calibration();
	uint64_t n = 100 * NO_INTERRUPT_SLOTS;
	RIG(rig, NO_INTERRUPT_SLOTS + 8);
	struct pmi pmi CLOSED_BY(pmi_release) = {.rig = &rig, .delivery = PMI_FIXED};

	pmi_take(&pmi);
	/* The threshold: a record above the end, and the last multiple of one that there is. */
	for (unsigned far = 0; far < 2; far++) {
		rig_shorten(&rig, NO_INTERRUPT_SLOTS, maximum_extra(c->maximum));
		if (far)
			ds_set(rig.area, DS_BTS_INTERRUPT_THRESHOLD,
			       UINT64_MAX - (UINT64_MAX - rig.base) % rig.record);
		chain_trace(&rig, rig_all(), &chain_a, n);
		pmi_settle();
		EXPECT_EQ(pmi.count, 0);
		circular_expect(&rig, NO_INTERRUPT_SLOTS - c->unused, &chain_a, n);
	}

	rig_reset(&rig);
	rig_set_threshold(&rig, 4);
	chain_trace(&rig, rig_interrupt(), &chain_a, 8);
	pmi_settle();
	EXPECT_EQ(pmi.count, 1);
}

#define REACHABLE_THRESHOLD_SLOTS 16

/* Returns the interrupts of a buffer that wraps with its threshold at `slot`. */
static unsigned wrap_with_threshold(const struct calibration *c, size_t slot)
{
	struct rig rig;
	struct pmi pmi = {.rig = &rig, .delivery = PMI_FIXED};

	rig_open(&rig, REACHABLE_THRESHOLD_SLOTS + 8);
	pmi_take(&pmi);
	rig_shorten(&rig, REACHABLE_THRESHOLD_SLOTS, maximum_extra(c->maximum));
	rig_set_threshold(&rig, slot);
	chain_trace(&rig, rig_all(), &chain_a, 3 * REACHABLE_THRESHOLD_SLOTS);
	pmi_settle();
	pmi_release(&pmi);
	circular_expect(&rig, REACHABLE_THRESHOLD_SLOTS - c->unused, &chain_a,
			3 * REACHABLE_THRESHOLD_SLOTS);
	rig_close(&rig);
	return pmi.count;
}

/* "It's not enough to clear the BTINT flag itself only", says the manual of preventing it. */
TEST(bts_wrap_reachable_threshold, .group = "W", .ids = "W8", .needs = NEED_BTS,
     .claim = "a threshold inside a circular buffer may interrupt, and changes nothing else",
     .source = "SDM Vol 3, 17.4.9.3")
{
	const struct calibration *c = calibration();
	unsigned count = wrap_with_threshold(c, REACHABLE_THRESHOLD_SLOTS / 2);

	test_observe("circular_interrupts", "%d", count > 0);
	EXPECT_EQ(count > 0, c->interrupt_when_circular);
	for (size_t slot = 0; slot < REACHABLE_THRESHOLD_SLOTS; slot++)
		wrap_with_threshold(c, slot);
}
