// SPDX-License-Identifier: MIT
#include "tests/lib/two_jumps.h"

#include "kernel/trap/extable.h"
#include "tests/lib/rig.h"

/* A page fault for the store would be blamed on the jump or on its target: both go on. */
bool two_jumps_fault(uint64_t debugctl)
{
	uint64_t faulted = 1;

	TRACED_WITH(debugctl,
		    ".globl two_jumps_from1, two_jumps_to1, two_jumps_from2, two_jumps_to2\n"
		    "two_jumps_from1: jmp two_jumps_to1\n\tud2\n"
		    "two_jumps_to1: nop\n"
		    "two_jumps_from2: jmp two_jumps_to2\n\tud2\n"
		    "two_jumps_to2: xorl %k[faulted], %k[faulted]\n"
		    "two_jumps_out:\n\t" EXCEPTION_TABLE("two_jumps_from1", "two_jumps_out")
			    EXCEPTION_TABLE("two_jumps_to1", "two_jumps_out")
				    EXCEPTION_TABLE("two_jumps_from2", "two_jumps_out")
					    EXCEPTION_TABLE("two_jumps_to2", "two_jumps_out"),
		    AND([faulted] "+&r"(faulted)), );
	return faulted;
}
