/* SPDX-License-Identifier: MIT */
/* The needs of tests, and whether this machine meets them; its errata. */
#pragma once

#include <stddef.h>

/* NULL if all of `needs` is there, else a sentence that names what is missing. */
const char *needs_missing(unsigned needs);

/*
 * NULL if tests can choose last branches by level and by kind, else the sentence. Models have both
 * filters, or record everything; of architectural records CPUID.1CH:EBX says.
 */
const char *needs_lbr_filters(void);

/* "BTS,DSCPL", or "none". */
void needs_names(unsigned needs, char *buffer, size_t size);

/*
 * Known errata: by processor, each with the symptom that a test may meet. Where a check fails just
 * as the erratum of this very processor says, the result is XFAIL; anything else stays a FAIL.
 */
struct erratum {
	const char *id;
	const char *symptom; /* half a sentence */
	unsigned family;
	const unsigned char *models; /* 0 at the end */
};

/* The erratum if this processor is known to have it, else NULL. A bad id is the test's ERROR. */
const struct erratum *erratum_here(const char *id);
