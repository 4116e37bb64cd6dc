/* SPDX-License-Identifier: MIT */
/* The last branch records of one virtual processor. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LBR_MOST 32 /* entries that a profile has */
#define LBR_EN	 1u /* IA32_LBR_CTL.LBREn */

struct lbr_entry {
	uint64_t from, to, info;
};

struct lbr_state {
	uint64_t select, top; /* MSR_LBR_SELECT; place of the newest */
	struct lbr_entry entry[LBR_MOST];

	/* Of architectural ones: IA32_LBR_CTL, IA32_LBR_DEPTH, IA32_LER_*; the last branch; the TSC
	   of the newest entry, 0 where the next one has no count of cycles. */
	uint64_t control, depth;
	struct lbr_entry ler, last;
	uint64_t clock;
};
