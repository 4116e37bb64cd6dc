/* SPDX-License-Identifier: MIT */
/*
 * Silicon that is wrong on purpose: a defect breaks one rule of the manual by one hook that differs
 * from the clean one, or by a few together. A defect is a file of its own here, found by the
 * linker: its name, where the rule stands, one sentence on what such a processor does, and how.
 *
 *	static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
 *	{
 *		return ds_clean.advance(vcpu, field) + FIELD_BYTES;
 *	}
 *
 *	DEFECT(index_four_quadwords, "SDM Vol 3, 17.4.9.1",
 *	       "the index moves on by four quadwords a record",
 *	       rules->advance = advance)
 *
 * Branches take the long way through the hooks while one is selected.
 */
#ifndef SPOOR_MONITOR_DEFECTS_DEFECT_H
#define SPOOR_MONITOR_DEFECTS_DEFECT_H

#include <stddef.h>

#include "monitor/ds/rules.h"

struct defect {
	const char *name;
	const char *rule, *says;
	const char *profile; /* of an erratum: a processor that has it; else NULL */
	void (*spoil)(struct ds_rules *rules);
};

#define DEFECT(name, rule, says, ...) DEFECT_IN("defects", name, rule, says, NULL, __VA_ARGS__)
/* monitor/errata: the same, and the profile of a processor that has it. */
#define ERRATUM(id, rule, says, profile, ...)                                                      \
	DEFECT_IN("errata", id, rule, says, profile, __VA_ARGS__)
#define DEFECT_IN(place, name, rule, says, profile, ...)                                           \
	static void name##_spoil(struct ds_rules *rules)                                           \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}                                                                                          \
	static const struct defect name##_defect = {#name, rule, says, profile, name##_spoil};     \
	__attribute__((section(place), used)) static const struct defect *const name##_entry =     \
		&name##_defect;

/*
 * What a defect remembers from one call of its hooks to the next, as a pointer to `type`: of each
 * processor its own, zero from RESET and INIT on. A hook that has a const processor may remember
 * too.
 */
#define REMEMBERED(vcpu, type)                                                                     \
	({                                                                                         \
		_Static_assert(sizeof(type) <= DS_REMEMBERED * sizeof(uint64_t), "too much");      \
		(type *)((struct vcpu *)(vcpu))->ds.remembered;                                    \
	})

/* Defect `n`; NULL behind the last one. */
const struct defect *defect_get(unsigned n);

/* NULL: there is none of this name. */
const struct defect *defect_find(const char *name);

/* The same of errata. */
const struct defect *erratum_get(unsigned n);
const struct defect *erratum_find(const char *name);

#endif
