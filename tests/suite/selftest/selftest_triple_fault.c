// SPDX-License-Identifier: MIT
#include "tests/framework/test.h"

TEST(selftest_triple_fault, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "a processor that shuts down ends the run without a verdict: never a pass",
     .source = "SDM Vol 3, 6.15: double fault")
{
	static const struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) no_gates = {0, 0};

	__asm__ volatile("cli\n\tlidt %0\n\tud2" : : "m"(no_gates));
}
