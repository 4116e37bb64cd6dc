/* SPDX-License-Identifier: MIT */
/* The last branch records of one virtual processor. */
#ifndef SPOOR_MONITOR_LBR_STATE_H
#define SPOOR_MONITOR_LBR_STATE_H

#include <stdint.h>

#define LBR_MOST 32 /* entries that a profile has */

struct lbr_entry {
	uint64_t from, to, info;
};

struct lbr_state {
	uint64_t select, top; /* MSR_LBR_SELECT; place of the newest */
	struct lbr_entry entry[LBR_MOST];
};

#endif
