/* SPDX-License-Identifier: MIT */
/* Branch Trace Store as a trace unit. */
#ifndef SPOOR_KERNEL_TRACE_BTS_UNIT_H
#define SPOOR_KERNEL_TRACE_BTS_UNIT_H

#include "kernel/trace/unit.h"

extern const struct trace_unit bts_unit;

#endif
