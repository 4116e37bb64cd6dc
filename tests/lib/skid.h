/* SPDX-License-Identifier: MIT */
/* How far the interrupt at the threshold lags behind it. */
#ifndef SPOOR_TESTS_LIB_SKID_H
#define SPOOR_TESTS_LIB_SKID_H

#include <stddef.h>
#include <stdint.h>

#include "tests/lib/statistics.h"

#define SKID_ROOM 256 /* records between threshold and end while it is measured */
#define SKID_MOST 2048

struct skid {
	size_t runs, missing;	      /* missing: no interrupt came before the buffer was full */
	size_t early;		      /* interrupts with the index below the threshold */
	struct distribution recorded; /* branches between the crossing one and the interrupt */
	struct distribution read;     /* records past the threshold at the handler's first read */
};

/* `runs` (SKID_MOST at most) crossings with the fixed vector and IF = 1. Not while a rig is open.
 */
void skid_measure(struct skid *skid, size_t runs);

#endif
