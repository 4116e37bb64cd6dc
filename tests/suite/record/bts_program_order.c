// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

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
