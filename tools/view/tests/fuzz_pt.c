// SPDX-License-Identifier: MIT
/*
 * For libFuzzer: bytes as packets of Processor Trace, for both of libipt's decoders, with the code
 * of the program that $FUZZ_CODE names. The first byte says into how many frames they are cut, and
 * whether one is missing.
 */
#include "tools/view/pt.h"
#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>

static const struct code *code(void)
{
	static struct code *opened;
	char error[256] = "$FUZZ_CODE does not name a program";
	const char *path = getenv("FUZZ_CODE");

	if (!opened && path)
		opened = code_open(path, error, sizeof(error));
	if (!opened)
		fail("%s", error);
	return opened;
}

static void take(struct trace *trace, const uint8_t *bytes, size_t size, unsigned how)
{
	size_t frame = 1 + size / (1 + how % 8), at = 0;

	for (unsigned n = 0; at < size; n++) {
		size_t count = size - at < frame ? size - at : frame;
		const struct trace_frame header = {.type = TRACE_FRAME_PACKETS,
						   .stream = TRACE_STREAM_CPU | TRACE_STREAM_PT,
						   .index = at,
						   .lost = how >> 7 && n == 1};

		if (!(how >> 6 & 1 && n == 2))
			trace_take(trace, &header, bytes + at, count, count);
		at += count;
	}
}

/* Reads each record. */
static uint64_t read_all(const struct trace_stream *stream, enum pt_decoder decoder)
{
	struct pt_decoded decoded = pt_decode(stream, decoder);
	uint64_t sum = decoded.instructions;

	for (size_t i = 0; i < decoded.count; i++)
		sum += decoded.records[i].from ^ decoded.records[i].to;
	if (decoded.errors && !decoded.error)
		abort();
	free(decoded.records);
	return sum;
}

static uint64_t sum;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct trace *trace = allocate(1, sizeof(*trace));
	struct trace_stream *stream;

	if (size > 1)
		take(trace, bytes + 1, size - 1, bytes[0]);
	stream = trace_stream(trace, TRACE_STREAM_CPU | TRACE_STREAM_PT);
	stream->space.program = code();
	sum += read_all(stream, PT_INSTRUCTIONS);
	sum += read_all(stream, PT_BLOCKS);
	trace_free(trace);
	return 0;
}
