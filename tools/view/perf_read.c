// SPDX-License-Identifier: MIT
#include "tools/view/perf_file.h"

#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>

struct section {
	uint64_t offset, size;
};

/* struct perf_file_header */
struct file_header {
	char magic[8];
	uint64_t size, attr_size;
	struct section attrs, data, event_types;
	uint64_t features[4];
};

static const char magic[8] = {'P', 'E', 'R', 'F', 'I', 'L', 'E', '2'};
static const char swapped[8] = {'2', 'E', 'L', 'I', 'F', 'R', 'E', 'P'};

enum {
	FEATURE_BUILD_ID = 2,
	FEATURE_RELEASE = 4,
	FEATURE_VERSION = 5,
	FEATURE_ARCHITECTURE = 6,
	FEATURE_CPUS = 7,
	FEATURE_PROCESSOR = 8,
	FEATURE_CPUID = 9,
};

enum {
	PIPE_HEADER_BYTES = 16,
	USER_TYPES = 64, /* from there on perf writes them */
	RECORD_COMPRESSED = 81,
	RECORD_COMPRESSED2 = 83,
	BUILD_ID = 20,
};
#define MISC_BUILD_ID_SIZE (1u << 15) /* its own size is at byte 20 */
#define MISC_MAP_BUILD_ID  (1u << 14) /* PERF_RECORD_MISC_MMAP_BUILD_ID: Linux 5.12 */

/* In the order in which they are at the end of a record. */
static const uint64_t id_fields[] = {PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
				     PERF_SAMPLE_ID,  PERF_SAMPLE_STREAM_ID,
				     PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER};
#define ID_FIELDS (sizeof(id_fields) / sizeof(id_fields[0]))

bool perf_is_data(const char *bytes, size_t size)
{
	return size >= sizeof(magic) &&
	       (!memcmp(bytes, magic, sizeof(magic)) || !memcmp(bytes, swapped, sizeof(swapped)));
}

static void note_flaw(struct perf_data *data, const char *flaw)
{
	if (!data->flaw[0])
		snprintf(data->flaw, sizeof(data->flaw), "%s", flaw);
}

/* The bytes of a section; NULL, and a flaw: the file ends before it does. */
static const uint8_t *bytes_of(struct perf_data *data, struct section section)
{
	if (section.offset <= data->size && section.size <= data->size - section.offset)
		return (const uint8_t *)data->file + section.offset;
	note_flaw(data, "the file was cut");
	return NULL;
}

uint64_t perf_number(const struct perf_item *item, size_t at, size_t bytes)
{
	uint64_t number = 0;

	if (at <= item->size && bytes <= item->size - at)
		memcpy(&number, item->body + at, bytes);
	return number;
}

const char *perf_text(const struct perf_item *item, size_t at)
{
	if (at >= item->size || !memchr(item->body + at, 0, item->size - at))
		return "";
	return (const char *)item->body + at;
}

static int compare_build_ids(const void *left, const void *right)
{
	const struct perf_build_id *a = left, *b = right;

	return strcmp(a->path, b->path);
}

const uint8_t *perf_build_id(const struct perf_data *data, const struct perf_item *item,
			     const char *path, size_t *size)
{
	const struct perf_build_id key = {.path = path}, *found = NULL;

	*size = 0;
	if (item->type == PERF_RECORD_MMAP2 && item->misc & MISC_MAP_BUILD_ID) {
		*size = perf_number(item, 32, 1);
		*size = *size <= BUILD_ID ? *size : 0;
		return item->body + 36;
	}
	if (data->build_id_count)
		found = bsearch(&key, data->build_ids, data->build_id_count, sizeof(key),
				compare_build_ids);
	*size = found ? found->size : 0;
	return found ? found->bytes : NULL;
}

/* --- Events -------------------------------------------------------------------------------------
 */

static int compare_ids(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static void add_ids(struct perf_data *data, struct section section, size_t attr)
{
	const uint8_t *bytes = bytes_of(data, section);
	size_t count = bytes ? section.size / sizeof(uint64_t) : 0;

	data->ids = reallocate(data->ids, 2 * (data->id_count + count), sizeof(*data->ids));
	for (size_t i = 0; i < count; i++) {
		memcpy(&data->ids[2 * data->id_count], bytes + i * sizeof(uint64_t),
		       sizeof(uint64_t));
		data->ids[2 * data->id_count++ + 1] = attr;
	}
}

static void read_attrs(struct perf_data *data, const struct file_header *header)
{
	const uint8_t *bytes = bytes_of(data, header->attrs);
	uint64_t size = header->attr_size, most = 0;

	if (!bytes || size < PERF_ATTR_SIZE_VER0 + sizeof(struct section) || size > 4096)
		fail("%s: it has no events: it is damaged", data->path);
	data->attr_count = header->attrs.size / size;
	data->attrs = allocate(data->attr_count, sizeof(*data->attrs));
	for (size_t i = 0; i < data->attr_count; i++, bytes += size) {
		size_t attr_size = size - sizeof(struct section);
		struct section ids;

		memcpy(&data->attrs[i], bytes,
		       attr_size < sizeof(*data->attrs) ? attr_size : sizeof(*data->attrs));
		memcpy(&ids, bytes + attr_size, sizeof(ids));
		most += ids.size;
		if (most > data->size)
			fail("%s: its events have more numbers than it has bytes: it is damaged",
			     data->path);
		add_ids(data, ids, i);
	}
	if (data->id_count)
		qsort(data->ids, data->id_count, 2 * sizeof(*data->ids), compare_ids);
}

const struct perf_event_attr *perf_attr(const struct perf_data *data, uint64_t id)
{
	const uint64_t *found = NULL;

	if (data->id_count)
		found = bsearch(&id, data->ids, data->id_count, 2 * sizeof(id), compare_ids);
	return found ? &data->attrs[found[1]] : NULL;
}

/* The event of a record: by the id that is last in it, or the first. */
static const struct perf_event_attr *attr_of(const struct perf_data *data,
					     const struct perf_item *item)
{
	const struct perf_event_attr *attr = NULL;

	if (item->size >= sizeof(uint64_t))
		attr = perf_attr(
			data, perf_number(item, item->size - sizeof(uint64_t), sizeof(uint64_t)));
	return attr || !data->attr_count ? attr : data->attrs;
}

/* Whose record it is, and when it was: what the kernel's records end with, if the event asks. */
static void take_sample_id(const struct perf_data *data, struct perf_item *item)
{
	const struct perf_event_attr *attr = attr_of(data, item);
	size_t at, size = 0;

	if (!attr || !attr->sample_id_all || item->type >= USER_TYPES)
		return;
	for (size_t i = 0; i < ID_FIELDS; i++)
		size += attr->sample_type & id_fields[i] ? 8 : 0;
	if (size > item->size)
		return;
	at = item->size - size;
	for (size_t i = 0; i < ID_FIELDS; i++) {
		if (!(attr->sample_type & id_fields[i]))
			continue;
		if (id_fields[i] == PERF_SAMPLE_TID) {
			item->pid = (uint32_t)perf_number(item, at, 4);
			item->tid = (uint32_t)perf_number(item, at + 4, 4);
		} else if (id_fields[i] == PERF_SAMPLE_TIME) {
			item->time = perf_number(item, at, 8);
		} else if (id_fields[i] == PERF_SAMPLE_CPU) {
			item->cpu = (uint32_t)perf_number(item, at, 4);
		}
		at += 8;
	}
}

/* --- Records ------------------------------------------------------------------------------------
 */

static bool is_kept(uint32_t type)
{
	switch (type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
	case PERF_RECORD_LOST:
	case PERF_RECORD_AUX:
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
	case PERF_AUXTRACE_INFO:
	case PERF_AUXTRACE:
	case PERF_ID_INDEX:
		return true;
	default:
		return false;
	}
}

static void add_item(struct perf_data *data, size_t *room, struct perf_item item)
{
	if (data->count == *room) {
		*room = *room ? 2 * *room : 1024;
		data->items = reallocate(data->items, *room, sizeof(*data->items));
	}
	data->items[data->count++] = item;
}

/* Returns how many bytes of `left` the record at `bytes` has; 0: it is cut, or none. */
static uint64_t take_record(struct perf_data *data, const uint8_t *bytes, uint64_t left,
			    size_t *room)
{
	struct perf_event_header header;
	struct perf_item item = {.pid = PERF_NOBODY, .tid = PERF_NOBODY, .cpu = PERF_NOBODY};

	if (left < sizeof(header))
		return 0;
	memcpy(&header, bytes, sizeof(header));
	if (header.size < sizeof(header) || header.size > left)
		return 0;
	item.type = header.type;
	item.misc = header.misc;
	item.body = bytes + sizeof(header);
	item.size = header.size - sizeof(header);
	if (header.type == PERF_AUXTRACE) {
		item.trace_size = perf_number(&item, 0, 8);
		item.trace = bytes + header.size;
		if (item.trace_size > left - header.size)
			return 0;
	}
	if (header.type == RECORD_COMPRESSED || header.type == RECORD_COMPRESSED2)
		fail("%s: its records are compressed (perf record -z), which view does not read",
		     data->path);
	if (is_kept(header.type)) {
		take_sample_id(data, &item);
		add_item(data, room, item);
	}
	return header.size + item.trace_size;
}

/* By time; where that is the same, by the place in the file. */
static int compare_items(const void *left, const void *right)
{
	const struct perf_item *a = left, *b = right;

	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return (a->body > b->body) - (a->body < b->body);
}

static void read_records(struct perf_data *data, struct section section)
{
	uint64_t at = section.offset, end = section.offset + section.size, size;
	size_t room = 0;

	if (!section.size)
		note_flaw(data, "the recording was not ended");
	if (!section.size || !bytes_of(data, section))
		end = data->size;
	while (at < end) {
		size = take_record(data, (uint8_t *)data->file + at, end - at, &room);
		if (!size)
			break;
		at += size;
	}
	if (at < end)
		note_flaw(data, "a record is cut, or damaged");
	if (data->count)
		qsort(data->items, data->count, sizeof(*data->items), compare_items);
}

/* --- What perf says of the machine and of its files ---------------------------------------------
 */

static void copy_text(struct perf_data *data, struct section section, char *text, size_t room)
{
	const uint8_t *bytes = bytes_of(data, section);
	uint32_t size;

	if (!bytes || section.size <= sizeof(size))
		return;
	memcpy(&size, bytes, sizeof(size));
	if (size > section.size - sizeof(size))
		size = (uint32_t)(section.size - sizeof(size));
	if (size >= room)
		size = (uint32_t)room - 1;
	snprintf(text, room, "%.*s", (int)size, (const char *)bytes + sizeof(size));
	make_printable(text, strlen(text));
}

/* "GenuineIntel,6,158,10": as CPUID.1:EAX has it (SDM volume 2, CPUID). */
static uint32_t signature_of(const char *text)
{
	unsigned family, model, stepping;

	if (sscanf(text, "GenuineIntel,%u,%u,%u", &family, &model, &stepping) != 3)
		return 0;
	return (stepping & 15) | (model & 15) << 4 | (family < 15 ? family : 15) << 8 |
	       (model >> 4 & 15) << 16 | (family < 15 ? 0 : (family - 15) & 255) << 20;
}

static void read_build_ids(struct perf_data *data, struct section section)
{
	const uint8_t *bytes = bytes_of(data, section);
	size_t at = 0, count = 0;
	struct perf_event_header header;

	if (!bytes)
		return;
	data->build_ids = allocate(section.size / 36 + 1, sizeof(*data->build_ids));
	for (; section.size - at >= sizeof(header); at += header.size, count++) {
		struct perf_build_id *id = &data->build_ids[count];
		const uint8_t *its = bytes + at + sizeof(header) + 4;
		const char *path = (const char *)its + 24;

		memcpy(&header, bytes + at, sizeof(header));
		if (header.size <= sizeof(header) + 28 || header.size > section.size - at ||
		    !memchr(path, 0, header.size - sizeof(header) - 28))
			break;
		*id = (struct perf_build_id){.path = path, .size = BUILD_ID};
		memcpy(id->bytes, its, BUILD_ID);
		if (header.misc & MISC_BUILD_ID_SIZE && its[BUILD_ID] < BUILD_ID)
			id->size = its[BUILD_ID];
	}
	data->build_id_count = count;
	qsort(data->build_ids, count, sizeof(*data->build_ids), compare_build_ids);
}

static void read_feature(struct perf_data *data, unsigned feature, struct section section)
{
	char text[64] = "";

	switch (feature) {
	case FEATURE_BUILD_ID:
		read_build_ids(data, section);
		return;
	case FEATURE_RELEASE:
		copy_text(data, section, data->release, sizeof(data->release));
		return;
	case FEATURE_VERSION:
		copy_text(data, section, data->version, sizeof(data->version));
		return;
	case FEATURE_ARCHITECTURE:
		copy_text(data, section, text, sizeof(text));
		if (text[0] && strcmp(text, "x86_64") != 0)
			fail("%s: it is of %s, not of x86-64", data->path, text);
		return;
	case FEATURE_CPUS:
		if (section.size >= sizeof(data->cpus) && bytes_of(data, section))
			memcpy(&data->cpus, bytes_of(data, section), sizeof(data->cpus));
		return;
	case FEATURE_PROCESSOR:
		copy_text(data, section, data->processor, sizeof(data->processor));
		return;
	case FEATURE_CPUID:
		copy_text(data, section, text, sizeof(text));
		data->signature = signature_of(text);
		return;
	default:
		return;
	}
}

/* Their sections follow the records. */
static void read_features(struct perf_data *data, const struct file_header *header)
{
	uint64_t at = header->data.offset + header->data.size;

	for (unsigned feature = 0; feature < 256; feature++) {
		const uint8_t *bytes;
		struct section section;

		if (!(header->features[feature / 64] >> feature % 64 & 1))
			continue;
		bytes = bytes_of(data, (struct section){at, sizeof(section)});
		if (!bytes)
			return;
		memcpy(&section, bytes, sizeof(section));
		if (bytes_of(data, section))
			read_feature(data, feature, section);
		at += sizeof(section);
	}
}

struct perf_data *perf_read(const char *path, char *file, size_t size)
{
	struct perf_data *data = allocate(1, sizeof(*data));
	struct file_header header = {0};

	data->path = path;
	data->file = file;
	data->size = size;
	memcpy(&header, file, size < sizeof(header) ? size : sizeof(header));
	if (!memcmp(header.magic, swapped, sizeof(swapped)))
		fail("%s: it is of a machine of the other byte order, not of x86-64", path);
	if (size >= PIPE_HEADER_BYTES && header.size == PIPE_HEADER_BYTES)
		fail("%s: it is a stream of `perf record -o -`, not a file: `perf inject -i FILE -o OTHER` makes one",
		     path);
	if (size < sizeof(header) || header.size < sizeof(header))
		fail("%s: it ends within its header", path);
	read_attrs(data, &header);
	read_records(data, header.data);
	if (header.data.size)
		read_features(data, &header);
	return data;
}

void perf_free(struct perf_data *data)
{
	if (!data)
		return;
	free(data->file);
	free(data->items);
	free(data->build_ids);
	free(data->attrs);
	free(data->ids);
	free(data);
}
