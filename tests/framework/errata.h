/* SPDX-License-Identifier: MIT */
/*
 * Known errata: by processor, each with the symptom that a test may meet. Where a check fails just
 * as the erratum of this very processor says, the result is XFAIL; anything else stays a FAIL.
 */
#ifndef SPOOR_TESTS_FRAMEWORK_ERRATA_H
#define SPOOR_TESTS_FRAMEWORK_ERRATA_H

struct erratum {
	const char *id;
	const char *symptom; /* half a sentence */
	unsigned family;
	const unsigned char *models; /* 0 at the end */
};

/* The erratum if this processor is known to have it, else NULL. A bad id is the test's ERROR. */
const struct erratum *erratum_here(const char *id);

#endif
