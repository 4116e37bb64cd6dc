// SPDX-License-Identifier: MIT
/* The table of the trace units. */
#include "monitor/silicon.h"
#include "monitor/unit.h"

#define UNIT_ROW(name) &name##_unit,
const struct unit *const units[UNITS] = {EACH_UNIT(UNIT_ROW)};
