// SPDX-License-Identifier: MIT
/* sources: tests/framework/random.c lib/frame.c tools/view/stream.c */
/* The sending side in lib/ against the receiving one in tools/view/; liblz4 judges the packer. */
#include "lib/frame.h"

#include "tests/framework/random.h"
#include "tests/host/host.h"
#include "tools/view/stream.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 1;

static uint64_t draw(uint64_t below)
{
	return random_below(&seed, below);
}

/* The line: what was sent, and where each frame begins. */
#define LINE_BYTES  (6u << 20)
#define MOST_FRAMES 20000

static uint8_t sent[LINE_BYTES];
static size_t sent_bytes, starts[MOST_FRAMES + 1];
static struct frame_line line;

static void put(void *argument, const uint8_t *bytes, size_t count)
{
	assert_true(count <= LINE_BYTES - sent_bytes);
	memcpy(sent + sent_bytes, bytes, count);
	sent_bytes += count;
}

static void start_line(bool raw)
{
	line.put = put;
	line.sequence = 0;
	line.raw = raw;
	sent_bytes = 0;
}

UNIT(the_checksum_is_crc32c)
{
	uint8_t bytes[32];

	/* RFC 3720, B.4 */
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
	assert_int_equal(crc32c(crc32c(0, bytes, 7), bytes + 7, 25), 0x46dd794e);
}

/* `kinds` different bytes, and repeats of what was there before. */
static void fill(uint8_t *bytes, size_t size, unsigned kinds)
{
	for (size_t at = 0; at < size; at++) {
		size_t back = 1 + draw(at + 1), count = draw(8) ? 0 : draw(300);

		bytes[at] = (uint8_t)draw(kinds);
		for (; count && at + 1 < size && back <= at; count--, at++)
			bytes[at + 1] = bytes[at + 1 - back];
	}
}

UNIT(liblz4_unpacks_every_block)
{
	static const unsigned kinds[] = {1, 2, 5, 256};
	static uint16_t table[LZ4_TABLE];
	size_t in_all = 0, packed_in_all = 0;

	for (unsigned i = 0; i < 4000; i++) {
		size_t size = i < 200 ? i : draw(i % 10 ? 2000 : 65536), packed;
		uint8_t *bytes = malloc(size + 1), *block = malloc(LZ4_ROOM(size));
		char *unpacked = malloc(size + 1);

		fill(bytes, size, kinds[i % 4]);
		packed = lz4_pack(bytes, size, block, table);
		assert_true(packed <= LZ4_ROOM(size));
		assert_int_equal(
			LZ4_decompress_safe((char *)block, unpacked, (int)packed, (int)size + 1),
			size);
		assert_memory_equal(unpacked, bytes, size);
		in_all += size;
		packed_in_all += packed;
		free(bytes);
		free(block);
		free(unpacked);
	}
	assert_true(packed_in_all < in_all / 2);
}

/* Records as of a program: a walk in a small graph, interrupts, stamps, and rarely anything. */
static struct trace_record next_record(uint64_t *at)
{
	struct trace_record record = {.flags = draw(30) ? TRACE_PREDICTED : 0};
	uint64_t way = draw(1000);

	record.from = *at + draw(40);
	record.to = 0x400000 + 64 * draw(500);
	if (way < 20)
		record.to = 0xffffffff80100000 + 32 * draw(50);
	if (way == 20)
		record = (struct trace_record){draw(UINT64_MAX) << draw(20), draw(UINT64_MAX) << 3,
					       draw(2) ? draw(UINT64_MAX) >> 2 : 0};
	if (way > 995)
		return (struct trace_record){TRACE_STAMP | (2 + draw(3)),
					     draw(UINT64_MAX) >> draw(40),
					     draw(1u << 31) | draw(256) << 32 | TRACE_STAMP_FLAG};
	*at = record.to;
	return record;
}

#define RECORDS 60000
#define STREAMS 3

static struct trace_record records[STREAMS][RECORDS], got[STREAMS][RECORDS];
static size_t got_count[STREAMS], frame_sizes[MOST_FRAMES];
static struct trace_total got_totals[STREAMS];

/* Sends all records, of three streams in turns. */
static void send_records(bool raw)
{
	static struct frame_block blocks[STREAMS];
	struct trace_total totals[STREAMS];
	struct trace_frame end = {.type = TRACE_FRAME_END, .count = STREAMS};

	start_line(raw);
	for (unsigned s = 0; s < STREAMS; s++)
		frame_block_init(&blocks[s], s);
	for (size_t i = 0; i < RECORDS; i++)
		for (unsigned s = 0; s < STREAMS; s++) {
			if (!draw(2000))
				frame_flush(&line, &blocks[s], s, i);
			if (!frame_add(&line, &blocks[s], &records[s][i])) {
				frame_flush(&line, &blocks[s], s, i);
				assert_true(frame_add(&line, &blocks[s], &records[s][i]));
			}
			if (!draw(5000))
				blocks[s].header.lost += 7;
		}
	for (unsigned s = 0; s < STREAMS; s++) {
		frame_flush(&line, &blocks[s], s, 0);
		totals[s] = blocks[s].total;
	}
	frame_send(&line, end, totals, sizeof(totals));
}

static void draw_records(void)
{
	for (unsigned s = 0; s < STREAMS; s++) {
		uint64_t at = 0x400000;

		for (size_t i = 0; i < RECORDS; i++)
			records[s][i] = next_record(&at);
	}
	memset(got_count, 0, sizeof(got_count));
	memset(got_totals, 0, sizeof(got_totals));
}

static void take_records(void *argument, const struct trace_frame *header, const uint8_t *payload,
			 size_t size, const uint8_t *bytes, size_t line_size)
{
	static struct trace_record decoded[STREAM_RECORDS];
	size_t count, *so_far = &got_count[header->stream % STREAMS];

	if (header->type == TRACE_FRAME_END) {
		assert_int_equal(size, sizeof(got_totals));
		assert_memory_equal(payload, got_totals, size);
		return;
	}
	assert_int_equal(header->type, TRACE_FRAME_BRANCHES);
	assert_true(header->stream < STREAMS);
	assert_int_equal(header->index, *so_far);
	assert_null(stream_records(header, payload, size, decoded, &count));
	assert_true(count <= RECORDS - *so_far);
	memcpy(&got[header->stream][*so_far], decoded, count * sizeof(*decoded));
	*so_far += count;
	got_totals[header->stream].stream = header->stream;
	got_totals[header->stream].frames++;
	got_totals[header->stream].records += count;
	got_totals[header->stream].lost += header->lost;
}

static struct receiver receiver;

static void receive(void)
{
	receiver_init(&receiver);
	receiver.frame = take_records;
	for (size_t at = 0, count; at < sent_bytes; at += count) {
		count = 1 + draw(5000);
		count = count < sent_bytes - at ? count : sent_bytes - at;
		receiver_feed(&receiver, sent + at, count);
	}
	receiver_end(&receiver);
}

UNIT(all_records_come_back)
{
	for (unsigned turn = 0; turn < 4; turn++) {
		draw_records();
		send_records(turn & 1);
		receive();
		assert_int_equal(receiver.received.frames, line.sequence);
		assert_int_equal(receiver.received.damaged, 0);
		assert_int_equal(receiver.received.missing, 0);
		assert_memory_equal(got, records, sizeof(records));
		assert_true(got_totals[0].lost && got_totals[1].lost);
		if (!(turn & 1))
			assert_true(sent_bytes < sizeof(records) / 4);
	}
}

/* A loop of one branch: less than a fifth of a byte each. */
UNIT(a_loop_takes_next_to_nothing)
{
	static struct frame_block block;
	struct trace_record record = {0x401234, 0x401200, TRACE_PREDICTED};

	start_line(false);
	frame_block_init(&block, 0);
	for (unsigned i = 0; i < 100000; i++) {
		if (frame_add(&line, &block, &record))
			continue;
		frame_flush(&line, &block, 0, 0);
		assert_true(frame_add(&line, &block, &record));
	}
	frame_flush(&line, &block, 0, 0);
	assert_int_equal(block.total.records, 100000);
	assert_true(sent_bytes < 20000);
}

static uint8_t text_got[LINE_BYTES];
static size_t text_bytes;

static void take_text(void *argument, const uint8_t *bytes, size_t count)
{
	memcpy(text_got + text_bytes, bytes, count);
	text_bytes += count;
}

static void ignore_frame(void *argument, const struct trace_frame *header, const uint8_t *payload,
			 size_t size, const uint8_t *bytes, size_t line_size)
{
	frame_sizes[header->sequence] = size;
}

UNIT(text_and_frames_share_a_line)
{
	static uint8_t said[LINE_BYTES], payload[TRACE_PAYLOAD_BYTES];
	size_t said_bytes = 0;

	start_line(false);
	for (unsigned i = 0; i < 300; i++) {
		size_t size = draw(3) ? draw(600) : draw(TRACE_PAYLOAD_BYTES + 1);
		size_t words = draw(4) ? draw(100) : draw(40000);

		for (size_t at = 0; at < words; at++) {
			uint8_t byte = (uint8_t)(draw(20) ? ' ' + draw(95) : '\n');

			said[said_bytes++] = byte;
			put(NULL, &byte, 1);
		}
		for (size_t at = 0; at < size; at++)
			payload[at] = (uint8_t)(draw(3) ? draw(256) : 0);
		frame_send(&line, (struct trace_frame){.type = 200}, payload, size);
		frame_sizes[i] = ~size;
	}
	text_bytes = 0;
	receiver_init(&receiver);
	receiver.frame = ignore_frame;
	receiver.text = take_text;
	receiver_feed(&receiver, sent, sent_bytes);
	receiver_end(&receiver);
	assert_int_equal(receiver.received.frames, 300);
	assert_int_equal(receiver.received.damaged, 0);
	assert_int_equal(text_bytes, said_bytes);
	assert_memory_equal(text_got, said, said_bytes);
}

/* Of what is received on a bad line: each frame is one that was sent. */
static uint64_t accepted, next_accepted;

static void compare_frame(void *argument, const struct trace_frame *header, const uint8_t *payload,
			  size_t size, const uint8_t *bytes, size_t line_size)
{
	size_t start;

	assert_true(header->sequence < line.sequence && header->sequence >= next_accepted);
	next_accepted = header->sequence + 1;
	start = starts[header->sequence];
	assert_int_equal(line_size, starts[header->sequence + 1] - start - 2);
	assert_memory_equal(bytes, sent + start + 1, line_size);
	accepted++;
}

/* Copies the line, of a million bytes `rate` wrong; returns how many bytes were. */
static unsigned damage(uint8_t *to, size_t *count, unsigned rate)
{
	unsigned errors = 0;

	*count = 0;
	for (size_t at = 0; at < sent_bytes; at++) {
		uint64_t way = draw(1000000) < rate ? draw(10) : 10;

		errors += way < 10;
		if (way < 2)
			to[(*count)++] = (uint8_t)draw(256); /* and this one too */
		if (way < 2 || way >= 6)
			to[(*count)++] =
				(uint8_t)(sent[at] ^ (way >= 6 && way < 10 ? 1 + draw(255) : 0));
	}
	return errors;
}

UNIT(no_line_error_passes)
{
	static uint8_t bad[2 * LINE_BYTES];
	static const unsigned rates[] = {1, 10, 100};
	size_t frames = 0;

	draw_records();
	send_records(false);
	for (size_t at = 0; at < sent_bytes; at++)
		if (!sent[at] && (frames == 0 || !sent[at - 1]))
			starts[frames++] = at;
	assert_int_equal(frames, line.sequence);
	starts[frames] = sent_bytes;
	for (unsigned r = 0; r < 3; r++) {
		unsigned errors = 0;

		while (errors < 4 * (r + 1)) {
			size_t count;
			unsigned here = damage(bad, &count, rates[r]);

			errors += here;
			accepted = next_accepted = 0;
			receiver_init(&receiver);
			receiver.frame = compare_frame;
			receiver_feed(&receiver, bad, count);
			receiver_end(&receiver);
			assert_int_equal(receiver.received.backward, 0);
			/* What is missing at the end lacks the frame END. */
			assert_int_equal(accepted + receiver.received.missing, next_accepted);
			assert_true(accepted + 2 * here >= frames);
			assert_true(accepted <= frames);
			if (!here)
				assert_int_equal(accepted, frames);
		}
	}
}

/* Frames with a right checksum and wrong contents: a sentence, or records, and no access outside.
 */
UNIT(wrong_frames_are_refused)
{
	static struct trace_record decoded[STREAM_RECORDS];
	unsigned refused = 0, taken = 0;

	for (unsigned i = 0; i < 30000; i++) {
		struct trace_frame header = {.encoding = (uint8_t)draw(4),
					     .count = (uint16_t)draw(draw(2) ? 20 : 65536),
					     .stamps = (uint16_t)(draw(2) ? 0 : draw(10))};
		size_t size = draw(2) ? draw(100) : header.count * 24 % TRACE_PAYLOAD_BYTES, count;
		uint8_t *payload = malloc(size + 1);

		for (size_t at = 0; at < size; at++)
			payload[at] = (uint8_t)(draw(2) ? draw(256) : draw(16));
		if (stream_records(&header, payload, size, decoded, &count))
			refused++;
		else
			taken++;
		free(payload);
	}
	assert_true(refused > 1000 && taken > 10);
}

/* Decodes a branch of two bytes (from 1 to 2) and a stamp of five. */
static const char *decode_stamp(unsigned stamps, uint8_t skip, uint8_t qualifier, size_t size,
				struct trace_record *decoded)
{
	struct trace_frame header = {
		.encoding = TRACE_ENCODING_DELTA, .count = 2, .stamps = (uint16_t)stamps};
	uint8_t bytes[] = {4, 2, skip, qualifier, 20, 7, 1, 0};
	size_t count;

	return stream_records(&header, bytes, size, decoded, &count);
}

UNIT(a_stamp_has_a_place_in_its_frame)
{
	static struct trace_record decoded[STREAM_RECORDS];

	for (uint8_t skip = 0; skip < 2; skip++) {
		assert_null(decode_stamp(1, skip, 2, 7, decoded));
		assert_int_equal(decoded[skip].from, TRACE_STAMP | 2);
		assert_int_equal(decoded[skip].to, 10);
		assert_int_equal(decoded[skip].flags, 7 | 1ull << 32 | TRACE_STAMP_FLAG);
		assert_int_equal(decoded[1 - skip].from, 1);
		assert_int_equal(decoded[1 - skip].to, 2);
	}
	assert_non_null(decode_stamp(1, 2, 2, 7, decoded));
	assert_non_null(decode_stamp(1, 0, 16, 7, decoded));
	assert_non_null(decode_stamp(1, 0, 2, 8, decoded));
	assert_non_null(decode_stamp(1, 0, 2, 6, decoded));
	assert_non_null(decode_stamp(3, 0, 2, 7, decoded));
}

UNIT(items_are_found)
{
	static uint8_t payload[TRACE_PAYLOAD_BYTES];
	size_t used = 0, size;

	assert_true(frame_item(payload, &used, TRACE_ITEM_NAME, "spoor.elf", 9));
	assert_true(frame_item(payload, &used, 77, NULL, 0));
	assert_true(frame_item(payload, &used, TRACE_ITEM_VERSION, "0.1", 3));
	assert_memory_equal(stream_item(payload, used, TRACE_ITEM_VERSION, &size), "0.1", 3);
	assert_int_equal(size, 3);
	assert_non_null(stream_item(payload, used, 77, &size));
	assert_int_equal(size, 0);
	assert_null(stream_item(payload, used, TRACE_ITEM_CPUS, &size));
	assert_null(stream_item(payload, used - 1, TRACE_ITEM_VERSION, &size));
	assert_false(frame_item(payload, &used, 1, payload, TRACE_PAYLOAD_BYTES - used - 3));
	assert_true(frame_item(payload, &used, 1, sent, TRACE_PAYLOAD_BYTES - used - 4));
	assert_int_equal(used, TRACE_PAYLOAD_BYTES);
}
