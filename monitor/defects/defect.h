/* SPDX-License-Identifier: MIT */
/*
 * Silicon that is wrong on purpose: a defect breaks one rule of the manual by one hook that differs
 * from the clean one. A defect is a file of its own here, found by the linker.
 *
 *	static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
 *	{
 *		return ds_clean.advance(vcpu, field) + FIELD_BYTES;
 *	}
 *
 *	DEFECT(index_four_quadwords, .rule = "SDM Vol 3, 17.4.9.1",
 *	       .says = "the index moves on by four quadwords a record",
 *	       .rules = {.advance = advance})
 *
 * Branches take the long way through the hooks while one is selected.
 */
#ifndef SPOOR_MONITOR_DEFECTS_DEFECT_H
#define SPOOR_MONITOR_DEFECTS_DEFECT_H

#include "monitor/ds/rules.h"

struct defect {
	const char *name;
	const char *rule;      /* where the rule that it breaks stands */
	const char *says;      /* one sentence: what such a processor does */
	const char *profile;   /* of an erratum: a processor that has it */
	struct ds_rules rules; /* what it does otherwise; NULL: as the clean rules */
};

#define DEFECT(name, ...)  DEFECT_IN("defects", name, __VA_ARGS__)
#define ERRATUM(name, ...) DEFECT_IN("errata", name, __VA_ARGS__) /* monitor/errata */
#define DEFECT_IN(place, defect_name, ...)                                                         \
	static const struct defect defect_name = {.name = #defect_name, __VA_ARGS__};              \
	__attribute__((section(place),                                                             \
		       used)) static const struct defect *const defect_name##_entry =              \
		&defect_name;

/* Defect `n`; NULL behind the last one. */
const struct defect *defect_get(unsigned n);

/* NULL: there is none of this name. */
const struct defect *defect_find(const char *name);

/* The same of errata. */
const struct defect *erratum_get(unsigned n);
const struct defect *erratum_find(const char *name);

#endif
