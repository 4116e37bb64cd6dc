/* SPDX-License-Identifier: MIT */
/* Intel Processor Trace as a trace unit. */
#ifndef SPOOR_KERNEL_TRACE_PT_UNIT_H
#define SPOOR_KERNEL_TRACE_PT_UNIT_H

#include "kernel/trace/unit.h"

extern const struct trace_unit pt_unit;

#endif
