/* SPDX-License-Identifier: MIT */
/* Differences of processor families: bits of IA32_DEBUGCTL, sizes of fields and records. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ds_configuration {
	const char *name;
	uint64_t tr, bts, btint;  /* bits of IA32_DEBUGCTL (NetBurst: MSR_DEBUGCTLA) */
	uint64_t off_os, off_usr; /* 0: this family cannot filter by CPL */
	bool filter_changes_from; /* with either set, `from` of a change of CPL may be wrong */
	uint64_t predicted;	  /* bit of a record's flags; 0: not supported */
	uint64_t pebs_counters;	  /* those that take samples; 0: no PEBS that is known here */
	uint64_t pebs_enable;	  /* what IA32_PEBS_ENABLE is set to for them; 0: their own bits */
	bool pebs_reserved;   /* of a record's fields for memory and transactions are reserved */
	unsigned field_size;  /* bytes of an address in the DS area and in a record: 4 or 8 */
	unsigned record_size; /* bytes of a BTS record: three fields */
};

/* The row for a family and model as CPUID.1 says them. Never NULL. Any context. */
const struct ds_configuration *ds_find_configuration(unsigned family, unsigned model);

/*
 * True if this model suspends BTS while IA32_RTIT_CTL.TraceEn = 1 (SDM Vol 3, 36.3.1.2). Any
 * context.
 */
bool ds_is_suspended_by_pt(unsigned family, unsigned model);

/* The row in use. ds_probe() sets it; until then it is that of the newest processors. */
extern const struct ds_configuration *ds_configuration;
