/* SPDX-License-Identifier: MIT */
/*
 * Which Intel processor the virtual one is: its identity, where IA32_DEBUGCTL (NetBurst:
 * MSR_DEBUGCTLA) has its flags, and how its family behaves where the manual says so.
 */
#ifndef SPOOR_MONITOR_DS_PROFILE_H
#define SPOOR_MONITOR_DS_PROFILE_H

#include <stdint.h>

#include "monitor/ds/behaviour.h"

/* SDM Vol 3, 17.4.1; for NetBurst the 2009 edition, 18.15.1. LBR is bit 0 and BTF bit 1 everywhere.
 */
struct ds_layout {
	uint64_t tr, bts, btint, off_os, off_usr;
};

struct profile {
	const char *name;
	const char brand[48];
	uint32_t signature; /* CPUID.1:EAX */
	uint32_t last_leaf; /* CPUID.0:EAX */
	struct {
		uint8_t version, counters, width; /* CPUID.0AH:EAX; version 0: there is none */
	} performance;
	struct ds_layout layout;
	struct ds_behaviour behaviour;
};

/* Profile `n`, the first being the default; NULL behind the last one. */
const struct profile *profile_get(unsigned n);

#endif
