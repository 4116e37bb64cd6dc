/* SPDX-License-Identifier: MIT */
/*
 * Instructions that are allowed to fault. EXCEPTION_TABLE(at, go_on) inside an asm statement says:
 * an exception whose saved RIP is `at` continues at `go_on`, and trap_caught() tells what it was.
 * For INT3 and the like the saved RIP is the address behind the instruction.
 */
#ifndef SPOOR_KERNEL_TRAP_EXTABLE_H
#define SPOOR_KERNEL_TRAP_EXTABLE_H

#include <stdint.h>

#define EXCEPTION_TABLE(at, go_on)                                                                 \
	".pushsection .exception_table, \"a\"\n\t.quad " at ", " go_on "\n\t.popsection\n\t"

/* Where to go on from an exception at `rip`; 0 if it was not expected. Any context. */
uint64_t extable_find(uint64_t rip);

#endif
