/* SPDX-License-Identifier: MIT */
/* The events of each family beside the architectural ones; code 0 ends a list. */
#ifndef SPOOR_MONITOR_PMU_EVENTS_H
#define SPOOR_MONITOR_PMU_EVENTS_H

#include "monitor/pmu/rules.h"

extern const struct pmu_event pmu_events_core[], pmu_events_nehalem[], pmu_events_skylake[],
	pmu_events_icelake[];
#define pmu_events_haswell (&pmu_events_skylake[2]) /* the first two are skylake's alone */

#endif
