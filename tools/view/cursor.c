// SPDX-License-Identifier: MIT
// The records of one stream, one after the other.
#include "tools/view/trace.h"

#include "abi/ptrace_bts.h"
#include "tools/view/view.h"

#include <stdlib.h>

void cursor_start(struct cursor *cursor, const struct trace *trace,
		  const struct trace_stream *stream)
{
	int cpu = trace_stream_cpu(stream);

	*cursor = (struct cursor){
		.trace = trace, .stream = stream, .cpu = cpu, .pid = cpu < 0 ? stream->id : 0};
	cursor->records =
		allocate(stream->parts.count ? STREAM_RECORDS : 0, sizeof(*cursor->records));
}

void cursor_stop(struct cursor *cursor)
{
	free(cursor->records);
	cursor->records = NULL;
}

/* Opens frame `part`: true with an item if that says something before the first record. */
static bool open_part(struct cursor *cursor, struct cursor_item *item)
{
	const struct trace_part *part = &cursor->stream->parts.part[cursor->part++];
	uint64_t missing = part->header.index - cursor->index;

	*item = (struct cursor_item){.index = cursor->index};
	cursor->at = cursor->count = 0;
	if (part->header.type == TRACE_FRAME_MARK) {
		item->kind = CURSOR_MARK;
		item->text = (const char *)part->payload;
		item->text_size = part->size;
		return true;
	}
	stream_records(&part->header, part->payload, part->size, cursor->records, &cursor->count);
	cursor->index = item->index = part->header.index;
	item->kind = CURSOR_GAP;
	item->missing = missing + part->header.lost;
	return item->missing > 0;
}

static void describe_record(struct cursor *cursor, struct cursor_item *item)
{
	const struct trace_record *record = &item->record;
	uint64_t pid_cpu = record->flags & ~TRACE_STAMP_FLAG;

	item->kind = record_is_stamp(record) ? CURSOR_STAMP : CURSOR_BRANCH;
	if (item->kind == CURSOR_STAMP)
		item->qualifier = (unsigned)(record->from & ~TRACE_STAMP);
	if (item->kind == CURSOR_STAMP && item->qualifier == PTRACE_BTS_GAP) {
		item->kind = CURSOR_GAP;
		item->missing = record->to;
	} else if (item->kind == CURSOR_STAMP) {
		cursor->cpu = (int)(pid_cpu >> 32);
		cursor->pid = (uint32_t)pid_cpu;
	}
	item->cpu = cursor->cpu;
	item->pid = cursor->pid;
	item->of_cpu = cursor->stream->id & TRACE_STREAM_CPU;
	/* Nothing arrives where a CPU idles. */
	if (item->of_cpu && item->kind == CURSOR_STAMP &&
	    item->qualifier == PTRACE_BTS_TASK_DEPARTS)
		cursor->pid = 0;
}

bool cursor_next(struct cursor *cursor, struct cursor_item *item)
{
	while (cursor->at == cursor->count) {
		*item = (struct cursor_item){.kind = CURSOR_END, .index = cursor->index};
		if (cursor->part == cursor->stream->parts.count)
			return false;
		if (open_part(cursor, item))
			return true;
	}
	*item = (struct cursor_item){.index = cursor->index++};
	item->has_record = true;
	item->record = cursor->records[cursor->at++];
	describe_record(cursor, item);
	return true;
}
