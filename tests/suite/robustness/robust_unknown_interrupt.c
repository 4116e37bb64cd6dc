// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/time.h"
#include "kernel/trap/trap.h"
#include "tests/framework/test.h"

#define NOBODYS	   0xf0
#define LONG_AFTER 1000000 /* microseconds */

static uint64_t arrived(void)
{
	unsigned newest;

	return interrupt_unknown_count(&newest);
}

/* A second one of the same vector comes only if the first was ended. */
TEST(robust_unknown_interrupt, .group = "Z", .ids = "", .needs = 0,
     .claim = "an interrupt that has no handler is ended and counted, and the kernel goes on",
     .source = "SDM Vol 3, 10.8.4")
{
	uint64_t before = arrived();
	unsigned newest = 0;

	test_pin();
	for (unsigned i = 1; i <= 3; i++) {
		uint64_t end = time_now() + LONG_AFTER;

		lapic_self_ipi(NOBODYS);
		while (arrived() < before + i && time_now() < end)
			__asm__ volatile("pause");
		REQUIRE_EQ(interrupt_unknown_count(&newest), before + i);
		EXPECT_EQ(newest, NOBODYS);
	}
	__asm__ volatile("int %0" : : "i"(NOBODYS));
	EXPECT_EQ(arrived(), before + 4);
	EXPECT(!lapic_in_service(NOBODYS));
	EXPECT(!lapic_requested());
}
