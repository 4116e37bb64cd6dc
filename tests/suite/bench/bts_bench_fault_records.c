// SPDX-License-Identifier: MIT
#include "kernel/trap/extable.h"
#include "tests/lib/exact.h"

TEST(bts_bench_fault_records, .group = "bench", .ids = "", .needs = NEED_BTS,
     .claim = "figure: records from a fault in the kernel to the instruction it goes on at",
     .source = "docs/bts.md#costs: 400 records on the path of SIGSEGV in 2008")
{
	struct rig rig;

	rig_open(&rig, 1024);
	EXACTLY (&rig)
		TRACED(rig_all(), "1:\tud2\n2:\tnop\n\t" EXCEPTION_TABLE("1b", "2b"));
	EXPECT(rig_count(&rig) >= 2);
	test_figure("fault_records", rig_count(&rig), "records");
	rig_close(&rig);
}
