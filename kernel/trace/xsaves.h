/* SPDX-License-Identifier: MIT */
/*
 * The state of one trace unit by XSAVES and XRSTORS (SDM Vol 1, 13.11 and 13.12): a component of
 * IA32_XSS, alone in an area of its unit. What saves the registers of ring 3 does not know of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The beginning of an area, which is aligned to 64 bytes: 13.4. The component follows. */
struct xsaves_header {
	uint8_t legacy[512];
	uint64_t xstate_bv, xcomp_bv, reserved[6];
};
#define XSAVES_COMPACTED (1ul << 63) /* of xcomp_bv */

/* Lets this CPU save and restore the component, one bit. Boot; the processor has it. */
void xsaves_enable(uint64_t component);

/* False where nothing was saved: IA32_XSS, or CR4.OSXSAVE, was cleared meanwhile. IF = 0. */
bool xsaves_save(struct xsaves_header *area, uint64_t component);

/* False, and nothing is restored, where it raises an exception. IF = 0. */
bool xsaves_restore(const struct xsaves_header *area, uint64_t component);
