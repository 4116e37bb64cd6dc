/* SPDX-License-Identifier: MIT */
/* Precise event-based sampling as a trace unit. */
#ifndef SPOOR_KERNEL_TRACE_PEBS_UNIT_H
#define SPOOR_KERNEL_TRACE_PEBS_UNIT_H

#include "kernel/trace/unit.h"

extern const struct trace_unit pebs_unit;

#endif
