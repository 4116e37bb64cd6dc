// SPDX-License-Identifier: MIT
// A sequence: a byte with two lengths, literal bytes, how far back the copy begins (two bytes). The
// last sequence ends with its literal bytes.
#include "lib/unpack.h"

#include "lib/string.h"

#include <stdint.h>

#define LONG	   15 /* a length that goes on in the bytes that follow */
#define LEAST_COPY 4

struct reader {
	const uint8_t *at, *end;
};

static size_t read_length(struct reader *in, size_t length)
{
	uint8_t more = 255;

	if (length < LONG)
		return length;
	while (more == 255 && in->at < in->end) {
		more = *in->at++;
		length += more;
	}
	return length;
}

size_t unpack(const void *packed, size_t size, void *to, size_t room)
{
	struct reader in = {packed, (const uint8_t *)packed + size};
	uint8_t *out = to;
	size_t used = 0;

	while (in.at < in.end) {
		uint8_t lengths = *in.at++;
		size_t count = read_length(&in, lengths >> 4), back;

		if (count > (size_t)(in.end - in.at) || count > room - used)
			return 0;
		memcpy(out + used, in.at, count);
		used += count;
		in.at += count;
		if (in.at == in.end)
			return used;
		if (in.end - in.at < 2)
			return 0;
		back = in.at[0] | (size_t)in.at[1] << 8;
		in.at += 2;
		count = read_length(&in, lengths & LONG) + LEAST_COPY;
		if (back == 0 || back > used || count > room - used)
			return 0;
		/* A copy that reaches into itself repeats its first `back` bytes. */
		for (size_t piece; count; count -= piece, used += piece) {
			piece = count < back ? count : back;
			memcpy(out + used, out + used - back, piece);
		}
	}
	return 0;
}
