// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

/* Nothing; the structure's size then; other small numbers; -1; an address; an array's size. */
TEST(ptrace_2007, .group = "I", .ids = "I1 I2", .needs = NEED_BTS,
     .claim =
	     "a program written from the patch of 2007 works or is refused at each call, whatever it "
	     "passes where that ignores it, and no call is taken for another",
     .source = "docs/ptrace-bts.2, Differences from the patches of 2007")
{
	static const uint64_t ignored[] = {
		0, 16, 1, 15, 17, 23, 25, 32, 100, UINT32_MAX, UINT64_MAX, 0x7fffffffd000, 24000};

	for (unsigned i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		program_expect("ptrace_2007", ignored[i], false);
}
