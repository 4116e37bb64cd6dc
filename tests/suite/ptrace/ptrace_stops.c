// SPDX-License-Identifier: MIT
#include "tests/lib/programs.h"

TEST(ptrace_stops, .group = "I", .ids = "",
     .claim = "programs attach to others, stop, inspect, change, step and let go of them; several "
	      "tracers each have to let one go; the end of a tracer does",
     .source = "docs/ptrace-bts.2")
{
	program_expect("ptrace_stops", 0, false);
}
