/* SPDX-License-Identifier: MIT */
/* The container perf.data: records in a buffer, and the file around them. */
#ifndef SPOOR_TOOLS_VIEW_PERF_FILE_H
#define SPOOR_TOOLS_VIEW_PERF_FILE_H

#include "tools/view/trace.h"

#include <linux/perf_event.h>

#define PERF_ID 1 /* of the one event */

/* Bytes one after the other. */
struct buffer {
	uint8_t *bytes;
	size_t used, room;
};

void put(struct buffer *buffer, const void *bytes, size_t count);
void put64(struct buffer *buffer, uint64_t number);
void put32(struct buffer *buffer, uint32_t number);

/* A text with its 0, padded with more of them to a multiple of `unit`, 64 at most. */
void put_text(struct buffer *buffer, const char *text, size_t unit);

/* Begins a record, returns where; end_record() fills in its size. */
size_t begin_record(struct buffer *buffer, uint32_t type, uint16_t misc);
void end_record(struct buffer *buffer, size_t start);

/*
 * Writes `path` as a whole: one event `name` with `attr`, the records of `data`, the build-ids of
 * the trace's files. Ends the program if it cannot.
 */
void perf_write(const char *path, const struct trace *trace, const struct perf_event_attr *attr,
		const char *name, const struct buffer *data);

#endif
