/* SPDX-License-Identifier: MIT */
/* The performance-monitoring unit's state of one virtual processor: MSRs, and derived from them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The most that a profile has. A counter is named by its place below: general ones from 0, fixed
   ones from PMU_GENERAL. */
#define PMU_GENERAL  8
#define PMU_FIXED    3
#define PMU_COUNTERS (PMU_GENERAL + PMU_FIXED)

struct pmu_event;

/* The predictor: where a branch led when it last retired, as far as there is room. Ring 0,
   which may run natively, changes nothing for the other levels. */
#define PMU_PREDICTOR 61
struct pmu_prediction {
	uint64_t from, to;
};

struct pmu_state {
	uint64_t event_select[PMU_COUNTERS]; /* of fixed ones 0 */
	uint64_t value[PMU_COUNTERS];
	uint64_t cccr, escr;			     /* of NetBurst */
	const struct pmu_event *event[PMU_COUNTERS]; /* of those that run: pmu_update() */
	uint64_t fixed_control, global_control, global_status;

	/* Sets of counters, by place: those that count at each instruction, those that run with
	   the clock, those of them that see one privilege level only, and those whose condition
	   held at the last instruction (edge detect). */
	uint16_t counting, cycles, filtered, asserted;
	bool waits;	  /* in HLT: no cycle counts */
	uint8_t cpl;	  /* that of the cycles since `clock` */
	uint8_t levels;	  /* pmu_levels() */
	bool interrupted; /* a PMI was asked for; it freezes once the instruction is complete */
	bool masked;	  /* a PMI waits for its LVT entry to be unmasked */
	uint8_t late;	  /* instructions until a PMI is asked for; 0: none waits so */
	uint64_t clock;	  /* TSC up to which cycles are counted */
	struct pmu_prediction predicted[2][PMU_PREDICTOR]; /* of CPL 0; of the others */
};
