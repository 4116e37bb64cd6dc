/* SPDX-License-Identifier: MIT */
/* PEBS' state of one virtual processor. */
#pragma once

#include <stdint.h>

#include "monitor/pmu/state.h"

struct pebs_state {
	uint64_t enable;	    /* IA32_PEBS_ENABLE */
	uint64_t data_cfg;	    /* MSR_PEBS_DATA_CFG, of adaptive records */
	uint64_t latency;	    /* MSR_PEBS_LD_LAT_THRESHOLD */
	uint64_t frontend;	    /* MSR_PEBS_FRONTEND */
	uint16_t armed;		    /* counters, by place, whose next event is sampled */
	uint8_t skid[PMU_COUNTERS]; /* events until an armed counter's is sampled */
	uint8_t turn;		    /* of skids that vary */
	uint64_t remembered[2];	    /* of silicon that is wrong on purpose */
};
