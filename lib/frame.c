// SPDX-License-Identifier: MIT
#include "lib/frame.h"

#include "lib/string.h"

uint32_t crc32c(uint32_t crc, const void *bytes, size_t size)
{
	/* Of four bits at a time; the polynomial is 1EDC6F41H, reflected. */
	static const uint32_t table[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
		0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	const uint8_t *at = bytes;

	crc = ~crc;
	while (size--) {
		crc ^= *at++;
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

/* lz4_Block_format.md: "Parsing restrictions": how the block has to end. */
#define LEAST_MATCH   4
#define LAST_LITERALS 5
#define LAST_MATCH    12
#define LONG	      15

static uint32_t load32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static uint8_t *put_length(uint8_t *out, size_t length)
{
	if (length < LONG)
		return out;
	for (length -= LONG; length >= 255; length -= 255)
		*out++ = 255;
	*out++ = (uint8_t)length;
	return out;
}

/* A sequence: literals, and a copy of `match` bytes from `back` bytes before; 0: the last one. */
static uint8_t *put_sequence(uint8_t *out, const uint8_t *literals, size_t count, size_t match,
			     size_t back)
{
	uint8_t *token = out++;
	size_t more = match ? match - LEAST_MATCH : 0;

	*token = (uint8_t)((count < LONG ? count : LONG) << 4 | (more < LONG ? more : LONG));
	out = put_length(out, count);
	memcpy(out, literals, count);
	out += count;
	if (!match)
		return out;
	*out++ = (uint8_t)back;
	*out++ = (uint8_t)(back >> 8);
	return put_length(out, more);
}

/* Greedy: the place where the table saw these four bytes last, or none. */
size_t lz4_pack(const void *bytes, size_t size, void *block, uint16_t table[LZ4_TABLE])
{
	const uint8_t *in = bytes;
	uint8_t *out = block;
	size_t done = 0, at = 0, end = size > LAST_MATCH ? size - LAST_MATCH : 0;

	memset(table, 0, LZ4_TABLE * sizeof(*table));
	while (at < end) {
		uint16_t *seen = &table[load32(in + at) * 2654435761u >> 20];
		size_t match = LEAST_MATCH, before = *seen;

		*seen = (uint16_t)at;
		if (before >= at || load32(in + before) != load32(in + at)) {
			at++;
			continue;
		}
		while (at + match < size - LAST_LITERALS && in[before + match] == in[at + match])
			match++;
		out = put_sequence(out, in + done, at - done, match, at - before);
		done = at += match;
	}
	return (size_t)(put_sequence(out, in + done, size - done, 0, 0) - (uint8_t *)block);
}

/* Consistent Overhead Byte Stuffing: a code, then code - 1 bytes other than 0, and a 0 unless 255.
 */
struct cobs {
	struct frame_line *line;
	uint8_t used; /* bytes[0] is the code */
	uint8_t bytes[255];
};

static void cobs_put(struct cobs *cobs)
{
	cobs->bytes[0] = cobs->used;
	cobs->line->put(cobs->line->argument, cobs->bytes, cobs->used);
	cobs->used = 1;
}

static void cobs_add(struct cobs *cobs, const void *bytes, size_t size)
{
	for (const uint8_t *at = bytes; size--; at++) {
		if (*at)
			cobs->bytes[cobs->used++] = *at;
		if (!*at || cobs->used == 255)
			cobs_put(cobs);
	}
}

void frame_send(struct frame_line *line, struct trace_frame header, const void *payload,
		size_t size)
{
	struct cobs cobs = {.line = line, .used = 1};
	static const uint8_t delimiter = 0;
	uint32_t crc;

	header.version = TRACE_STREAM_VERSION;
	header.sequence = line->sequence++;
	crc = crc32c(crc32c(0, &header, sizeof(header)), payload, size);
	line->put(line->argument, &delimiter, 1);
	cobs_add(&cobs, &header, sizeof(header));
	cobs_add(&cobs, payload, size);
	cobs_add(&cobs, &crc, sizeof(crc));
	cobs_put(&cobs);
	line->put(line->argument, &delimiter, 1);
}

bool frame_item(uint8_t payload[TRACE_PAYLOAD_BYTES], size_t *used, unsigned tag, const void *bytes,
		size_t size)
{
	struct trace_item item = {(uint16_t)tag, (uint16_t)size};

	if (size > TRACE_PAYLOAD_BYTES - sizeof(item) ||
	    *used > TRACE_PAYLOAD_BYTES - sizeof(item) - size)
		return false;
	memcpy(payload + *used, &item, sizeof(item));
	if (size)
		memcpy(payload + *used + sizeof(item), bytes, size);
	*used += sizeof(item) + size;
	return true;
}

static void start_block(struct frame_block *block)
{
	block->header.encoding = TRACE_ENCODING_DELTA;
	block->header.count = block->header.stamps = 0;
	block->header.lost = 0;
	block->at = block->time = 0;
	block->stamped = 0;
	block->used = block->stamps_used = 0;
}

void frame_block_init(struct frame_block *block, uint32_t stream)
{
	memset(&block->header, 0, sizeof(block->header));
	memset(&block->total, 0, sizeof(block->total));
	block->header.type = TRACE_FRAME_BRANCHES;
	block->header.stream = block->total.stream = stream;
	start_block(block);
}

static uint64_t zigzag(uint64_t difference)
{
	return difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0);
}

#define VARINT_BYTES 10

/* Seven bits a byte, the lowest first; bit 7 says that more follow. */
static size_t put_varint(uint8_t *out, uint64_t value)
{
	size_t count = 0;

	for (; value >= 0x80; value >>= 7)
		out[count++] = (uint8_t)(value | 0x80);
	out[count++] = (uint8_t)value;
	return count;
}

static bool is_stamp(const struct trace_record *record)
{
	return record->from >= TRACE_STAMP && record->flags & TRACE_STAMP_FLAG;
}

/* Bit 63 of the source's difference would be lost to the bit for the prediction. */
static bool has_delta(const struct frame_block *block, const struct trace_record *record)
{
	return is_stamp(record) ||
	       (!(record->flags & ~TRACE_PREDICTED) && !(zigzag(record->from - block->at) >> 63));
}

static bool add_branch(struct frame_block *block, const struct trace_record *record)
{
	uint8_t *out = block->bytes + block->used;
	uint64_t predicted = record->flags / TRACE_PREDICTED;
	size_t count;

	if (sizeof(block->bytes) - block->used - block->stamps_used < 2 * VARINT_BYTES)
		return false;
	count = put_varint(out, zigzag(record->from - block->at) << 1 | predicted);
	block->used += count + put_varint(out + count, zigzag(record->to - record->from));
	block->at = record->to;
	return true;
}

/* Position, qualifier, value, pid and CPU; a time is the difference from the one before. */
static bool add_stamp(struct frame_block *block, const struct trace_record *record)
{
	uint64_t qualifier = record->from & ~TRACE_STAMP, pid_cpu = record->flags;
	uint8_t *out = block->stamps + block->stamps_used;

	if (sizeof(block->stamps) - block->stamps_used < 5 * VARINT_BYTES ||
	    sizeof(block->bytes) - block->used - block->stamps_used < 5 * VARINT_BYTES)
		return false;
	out += put_varint(out, (uint64_t)(block->header.count - block->stamped));
	out += put_varint(out, qualifier);
	out += put_varint(out, zigzag(record->to - block->time));
	out += put_varint(out, (uint32_t)pid_cpu);
	out += put_varint(out, (pid_cpu & ~TRACE_STAMP_FLAG) >> 32);
	block->time = record->to;
	block->stamped = block->header.count;
	block->stamps_used = (size_t)(out - block->stamps);
	block->header.stamps++;
	return true;
}

static bool add_raw(struct frame_block *block, const struct trace_record *record)
{
	if (sizeof(block->bytes) - block->used < sizeof(*record))
		return false;
	memcpy(block->bytes + block->used, record, sizeof(*record));
	block->used += sizeof(*record);
	block->header.stamps = (uint16_t)(block->header.stamps + is_stamp(record));
	return true;
}

/* A block has one encoding. A record that has no delta begins a raw block, which the next record
   that has one ends. */
bool frame_add(struct frame_line *line, struct frame_block *block,
	       const struct trace_record *record)
{
	enum trace_encoding encoding =
		line->raw || !has_delta(block, record) ? TRACE_ENCODING_RAW : TRACE_ENCODING_DELTA;
	bool added;

	if (block->header.count && block->header.encoding != encoding)
		return false;
	block->header.encoding = (uint8_t)encoding;
	if (encoding == TRACE_ENCODING_RAW)
		added = add_raw(block, record);
	else
		added = is_stamp(record) ? add_stamp(block, record) : add_branch(block, record);
	block->header.count = (uint16_t)(block->header.count + added);
	return added;
}

void frame_flush(struct frame_line *line, struct frame_block *block, unsigned cpu, uint64_t tsc)
{
	const uint8_t *payload = block->bytes;
	size_t size = block->used + block->stamps_used, packed;

	if (!block->header.count && !block->header.lost)
		return;
	memcpy(block->bytes + block->used, block->stamps, block->stamps_used);
	if (block->header.encoding == TRACE_ENCODING_DELTA) {
		packed = lz4_pack(block->bytes, size, line->packed, line->table);
		if (packed < size) {
			block->header.encoding = TRACE_ENCODING_DELTA_LZ4;
			payload = line->packed;
			size = packed;
		}
	}
	block->header.cpu = (uint8_t)cpu;
	block->header.tsc = tsc;
	block->header.index = block->total.records;
	frame_send(line, block->header, payload, size);
	block->total.records += block->header.count;
	block->total.lost += block->header.lost;
	block->total.frames++;
	start_block(block);
}
