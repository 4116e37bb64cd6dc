// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

#define CF (1u << 0)
#define PF (1u << 2)
#define ZF (1u << 6)
#define SF (1u << 7)
#define OF (1u << 11)

#define SHORT_SIZE 3 /* Jcc rel8 and the NOP that it jumps over */
#define NEAR_SIZE  7 /* Jcc rel32 and the NOP */

extern const char conditional_short[], conditional_near[];

/* SDM Vol 1, appendix B: odd conditions negate the even ones before them. */
static bool holds(unsigned condition, uint32_t flags)
{
	bool sign_not_overflow = !(flags & SF) != !(flags & OF);
	bool even[] = {flags & OF, flags & CF, flags & ZF,	  flags & (CF | ZF),
		       flags & SF, flags & PF, sign_not_overflow, sign_not_overflow || flags & ZF};

	return even[condition / 2] != (condition & 1);
}

static void trace(uint64_t flags)
{
	TRACED_WITH(rig_all(),
		    "pushq %[flags]\n\tpopfq\n"
		    "conditional_short:\n\t"
		    ".irp c, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
		    ".byte 0x70 + \\c, 1\n\tnop\n\t.endr\n"
		    "conditional_near:\n\t"
		    ".irp c, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
		    ".byte 0x0f, 0x80 + \\c\n\t.long 1\n\tnop\n\t.endr\n\t",
		    , AND([flags] "r"(flags)));
}

/* The records from `slot` on of the 16 branches at `first`; returns the slot behind them. */
static size_t expect(const struct rig *rig, size_t slot, const char *first, size_t size,
		     uint32_t flags)
{
	for (unsigned condition = 0; condition < 16; condition++, first += size)
		if (holds(condition, flags))
			rig_expect(rig, slot++, first, first + size, "jcc");
	return slot;
}

TEST(bts_conditional_branches, .group = "K", .ids = "K1", .needs = NEED_BTS,
     .claim = "a conditional branch is recorded if it is taken, even over one byte, and else not",
     .source = "SDM Vol 3, 17.4.4: taken branches; SDM Vol 1, appendix B")
{
	struct rig rig;

	rig_open(&rig, 64);
	for (unsigned choice = 0; choice < 32; choice++) {
		uint32_t flags = (choice & 1 ? CF : 0) | (choice & 2 ? PF : 0) |
				 (choice & 4 ? ZF : 0) | (choice & 8 ? SF : 0) |
				 (choice & 16 ? OF : 0);
		size_t slot;

		EXACTLY (&rig)
			trace(flags | 2);
		slot = expect(&rig, 0, conditional_short, SHORT_SIZE, flags);
		slot = expect(&rig, slot, conditional_near, NEAR_SIZE, flags);
		EXPECT_EQ(rig_count(&rig), slot);
	}
	rig_close(&rig);
}
