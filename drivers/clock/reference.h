/* SPDX-License-Identifier: MIT */
/* A free-running counter of known frequency, against which others are measured. */
#ifndef SPOOR_DRIVERS_CLOCK_REFERENCE_H
#define SPOOR_DRIVERS_CLOCK_REFERENCE_H

#include <stdint.h>

struct reference {
	const char *name;
	uint64_t hz;
	uint32_t mask;		/* the bits that count, from bit 0 */
	uint32_t (*read)(void); /* counts up; other bits may be anything */
};

#endif
