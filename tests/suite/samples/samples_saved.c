// SPDX-License-Identifier: MIT
// Samples that leave the machine: tools/view/tests/samples.sh looks at what is sent.
#include "drivers/ds/pebs.h"
#include "drivers/lbr/lbr.h"
#include "drivers/lbr/registers.h"
#include "drivers/pmu/pmu.h"
#include "tests/framework/test.h"
#include "tests/lib/programs.h"

enum { PRECISE = 1, CALLS = 2 }; /* tests/user/stacks.c */

static void save(unsigned how)
{
	bool calls = lbr_caps()->select & LBR_SELECT_CALL_STACK;

	if (!(lbr_caps()->select & LBR_SELECT_BY_LEVEL))
		test_skip("no MSR_LBR_SELECT: the kernel's branches cannot be left out");
	programs_require_host();
	program_expect("stacks", how | (calls ? CALLS : 0), true);
}

TEST(samples_user_saves, .group = "samples", .ids = "PE129", .needs = NEED_LBR,
     .claim = "a program of ring 3 takes samples of another at interrupts, with the calls that it "
	      "is in or its newest branches, and saves them over the serial line",
     .source = "docs/serial-line.4; docs/trace-stream.5")
{
	if (!pmu_caps()->version || pmu_lacks_event(0xc4) || !lbr_caps()->freezes)
		test_skip("no counter of branches, or no FREEZE_LBRS_ON_PMI");
	save(0);
}

TEST(samples_user_saves_precise, .group = "samples", .ids = "PE129",
     .needs = NEED_SAMPLES | NEED_LBR,
     .claim =
	     "a program of ring 3 saves samples of PEBS, with their branches, over the serial line",
     .source = "docs/serial-line.4; docs/trace-stream.5")
{
	if (!ds_pebs_record_size_with(1))
		test_skip("records of samples have no entries of the LBR stack");
	save(PRECISE);
}
