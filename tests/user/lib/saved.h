/* SPDX-License-Identifier: MIT */
/*
 * For a program that saves what it recorded over the serial line, as a trace stream
 * (docs/trace-stream.5). The program may see kernel addresses, as GET_ITEMS wants it. A failure
 * ends it.
 */
#pragma once

#include "abi/trace_stream.h"

#include <stddef.h>

extern uint8_t saved_payload[TRACE_PAYLOAD_BYTES]; /* the caller's, between two of these calls */

void saved_open(void);
void saved_close(void);

/* What the kernel says of the machine: type HELLO, pid 0; or STREAM, of a process. */
void saved_items(uint8_t type, long pid);

/* A header with this CPU and the time; and a frame. */
struct trace_frame saved_header(uint8_t type, uint32_t stream);
void saved_frame(struct trace_frame header, const void *payload, size_t bytes);

/* The last frame. */
void saved_end(const struct trace_total *totals, unsigned count);
