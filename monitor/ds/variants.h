/* SPDX-License-Identifier: MIT */
/* The points of struct ds_behaviour and their choices by name: "wrap=before-write". */
#ifndef SPOOR_MONITOR_DS_VARIANTS_H
#define SPOOR_MONITOR_DS_VARIANTS_H

#include <stdbool.h>

#include "monitor/ds/behaviour.h"

struct variant {
	const char *point, *choice;
	const char *meaning; /* half a sentence */
	bool is_default;
};

/* Variant `n`; false past the last one. The choices of a point follow each other. */
bool variant_get(unsigned n, struct variant *variant);

/* Applies "point=choice"; false where there is no such variant. */
bool variant_apply(struct ds_behaviour *behaviour, const char *word);

#endif
