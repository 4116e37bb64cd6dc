// SPDX-License-Identifier: MIT
/*
 * test_pt TRACE.spt PROGRAM: what `view` makes of packets that are not as they were written: each
 * of 400 with one bit flipped, cut, without a PSBEND, with other code. TRACE.spt is of one_run,
 * which test pt.sh has compared with BTS. Prints TAP.
 */
#include "tools/view/pt.h"
#include "tools/view/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLIPS = 400, LEAST = 380, PSBEND_BYTES = 2, FEWEST = 1000 };

static struct trace_stream *stream;
static struct pt_decoded good;
static unsigned tests, failed;

static void result(bool well, const char *claim)
{
	printf("%sok %u - pt: %s\n", well ? "" : "not ", ++tests, claim);
	failed += !well;
}

/* Whether the packets as they are now decode to something else. */
static bool is_noticed(enum pt_decoder decoder)
{
	struct pt_decoded now = pt_decode(stream, decoder);
	bool noticed = now.errors || now.count != good.count ||
		       now.instructions != good.instructions ||
		       memcmp(now.records, good.records, good.count * sizeof(*good.records)) != 0;

	free(now.records);
	return noticed;
}

/* The byte at `at` of all packets. */
static uint8_t *byte_of(uint64_t at)
{
	size_t part = 0;

	while (at >= stream->packets.part[part].size)
		at -= stream->packets.part[part++].size;
	return (uint8_t *)stream->packets.part[part].payload + at;
}

static unsigned count_noticed_flips(enum pt_decoder decoder)
{
	uint64_t seed = 14;
	unsigned noticed = 0;

	for (unsigned n = 0; n < FLIPS; n++) {
		uint8_t *byte, bit;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		byte = byte_of((seed >> 33) % stream->taken.records);
		bit = (uint8_t)(1u << (seed >> 30 & 7));
		*byte ^= bit;
		noticed += is_noticed(decoder);
		*byte ^= bit;
	}
	return noticed;
}

/* The first PSBEND becomes padding. */
static bool is_psbend_missed(void)
{
	for (uint64_t at = 0; at + 1 < stream->taken.records; at++)
		if (*byte_of(at) == 0x02 && *byte_of(at + 1) == 0x23) {
			bool noticed;

			*byte_of(at) = *byte_of(at + 1) = 0;
			noticed = is_noticed(PT_INSTRUCTIONS);
			*byte_of(at) = 0x02;
			*byte_of(at + 1) = 0x23;
			return noticed;
		}
	return false;
}

static bool is_cut_missed(void)
{
	struct trace_part *last = &stream->packets.part[stream->packets.count - 1];
	size_t size = last->size;
	bool noticed;

	last->size /= 2;
	noticed = is_noticed(PT_BLOCKS);
	last->size = size;
	return noticed;
}

static bool is_code_missed(void)
{
	struct space space = stream->space;
	bool noticed;

	stream->space = (struct space){0};
	noticed = is_noticed(PT_INSTRUCTIONS) && is_noticed(PT_BLOCKS);
	stream->space = space;
	return noticed;
}

int main(int argc, char **argv)
{
	struct trace *trace;
	unsigned by_instructions, by_blocks;

	if (argc != 3)
		fail("usage: test_pt TRACE.spt PROGRAM");
	trace = trace_load(argv[1], false);
	trace_open_code(trace, argv[2], argv[2], ".");
	stream = trace_stream(trace, TRACE_STREAM_CPU | TRACE_STREAM_PT);
	good = pt_decode(stream, PT_INSTRUCTIONS);
	puts("1..5");
	result(good.instructions > FEWEST && !good.errors && !is_noticed(PT_BLOCKS),
	       "both decoders find the same in good packets");
	by_instructions = count_noticed_flips(PT_INSTRUCTIONS);
	by_blocks = count_noticed_flips(PT_BLOCKS);
	printf("# noticed of %u flipped bits: %u by instructions, %u by blocks\n", FLIPS,
	       by_instructions, by_blocks);
	result(by_instructions >= LEAST && by_blocks >= LEAST,
	       "one flipped bit is noticed, 95 times of 100");
	result(is_psbend_missed(), "a PSBEND that is not there is noticed");
	result(is_cut_missed(), "packets that are cut are noticed");
	result(is_code_missed(), "code that is not there is noticed");
	free(good.records);
	trace_free(trace);
	return failed > 0;
}
