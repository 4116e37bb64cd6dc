// SPDX-License-Identifier: MIT
/* The table of the trace units. */
#include "monitor/ds/rules.h"
#include "monitor/lbr/rules.h"
#include "monitor/pebs/rules.h"
#include "monitor/pmu/rules.h"
#include "monitor/pt/rules.h"

const struct unit *const units[UNITS] = {
	&ds_unit, &pebs_unit, &pmu_unit, &pt_unit, &lbr_unit,
};
