/* SPDX-License-Identifier: MIT */
/* What tests need and what this machine has. */
#ifndef SPOOR_TESTS_FRAMEWORK_NEEDS_H
#define SPOOR_TESTS_FRAMEWORK_NEEDS_H

#include <stddef.h>

/* NULL if all of `needs` is there, else a sentence that names what is missing. */
const char *needs_missing(unsigned needs);

/* "BTS,DSCPL", or "none". */
void needs_names(unsigned needs, char *buffer, size_t size);

#endif
