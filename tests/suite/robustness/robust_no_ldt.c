// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/sched/task.h"
#include "tests/framework/test.h"

/* Ring 3 reaches what a loader's LDT describes if LDTR is left as it was. */
TEST(robust_no_ldt, .group = "Z", .ids = "", .needs = 0,
     .claim = "LDTR is null on every CPU, whatever the loader left there",
     .source = "SDM Vol 3, 2.4.2")
{
	for (unsigned i = 0; i < cpu_count(); i++) {
		uint16_t selector = UINT16_MAX;

		task_set_affinity(current_task(), 1ul << i);
		__asm__ volatile("sldt %0" : "=m"(selector));
		EXPECT_EQ(selector, 0);
	}
}
