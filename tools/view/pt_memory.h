/* SPDX-License-Identifier: MIT */
/* The memory that the packets of a stream were recorded in, as libipt reads it: of each program
 * one. */
#ifndef SPOOR_TOOLS_VIEW_PT_MEMORY_H
#define SPOOR_TOOLS_VIEW_PT_MEMORY_H

#include "tools/view/trace.h"

#include <intel-pt.h>

struct memories;

/* Those of `stream`, whose code is open; never NULL. */
struct memories *memories_open(const struct trace_stream *stream);
void memories_close(struct memories *memories);

/*
 * Before the first PIP the lower half is that of any program of the trace, and where the trace does
 * not say which CR3 a program has, that of the stream's.
 */
struct pt_image *memory_before_pip(const struct memories *memories);

/* While `program` runs, NULL: none that is known. */
struct pt_image *memory_of(struct memories *memories, const struct code *program);

#endif
