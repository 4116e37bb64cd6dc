// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"

TEST(robust_spurious_interrupt, .group = "Z", .ids = "",
     .claim = "the local APIC's spurious interrupt, which takes no EOI, changes nothing",
     .source = "SDM Vol 3, 10.9")
{
	uint64_t before, after;

	/* As the APIC delivers it: no bit of its ISR is set. */
	__asm__ volatile("pushfq\n\tpopq %0\n\tint $0xff\n\tpushfq\n\tpopq %1"
			 : "=&r"(before), "=&r"(after));
	EXPECT_EQ(after, before);
}
