// SPDX-License-Identifier: MIT
#include "drivers/clock/hpet.h"
#include "kernel/panic.h"
#include "kernel/watchdog.h"
#include "tests/framework/test.h"

/* In the midst of what the panic prints. */
#define SOON 300 /* microseconds */

TEST(selftest_panic_nmi, .group = "selftest", .ids = "", .needs = NEED_SELFTEST,
     .claim = "an NMI does not stop the CPU that panics", .source = "docs/console.md")
{
	watchdog_disarm();
	hpet_nmi_after(SOON);
	panic("an NMI is to come");
}
