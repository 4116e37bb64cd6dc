// SPDX-License-Identifier: MIT
// perf.data as tools/perf/Documentation/perf.data-file-format.txt of Linux has it.
#include "tools/view/perf_file.h"

#include "tools/view/output.h"
#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>

#define MISC_BUILD_ID_SIZE (1u << 15) /* its own size is at byte 20 */
enum { FEATURE_BUILD_ID = 2, FEATURE_EVENT_DESC = 12 };

void put(struct buffer *buffer, const void *bytes, size_t count)
{
	while (buffer->used + count > buffer->room) {
		buffer->room = buffer->room ? 2 * buffer->room : 1 << 16;
		buffer->bytes = reallocate(buffer->bytes, buffer->room, 1);
	}
	if (count)
		memcpy(buffer->bytes + buffer->used, bytes, count);
	buffer->used += count;
}

void put64(struct buffer *buffer, uint64_t number)
{
	put(buffer, &number, sizeof(number));
}

void put32(struct buffer *buffer, uint32_t number)
{
	put(buffer, &number, sizeof(number));
}

void put_text(struct buffer *buffer, const char *text, size_t unit)
{
	static const char zeros[64];
	size_t size = strlen(text) + 1;

	put(buffer, text, size);
	put(buffer, zeros, (unit - size % unit) % unit);
}

size_t begin_record(struct buffer *buffer, uint32_t type, uint16_t misc)
{
	struct perf_event_header header = {type, misc, 0};
	size_t start = buffer->used;

	put(buffer, &header, sizeof(header));
	return start;
}

void end_record(struct buffer *buffer, size_t start)
{
	struct perf_event_header header;

	memcpy(&header, buffer->bytes + start, sizeof(header));
	header.size = (uint16_t)(buffer->used - start);
	memcpy(buffer->bytes + start, &header, sizeof(header));
}

/* The files with a build-id, so that perf refuses others. */
static void put_build_ids(struct buffer *buffer, const struct trace *trace)
{
	for (size_t i = 0; i < trace->code_count; i++) {
		size_t size, start;
		uint8_t id[24] = {0};
		const uint8_t *bytes = code_build_id(trace->codes[i], &size);
		char *path = realpath(code_path(trace->codes[i]), NULL);
		struct segment segment;
		bool kernel = code_segment(trace->codes[i], 1, &segment) && segment.address >> 63;

		if (size && size <= 20 && path) {
			memcpy(id, bytes, size);
			id[20] = (uint8_t)size;
			start = begin_record(buffer, 0,
					     (uint16_t)((kernel ? PERF_RECORD_MISC_KERNEL
								: PERF_RECORD_MISC_USER) |
							MISC_BUILD_ID_SIZE));
			put32(buffer, UINT32_MAX);
			put(buffer, id, sizeof(id));
			put_text(buffer, path, 64);
			end_record(buffer, start);
		}
		free(path);
	}
}

static void put_event(struct buffer *buffer, const struct perf_event_attr *attr, const char *name)
{
	size_t padded = (strlen(name) + 1 + 63) / 64 * 64;

	put32(buffer, 1);
	put32(buffer, PERF_ATTR_SIZE_VER5);
	put(buffer, attr, PERF_ATTR_SIZE_VER5);
	put32(buffer, 1);
	put32(buffer, (uint32_t)padded);
	put_text(buffer, name, 64);
	put64(buffer, PERF_ID);
}

/* struct perf_file_header: sections are an offset and a size. */
struct file_header {
	uint64_t magic, size, attr_size;
	uint64_t attrs[2], data[2], event_types[2], features[4];
};

void perf_write(const char *path, const struct trace *trace, const struct perf_event_attr *attr,
		const char *name, const struct buffer *data)
{
	struct buffer build_ids = {0}, event = {0};
	uint64_t ids = sizeof(struct file_header), attrs = ids + 8;
	uint64_t records = attrs + PERF_ATTR_SIZE_VER5 + 16, features = records + data->used;
	struct file_header header = {
		.magic = 0x32454c4946524550, /* "PERFILE2" */
		.size = sizeof(header),
		.attr_size = PERF_ATTR_SIZE_VER5 + 16,
		.attrs = {attrs, PERF_ATTR_SIZE_VER5 + 16},
		.data = {records, data->used},
		.features = {1ull << FEATURE_BUILD_ID | 1ull << FEATURE_EVENT_DESC},
	};
	uint64_t id[] = {PERF_ID}, id_section[] = {ids, 8}, sections[4];
	FILE *out;

	put_build_ids(&build_ids, trace);
	put_event(&event, attr, name);
	sections[0] = features + sizeof(sections);
	sections[1] = build_ids.used;
	sections[2] = sections[0] + sections[1];
	sections[3] = event.used;
	out = output_open(path, trace);
	fwrite(&header, sizeof(header), 1, out);
	fwrite(id, sizeof(id), 1, out);
	fwrite(attr, PERF_ATTR_SIZE_VER5, 1, out);
	fwrite(id_section, sizeof(id_section), 1, out);
	if (data->used)
		fwrite(data->bytes, 1, data->used, out);
	fwrite(sections, sizeof(sections), 1, out);
	fwrite(build_ids.bytes, 1, build_ids.used, out);
	fwrite(event.bytes, 1, event.used, out);
	output_keep();
	free(build_ids.bytes);
	free(event.bytes);
}
