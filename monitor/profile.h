/* SPDX-License-Identifier: MIT */
/*
 * Which Intel processor the virtual one is: its identity, where IA32_DEBUGCTL (NetBurst:
 * MSR_DEBUGCTLA) has its flags, and how its family behaves where the manual says so.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* SDM Vol 3, 17.4.1; for NetBurst the 2009 edition, 18.15.1. LBR is bit 0 and BTF bit 1 everywhere.
 */
struct ds_layout {
	uint64_t tr, bts, btint, off_os, off_usr;
};

struct pmu_event;

/* Architectural performance monitoring. Version 0: there is none. */
struct performance {
	uint8_t version, counters, width; /* CPUID.0AH:EAX */
	uint64_t capabilities;		  /* IA32_PERF_CAPABILITIES; 0: no PDCM */
	const struct pmu_event *events;	  /* beside the architectural ones */
};

/* IA32_PERF_CAPABILITIES: SDM Vol 3, 17.4.8.1 and figure 18-49. */
#define CAPABILITY_LBR_FORMAT	 0x3full
#define CAPABILITY_PEBS_TRAP	 (1ull << 6)
#define CAPABILITY_PEBS		 0xfc0ull /* TRAP, SAVE_ARCH_REGS, the record's format */
#define CAPABILITY_FULL_WIDTH	 (1ull << 13)
#define CAPABILITY_PEBS_BASELINE (1ull << 14)

/* The LBR stack: MSRs of its first entry, 0 where there is none. */
struct lbr_layout {
	uint8_t depth;
	uint8_t depths; /* CPUID.1CH:EAX[7:0], of architectural ones alone */
	uint16_t from, to, info, top;
	uint16_t select; /* flags that LBR_SELECT has */
	bool flags;	 /* bit 63 of `from` says that the branch was mispredicted */
};

enum { PROFILE_VARIANTS = 2 };

struct profile {
	const char *name;
	char brand[48];
	uint32_t signature; /* CPUID.1:EAX */
	uint32_t last_leaf; /* CPUID.0:EAX */
	struct performance performance;
	struct lbr_layout lbr;
	bool netburst; /* counters with ESCRs and CCCRs */
	struct ds_layout layout;
	const char *variants[PROFILE_VARIANTS]; /* words of vbts=: what its manual says */
};

/* Every counter takes samples, and MSR_PEBS_DATA_CFG chooses what is in them. */
static inline bool pebs_is_adaptive(const struct profile *profile)
{
	return profile->performance.capabilities & CAPABILITY_PEBS_BASELINE;
}

/* IA32_PERF_CAPABILITIES.PEBS_REC_FORMAT. */
static inline unsigned pebs_format(const struct profile *profile)
{
	return profile->performance.capabilities >> 8 & 0xf;
}

/* Profile `n`, the first being the default; NULL past the last one. */
const struct profile *profile_get(unsigned n);

/* NULL: there is none of this name. */
const struct profile *profile_find(const char *name);
