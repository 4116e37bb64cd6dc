// SPDX-License-Identifier: MIT
// What a page has inside: gzip in base64, and strings of JSON.
#define _GNU_SOURCE
#include "tools/view/packed.h"

#include "tools/view/view.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct packed {
	FILE *page;
	z_stream gzip;
	uint8_t bytes[3 << 14]; /* packed, not in the page yet */
};

static void put_base64(FILE *page, const uint8_t *bytes, size_t count)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < count; i += 3) {
		uint32_t three = (uint32_t)bytes[i] << 16;
		char four[4];

		three |= i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0;
		three |= i + 2 < count ? bytes[i + 2] : 0;
		for (unsigned at = 0; at < 4; at++)
			four[at] = i + at > count ? '=' : digits[three >> (18 - 6 * at) & 63];
		fwrite(four, 1, sizeof(four), page);
	}
}

static void pack(struct packed *packed, int flush)
{
	int code;

	do {
		code = deflate(&packed->gzip, flush);
		if (packed->gzip.avail_out && code != Z_STREAM_END)
			return;
		put_base64(packed->page, packed->bytes,
			   sizeof(packed->bytes) - packed->gzip.avail_out);
		packed->gzip.next_out = packed->bytes;
		packed->gzip.avail_out = sizeof(packed->bytes);
	} while (code != Z_STREAM_END);
}

static ssize_t write_packed(void *cookie, const char *bytes, size_t count)
{
	struct packed *packed = cookie;

	packed->gzip.next_in = (uint8_t *)bytes;
	packed->gzip.avail_in = (unsigned)count;
	pack(packed, Z_NO_FLUSH);
	return (ssize_t)count;
}

static int close_packed(void *cookie)
{
	struct packed *packed = cookie;

	pack(packed, Z_FINISH);
	deflateEnd(&packed->gzip);
	free(packed);
	return 0;
}

FILE *packed_open(FILE *page)
{
	struct packed *packed = allocate(1, sizeof(*packed));
	FILE *file = fopencookie(
		packed, "w", (cookie_io_functions_t){.write = write_packed, .close = close_packed});

	packed->page = page;
	packed->gzip.next_out = packed->bytes;
	packed->gzip.avail_out = sizeof(packed->bytes);
	if (!file || deflateInit2(&packed->gzip, 6, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY))
		fail("no memory to pack the page");
	return file;
}

void packed_string(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || strchr("\"\\<>&\x7f", *text))
			fprintf(to, "\\u%04x", (unsigned char)*text);
		else
			fputc(*text, to);
	fputc('"', to);
}
