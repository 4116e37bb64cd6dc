/* SPDX-License-Identifier: MIT */
/*
 * Silicon that is wrong on purpose: a defect breaks one rule of the manual. It has a name, the
 * place of the rule in the manual, and one sentence on what such a processor does. It has those
 * hooks of struct ds_rules, pmu_rules, pebs_rules or lbr_rules that differ from the clean ones, as
 *functions named after the defect. The linker collects all defects.
 *
 *	static uint64_t index_four_quadwords(const struct vcpu *vcpu,
 *					     const uint64_t field[BTS_FIELDS])
 *	{
 *		return ds_clean.advance(vcpu, field) + FIELD_BYTES;
 *	}
 *	DEFECT(index_four_quadwords, "SDM Vol 3, 17.4.9.1",
 *	       "the index moves on by four quadwords a record",
 *	       BREAKS(advance, index_four_quadwords))
 *
 * A file holds the defects of one group of rules; defects that differ in an expression only are
 * made by a macro of their file, one line each. While a defect is selected every branch passes
 * through the hooks.
 */
#pragma once

#include <stddef.h>

#include "monitor/silicon.h"

struct defect {
	const char *name;
	const char *rule, *says;
	const char *profile; /* the processor that has it, if it cannot be any; else NULL */
	void (*break_rules)(struct silicon *silicon);
};

#define DEFECT(name, rule, says, ...) DEFECT_ON(NULL, name, rule, says, __VA_ARGS__)
/* The same of a processor of `profile`, which has what the rule is about. */
#define DEFECT_ON(profile, name, rule, says, ...)                                                  \
	DEFECT_IN("defects", name, rule, says, profile, __VA_ARGS__)
/* The same of a known erratum, and the profile of a processor that has it. */
#define ERRATUM(id, rule, says, profile, ...)                                                      \
	DEFECT_IN("errata", id, rule, says, profile, __VA_ARGS__)
#define DEFECT_IN(place, name, rule, says, profile, ...)                                           \
	static void name##_break_rules(struct silicon *silicon)                                    \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}                                                                                          \
	static const struct defect name##_defect = {#name, rule, says, profile,                    \
						    name##_break_rules};                           \
	__attribute__((section(place), used)) static const struct defect *const name##_entry =     \
		&name##_defect;

/* The last arguments of DEFECT() and ERRATUM(): `hook` of struct ds_rules, of struct pmu_rules, of
   struct pebs_rules, of struct lbr_rules is `function`. */
#define BREAKS(hook, function)		ds_break(&silicon->ds)->hook = (function)
#define BREAKS_COUNTERS(hook, function) silicon->pmu.hook = (function)
#define BREAKS_SAMPLES(hook, function)	silicon->pebs.hook = (function)
#define BREAKS_LBR(hook, function)	silicon->lbr.hook = (function)

/*
 * A defect's memory from one call of its hooks to the next, as a pointer to `type`: of each
 * processor its own, zero from RESET and INIT on. A hook that has a const processor may remember
 * too.
 */
#define REMEMBERED(vcpu, type)                                                                     \
	({                                                                                         \
		_Static_assert(sizeof(type) <= DS_REMEMBERED * sizeof(uint64_t), "too much");      \
		(type *)((struct vcpu *)(vcpu))->ds.remembered;                                    \
	})

/* Defect `n`; NULL past the last one. */
const struct defect *defect_get(unsigned n);

/* NULL: there is none of this name. */
const struct defect *defect_find(const char *name);

/* The same of errata. */
const struct defect *erratum_get(unsigned n);
const struct defect *erratum_find(const char *name);
