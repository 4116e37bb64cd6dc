// SPDX-License-Identifier: MIT
#include "tools/view/stream.h"

#include "lib/frame.h"

#include <lz4.h>
#include <string.h>

void receiver_init(struct receiver *receiver)
{
	memset(receiver, 0, sizeof(*receiver));
}

/* Undoes COBS; 0: what is there is no COBS. */
static size_t unstuff(const uint8_t *in, size_t size, uint8_t *out)
{
	size_t used = 0;

	for (size_t at = 0; at < size;) {
		size_t code = in[at++];

		if (code == 0 || code - 1 > size - at)
			return 0;
		memcpy(out + used, in + at, code - 1);
		used += code - 1;
		at += code - 1;
		if (code != 255 && at < size)
			out[used++] = 0;
	}
	return used;
}

static bool is_text(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i] < ' ' && !strchr("\t\n\r\f\033\b\a", bytes[i]))
			return false;
	return true;
}

static void accept_frame(struct receiver *receiver, const struct trace_frame *header, size_t size)
{
	struct stream_received *received = &receiver->received;
	uint32_t missing = header->sequence - receiver->next_sequence;

	if (missing >> 31)
		received->backward++;
	else
		received->missing += missing;
	receiver->next_sequence = header->sequence + 1;
	received->frames++;
	if (header->version != TRACE_STREAM_VERSION)
		received->foreign++;
	else
		receiver->frame(receiver->argument, header, receiver->decoded + sizeof(*header),
				size - sizeof(*header) - sizeof(uint32_t), receiver->bytes,
				receiver->used);
}

/* False: the bytes are no frame. */
static bool take_frame(struct receiver *receiver)
{
	struct trace_frame header;
	size_t size = unstuff(receiver->bytes, receiver->used, receiver->decoded);
	uint32_t crc;

	if (size < sizeof(header) + sizeof(crc) || size > STREAM_FRAME_BYTES)
		return false;
	memcpy(&header, receiver->decoded, sizeof(header));
	memcpy(&crc, receiver->decoded + size - sizeof(crc), sizeof(crc));
	if (crc != crc32c(0, receiver->decoded, size - sizeof(crc)))
		return false;
	accept_frame(receiver, &header, size);
	return true;
}

static void give_text(struct receiver *receiver)
{
	receiver->received.text_bytes += receiver->used;
	if (receiver->text)
		receiver->text(receiver->argument, receiver->bytes, receiver->used);
}

/* What is between two zeros, or before the first, or after the last. */
static void take_chunk(struct receiver *receiver)
{
	if (receiver->used && !receiver->overlong && take_frame(receiver)) {
		/* It was one. */
	} else if (receiver->used && is_text(receiver->bytes, receiver->used)) {
		give_text(receiver);
	} else if (receiver->used || receiver->overlong) {
		receiver->received.damaged++;
	}
	receiver->used = 0;
	receiver->overlong = false;
}

/* More than a frame can be: text goes on, anything else is noise up to the next 0. */
static void overflow(struct receiver *receiver)
{
	if (is_text(receiver->bytes, receiver->used))
		give_text(receiver);
	else
		receiver->overlong = true;
	receiver->used = 0;
}

void receiver_feed(struct receiver *receiver, const uint8_t *bytes, size_t count)
{
	receiver->received.line_bytes += count;
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] == 0) {
			take_chunk(receiver);
			continue;
		}
		if (receiver->used == sizeof(receiver->bytes))
			overflow(receiver);
		receiver->bytes[receiver->used++] = bytes[i];
	}
}

void receiver_end(struct receiver *receiver)
{
	take_chunk(receiver);
}

const uint8_t *stream_item(const uint8_t *payload, size_t size, unsigned tag, size_t *item_size)
{
	struct trace_item item;

	for (size_t at = 0; size - at >= sizeof(item); at += item.size) {
		memcpy(&item, payload + at, sizeof(item));
		at += sizeof(item);
		if (item.size > size - at)
			return NULL;
		if (item.tag == tag) {
			*item_size = item.size;
			return payload + at;
		}
	}
	return NULL;
}

struct varints {
	const uint8_t *at, *end;
	bool wrong;
};

static uint64_t get_varint(struct varints *in)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
		value |= (uint64_t)(*in->at & 0x7f) << shift;
		if (!(*in->at++ & 0x80))
			return value;
	}
	in->wrong = true;
	return 0;
}

static uint64_t unzigzag(uint64_t value)
{
	return value >> 1 ^ (value & 1 ? UINT64_MAX : 0);
}

static void get_branches(struct varints *in, struct trace_record *records, size_t count)
{
	uint64_t at = 0;

	for (size_t i = 0; i < count && !in->wrong; i++) {
		uint64_t first = get_varint(in);

		records[i].from = at + unzigzag(first >> 1);
		records[i].to = at = records[i].from + unzigzag(get_varint(in));
		records[i].flags = first & 1 ? TRACE_PREDICTED : 0;
	}
}

struct stamp {
	size_t position; /* of all records */
	struct trace_record record;
};

/* False: one is out of place. */
static bool get_stamp(struct varints *in, struct stamp *stamp, size_t count)
{
	uint64_t skip = get_varint(in), qualifier = get_varint(in), pid, cpu;

	stamp->record.to += unzigzag(get_varint(in));
	pid = get_varint(in);
	cpu = get_varint(in);
	if (in->wrong || skip >= count - stamp->position || qualifier > 15 || pid >> 32 ||
	    cpu >= TRACE_CPUS_MOST)
		return false;
	stamp->position += skip;
	stamp->record.from = TRACE_STAMP | qualifier;
	stamp->record.flags = pid | cpu << 32 | TRACE_STAMP_FLAG;
	return true;
}

/* The branches of `records` make room for the stamps that follow in `in`. */
static const char *merge_stamps(struct varints *in, struct trace_record *records,
				const struct trace_frame *header)
{
	static struct trace_record merged[STREAM_RECORDS];
	struct stamp stamp = {0};
	size_t branches = 0, used = 0;

	for (unsigned i = 0; i < header->stamps; i++) {
		size_t before = stamp.position;

		if (!get_stamp(in, &stamp, header->count) || (i && stamp.position == before))
			return "a stamp is not at a place of its frame";
		while (used < stamp.position)
			merged[used++] = records[branches++];
		merged[used++] = stamp.record;
	}
	while (used < header->count)
		merged[used++] = records[branches++];
	memcpy(records, merged, used * sizeof(*merged));
	return NULL;
}

static const char *get_deltas(const struct trace_frame *header, const uint8_t *payload, size_t size,
			      struct trace_record *records)
{
	struct varints in = {payload, payload + size, false};
	const char *wrong;

	if (header->stamps > header->count)
		return "a frame has more stamps than records";
	get_branches(&in, records, (size_t)(header->count - header->stamps));
	if (in.wrong)
		return "a frame has fewer branches than it says";
	wrong = merge_stamps(&in, records, header);
	return wrong ? wrong : in.at != in.end ? "a frame has more bytes than its records" : NULL;
}

/* Whether all stamps are of CPUs that a machine can have. */
static bool has_cpus(const struct trace_record *records, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (record_is_stamp(&records[i]) &&
		    (records[i].flags & ~TRACE_STAMP_FLAG) >> 32 >= TRACE_CPUS_MOST)
			return false;
	return true;
}

const char *stream_records(const struct trace_frame *header, const uint8_t *payload, size_t size,
			   struct trace_record *records, size_t *count)
{
	static char unpacked[TRACE_PAYLOAD_BYTES];
	int unpacked_size;

	*count = header->count;
	if (header->count > STREAM_RECORDS)
		return "a frame has more records than it can have";
	switch (header->encoding) {
	case TRACE_ENCODING_RAW:
		if (size != header->count * sizeof(*records))
			return "a frame has another number of records than it says";
		memcpy(records, payload, size);
		return has_cpus(records, *count) ? NULL : "a stamp has a CPU that no machine has";
	case TRACE_ENCODING_DELTA:
		return get_deltas(header, payload, size, records);
	case TRACE_ENCODING_DELTA_LZ4:
		unpacked_size = LZ4_decompress_safe((const char *)payload, unpacked, (int)size,
						    sizeof(unpacked));
		if (unpacked_size < 0)
			return "a frame is no LZ4 block";
		return get_deltas(header, (uint8_t *)unpacked, (size_t)unpacked_size, records);
	default:
		return "a frame has an encoding that this program does not know";
	}
}

/* crc32c() by the processor's instruction: half the time of a `view dump` was that of the table. */
__attribute__((target("sse4.2"))) static uint32_t
sum_fast(uint32_t sum, const struct trace_record *records, size_t count)
{
	uint64_t crc = ~sum;

	for (size_t i = 0; i < count; i++) {
		crc = __builtin_ia32_crc32di(crc, records[i].from);
		crc = __builtin_ia32_crc32di(crc, records[i].to);
		crc = __builtin_ia32_crc32di(crc, records[i].flags);
	}
	return ~(uint32_t)crc;
}

uint32_t stream_sum(uint32_t sum, const struct trace_record *records, size_t count)
{
	if (__builtin_cpu_supports("sse4.2"))
		return sum_fast(sum, records, count);
	return crc32c(sum, records, count * sizeof(*records));
}

size_t stream_sample_size(const struct trace_frame *header, size_t size)
{
	size_t each = header->count ? size / header->count : 0;

	if (header->encoding > TRACE_SAMPLES_CALLS || each < sizeof(struct ptrace_pebs_sample) ||
	    each * header->count != size ||
	    (each - sizeof(struct ptrace_pebs_sample)) % sizeof(struct ptrace_pebs_branch))
		return 0;
	return each;
}
