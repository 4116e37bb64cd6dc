/* SPDX-License-Identifier: MIT */
/* Between the files of this folder: contexts whose buffer waits to be handed over. */
#ifndef SPOOR_KERNEL_TRACE_DUE_H
#define SPOOR_KERNEL_TRACE_DUE_H

#include "kernel/trace/context.h"

/* Puts `context` in this CPU's list and raises VECTOR_TRACE_WORK. Any context, NMI included. */
void trace_set_due(struct cpu *cpu, struct trace_context *context);

/* Moves the records of a linear context to its ring, on this CPU. IF = 0. */
void trace_empty(struct cpu *cpu, struct trace_context *context);

#endif
