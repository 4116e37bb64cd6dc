// SPDX-License-Identifier: MIT
// Draws each line of standard input as a QR code, side by side, and writes the picture as a PPM
// file to standard output. tests/runner/codes makes by it what tools/judge has to read or to
// refuse; the encoder is the kernel's.
#include "third_party/qrcodegen/qrcodegen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Modules of light margin around a code: ISO/IEC 18004, 6.3.8, has four at least. */
enum { PIXELS = 3, MARGIN = 6, MOST = 2, LONGEST = 4500 };

static uint8_t codes[MOST][qrcodegen_BUFFER_LEN_MAX];
static unsigned count;

static int width_of(const uint8_t *code)
{
	return qrcodegen_getSize(code) + 2 * MARGIN;
}

static void read_lines(void)
{
	static char line[LONGEST];
	static uint8_t work[qrcodegen_BUFFER_LEN_MAX];

	for (; fgets(line, sizeof(line), stdin); count++) {
		line[strcspn(line, "\n")] = '\0';
		if (count == MOST ||
		    !qrcodegen_encodeText(line, work, codes[count], qrcodegen_Ecc_LOW, 1, 40,
					  qrcodegen_Mask_AUTO, true)) {
			fprintf(stderr, "code_picture: too many lines, or one is too long\n");
			exit(2);
		}
	}
}

/* Outside a code qrcodegen_getModule() is false, as light as the margin. */
static void write_row(int y)
{
	for (unsigned n = 0; n < count; n++)
		for (int x = 0; x < width_of(codes[n]) * PIXELS; x++) {
			int level = qrcodegen_getModule(codes[n], x / PIXELS - MARGIN,
							y / PIXELS - MARGIN)
					    ? 0
					    : 255;

			for (int colour = 0; colour < 3; colour++)
				putchar(level);
		}
}

int main(void)
{
	int width = 0, height = 0;

	read_lines();
	for (unsigned n = 0; n < count; n++) {
		width += width_of(codes[n]);
		height = height > width_of(codes[n]) ? height : width_of(codes[n]);
	}
	printf("P6 %d %d 255\n", width * PIXELS, height * PIXELS);
	for (int y = 0; y < height * PIXELS; y++)
		write_row(y);
	return fflush(stdout) ? 2 : 0;
}
