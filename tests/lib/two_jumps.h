/* SPDX-License-Identifier: MIT */
/* Two jumps whose records may fail to be stored: a page fault then ends the trace, not the test. */
#ifndef SPOOR_TESTS_LIB_TWO_JUMPS_H
#define SPOOR_TESTS_LIB_TWO_JUMPS_H

#include <stdbool.h>
#include <stdint.h>

extern const char two_jumps_from1[], two_jumps_to1[], two_jumps_from2[], two_jumps_to2[];

/* With IA32_DEBUGCTL = `debugctl`; true if there was a fault. Under a rig. */
bool two_jumps_fault(uint64_t debugctl);

#endif
