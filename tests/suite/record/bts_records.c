// SPDX-License-Identifier: MIT
#include "lib/string.h"
#include "tests/lib/chain.h"
#include "tests/lib/rig.h"

extern const char jump_from[], jump_to[];

TEST(bts_jump_addresses, .group = "R", .ids = "R1", .needs = NEED_BTS,
     .claim = "the record of a jump holds the address of the jump and that of its target",
     .source = "SDM Vol 3, 17.4.9 and figure 17-9")
{
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(), "jump_from: jmp jump_to\n\tud2\njump_to:\n\t");
	EXPECT_EQ(rig_count(&rig), 1);
	rig_expect(&rig, 0, jump_from, jump_to, "jmp");
	rig_close(&rig);
}

extern const char order_a[], order_b[], order_c[], order_to_a[], order_to_b[], order_to_c[];

/* Forward, backward and forward again, so that address order is not program order. */
TEST(bts_program_order, .group = "R", .ids = "R2", .needs = NEED_BTS,
     .claim = "records stand in program order, oldest at the base",
     .source = "SDM Vol 3, 17.4.9: BTS index")
{
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(), "order_a: jmp order_to_a\n"
				  "order_to_b: nop\n"
				  "order_c: jmp order_to_c\n\tud2\n"
				  "order_to_a: nop\n"
				  "order_b: jmp order_to_b\n\tud2\n"
				  "order_to_c:\n\t");
	EXPECT_EQ(rig_count(&rig), 3);
	rig_expect(&rig, 0, order_a, order_to_a, "a, forward");
	rig_expect(&rig, 1, order_b, order_to_b, "b, backward");
	rig_expect(&rig, 2, order_c, order_to_c, "c, forward");
	rig_close(&rig);
}

extern const char iteration_top[], iteration_jump[];

TEST(bts_loop_every_iteration, .group = "R", .ids = "R3", .needs = NEED_BTS,
     .claim = "a loop of 1000 rounds leaves 999 equal records, none for the branch not taken",
     .source = "SDM Vol 3, 17.4.4: each taken branch")
{
	struct rig rig;

	rig_open(&rig, 1024);
	EXACTLY (&rig)
		TRACED(rig_all(), "movl $1000, %%ecx\n"
				  "iteration_top: decl %%ecx\n"
				  "iteration_jump: jnz iteration_top\n\t");
	EXPECT_EQ(rig_count(&rig), 999);
	for (size_t slot = 0; slot < 999; slot++)
		rig_expect(&rig, slot, iteration_jump, iteration_top, "jnz");
	EXPECT_EQ(rig_record(&rig, 999).from, 0);
	rig_close(&rig);
}

#define BRANCHES 6

/* The flags of the records, stored over `filling`. */
static void trace(struct rig *rig, uint8_t filling, uint64_t flags[BRANCHES])
{
	EXACTLY (rig) {
		memset((void *)rig->base, filling, 2 * BRANCHES * rig->record);
		chain_trace(rig, rig_all(), &chain_a, BRANCHES);
	}
	EXPECT_EQ(rig_count(rig), BRANCHES);
	chain_expect(rig, 0, BRANCHES, &chain_a, BRANCHES, 0);
	for (size_t slot = 0; slot < BRANCHES; slot++)
		flags[slot] = rig_record(rig, slot).flags;
	for (const uint8_t *at = (uint8_t *)rig->base + BRANCHES * rig->record;
	     at < (uint8_t *)rig->base + 2 * BRANCHES * rig->record; at++)
		EXPECT_EQ(*at, filling);
}

/* The slot's former bytes must not remain; the predicted flag may differ between two runs. */
TEST(bts_record_is_whole, .group = "R", .ids = "R1", .needs = NEED_BTS,
     .claim = "a record overwrites all of its slot, the flags too, and no byte of the next",
     .source = "SDM Vol 3, 17.4.9.1 and figure 17-9")
{
	const uint64_t predicted = 1ull << 4;
	uint64_t first[BRANCHES], second[BRANCHES];
	struct rig rig;

	rig_open(&rig, 2 * BRANCHES);
	trace(&rig, 0xff, first);
	trace(&rig, 0x00, second);
	for (size_t i = 0; i < BRANCHES; i++)
		EXPECT_EQ(first[i] & ~predicted, second[i] & ~predicted);
	rig_close(&rig);
}
