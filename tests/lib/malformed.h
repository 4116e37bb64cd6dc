/* SPDX-License-Identifier: MIT */
/* A rig whose DS area a test spoils, and all that two branches then change around it. */
#ifndef SPOOR_TESTS_LIB_MALFORMED_H
#define SPOOR_TESTS_LIB_MALFORMED_H

#include "tests/lib/rig.h"

#define MALFORMED_SLOTS 16

struct malformed {
	struct rig rig;
	uint8_t *pages, *area; /* as they are to be found again */
};

/* A sound rig of MALFORMED_SLOTS slots with room before and behind; not while another is open. */
void malformed_open(struct malformed *m);
void malformed_close(struct malformed *m);

/*
 * Traces two jumps with the DS area as the test has left it; observes under `key` what came of it,
 * fails the test if anything changed but the index and, in the buffer's pages, the bytes `from` to
 * `to` - 1 (offsets from the base), and makes everything sound again.
 */
void malformed_trace(struct malformed *m, const char *key, int64_t from, int64_t to);

#endif
