// SPDX-License-Identifier: MIT
/* sources: drivers/console/screen.c lib/string.c */
#include "drivers/console/screen.h"

#include "tests/host/host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A glyph is the character's own bits, in rows 3 to 12; a blank has none. */
#define GLYPH(c) [c - FONT_FIRST] = {0, 0, 0, c, c, c, c, c, c, c, c, c, c}
const uint8_t font[FONT_LAST - FONT_FIRST + 1][FONT_HEIGHT] = {
	GLYPH('?'), GLYPH('A'), GLYPH('B'), GLYPH('C'), GLYPH('F'), GLYPH('I'),
	GLYPH('L'), GLYPH('P'), GLYPH('S'), GLYPH('T'), GLYPH('a'), GLYPH('z')};

enum { FIRST_ROW = 3, LETTER_ROWS = 10 };

static struct boot_framebuffer fb;
static uint8_t *pixels, text[0x1000], mode;
static uint64_t out_of_reach; /* an address that memory() does not map */
static const char *fault;

static const void *memory(uint64_t physical, uint64_t bytes)
{
	if (physical == 0x449)
		return &mode;
	if (physical == 0xb8000)
		return text;
	assert_int_equal(physical, fb.address);
	assert_int_equal(bytes, (uint64_t)fb.pitch * fb.height);
	return physical == out_of_reach ? NULL : pixels;
}

static int reset(void **state)
{
	free(pixels);
	pixels = NULL;
	memset(text, 0, sizeof(text));
	mode = 3;
	out_of_reach = 0;
	return 0;
}

static bool open_rgb(uint32_t width, uint32_t height, uint8_t bits, uint32_t pitch)
{
	fb = (struct boot_framebuffer){0xfd000000, pitch,   width,  height, bits,
				       1,	   {16, 8}, {8, 8}, {0, 8}};
	if (bits < 24)
		fb.red.position = 11, fb.green.position = 5, fb.red.size = fb.blue.size = 5,
		fb.green.size = 6;
	if (bits == 15)
		fb.red.position = 10, fb.green.size = 5;
	reset(NULL);
	/* Exactly as large as it says: ASan sees a pixel outside. */
	pixels = calloc(height ? height : 1, pitch);
	return screen_open(&fb, memory, &fault);
}

static uint32_t pixel(unsigned x, unsigned y)
{
	uint32_t value = 0;

	memcpy(&value, pixels + (size_t)y * fb.pitch + x * ((fb.bits + 7u) / 8),
	       (fb.bits + 7u) / 8);
	return value;
}

/* The colour of a character's own bits at a cell: each of its pixels has to be that, or black. */
static void expect_glyph(unsigned left, unsigned top, unsigned scale, char c, uint32_t ink)
{
	for (unsigned y = 0; y < FONT_HEIGHT * scale; y++)
		for (unsigned x = 0; x < FONT_WIDTH * scale; x++) {
			uint8_t bits = font[c - FONT_FIRST][y / scale];
			uint32_t expected = bits << x / scale & 0x80 ? ink : 0;

			assert_int_equal(pixel(left + x, top + y), expected);
		}
}

UNIT(draws_in_every_depth_and_pitch, .teardown_func = reset)
{
	static const struct {
		uint32_t width, height, pitch;
		uint8_t bits;
		unsigned scale, left, top;
		uint32_t grey;
	} cases[] = {
		{640, 480, 2560, 32, 1, 0, 0, 0xaaaaaa},
		{643, 485, 2572, 32, 1, 1, 2, 0xaaaaaa},
		{640, 480, 2561, 32, 1, 0, 0, 0xaaaaaa},
		{1280, 800, 5120, 32, 2, 0, 0, 0xaaaaaa},
		{1920, 1080, 7680, 32, 2, 0, 12, 0xaaaaaa},
		{800, 600, 2401, 24, 1, 0, 4, 0xaaaaaa},
		{1024, 768, 2051, 16, 1, 0, 0, 21 << 11 | 42 << 5 | 21},
		{1024, 768, 2048, 15, 1, 0, 0, 21 << 10 | 21 << 5 | 21},
		{320, 200, 1280, 32, 1, 0, 4, 0xaaaaaa},
		{7680, 4320, 7680 * 4, 32, 10, 0, 0, 0xaaaaaa},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(
			open_rgb(cases[i].width, cases[i].height, cases[i].bits, cases[i].pitch));
		screen_write("\nAz", SCREEN_GREY);
		/* The log begins in row 2. */
		expect_glyph(cases[i].left, cases[i].top + 3 * FONT_HEIGHT * cases[i].scale,
			     cases[i].scale, 'A', cases[i].grey);
		expect_glyph(cases[i].left + FONT_WIDTH * cases[i].scale,
			     cases[i].top + 3 * FONT_HEIGHT * cases[i].scale, cases[i].scale, 'z',
			     cases[i].grey);
		screen_verdict("PASS", SCREEN_GREEN, (const char *[]){"", "A", "z"});
		screen_clear();
		for (unsigned y = 0; y < fb.height; y++)
			for (unsigned x = 0; x < fb.width; x++)
				assert_int_equal(pixel(x, y), 0);
	}
}

UNIT(refuses_what_it_cannot_draw_on, .teardown_func = reset)
{
	assert_false(open_rgb(640, 480, 8, 640));
	assert_string_equal(fault, "this framebuffer is not RGB of 15 to 32 bits a pixel");
	assert_false(open_rgb(640, 480, 33, 4000));
	assert_non_null(fault);
	assert_false(open_rgb(640, 480, 32, 2559));
	assert_string_equal(fault, "this framebuffer has an impossible pitch");
	assert_false(open_rgb(640, 0, 32, 2560));
	assert_non_null(fault);
	assert_false(open_rgb(319, 480, 32, 2560));
	assert_string_equal(fault,
			    "this framebuffer is smaller than 320 by 200, or impossibly large");
	assert_true(open_rgb(640, 480, 32, 2560));
	fb.red.position = 25;
	assert_false(screen_open(&fb, memory, &fault));
	assert_string_equal(fault, "this framebuffer has colours outside its pixels");
	fb.red.position = 16;
	fb.type = 0;
	assert_false(screen_open(&fb, memory, &fault));
	fb.type = 1;
	out_of_reach = fb.address;
	assert_false(screen_open(&fb, memory, &fault));
	assert_null(fault);
	out_of_reach = 0;
	assert_true(screen_open(&fb, memory, &fault));
	out_of_reach = fb.address;
	assert_false(screen_move(memory));
}

static bool open_text(void)
{
	reset(NULL);
	fb = (struct boot_framebuffer){0};
	return screen_open(&fb, memory, &fault);
}

static char cell(unsigned row, unsigned column)
{
	return (char)text[2 * (80 * row + column)];
}

static uint8_t colour(unsigned row, unsigned column)
{
	return text[2 * (80 * row + column) + 1];
}

/* The text of a row, without blanks at its ends. */
static const char *row_text(unsigned row)
{
	static char line[81];
	unsigned end = 80, start = 0;

	for (unsigned i = 0; i < 80; i++)
		line[i] = cell(row, i);
	while (end && line[end - 1] == ' ')
		end--;
	line[end] = '\0';
	while (line[start] == ' ')
		start++;
	return line + start;
}

UNIT(writes_and_scrolls, .teardown_func = reset)
{
	char line[16];

	assert_true(open_text());
	screen_title("title");
	screen_progress("1 of 2");
	for (unsigned i = 0; i < 100; i++) {
		snprintf(line, sizeof(line), "%u\n", i);
		screen_write(line, i == 99 ? SCREEN_RED : SCREEN_GREY);
	}
	screen_progress("2 of 2");
	assert_string_equal(row_text(0), "title");
	assert_int_equal(colour(0, 79), SCREEN_TITLE);
	assert_string_equal(row_text(1), "2 of 2");
	/* The newest line is the last that is not blank, and those before it are above it. */
	for (unsigned row = 24, seen = 0; row >= 2; row--) {
		if (!seen && !*row_text(row))
			continue;
		snprintf(line, sizeof(line), "%u", 99 - seen);
		assert_string_equal(row_text(row), line);
		assert_int_equal(colour(row, 0), seen ? SCREEN_GREY : SCREEN_RED);
		seen++;
		assert_true(row > 2 || seen >= 16);
	}
}

UNIT(wraps_long_lines, .teardown_func = reset)
{
	char line[200];

	assert_true(open_text());
	memset(line, 'a', 170);
	strcpy(line + 170, "z\nB");
	screen_write(line, SCREEN_GREY);
	assert_int_equal(cell(3, 79), 'a');
	assert_int_equal(cell(4, 10), 'z');
	assert_int_equal(cell(5, 0), 'B');
	/* Exactly a row makes no blank one. */
	memset(line, 'C', 79);
	strcpy(line + 79, "\nA");
	screen_write(line, SCREEN_GREY);
	assert_int_equal(cell(5, 79), 'C');
	assert_int_equal(cell(6, 0), 'A');
}

UNIT(needs_colour_text_that_keeps_what_is_written, .teardown_func = reset)
{
	reset(NULL);
	fb = (struct boot_framebuffer){0};
	mode = 7;
	assert_false(screen_open(&fb, memory, &fault));
	assert_null(fault);
	fb.type = 2;
	fb.width = 80; /* the loader says so too */
	mode = 3;
	assert_true(screen_open(&fb, memory, &fault));
	assert_int_equal(cell(24, 79), ' ');
}

/* Rows of cells that are whole blocks, two columns for each bit of the letter. */
static void expect_letters(unsigned row, unsigned column, const char *word, uint8_t ink)
{
	for (unsigned r = 0; r < LETTER_ROWS; r++)
		for (unsigned i = 0; i < strlen(word) * 16; i++) {
			uint8_t bits = font[word[i / 16] - FONT_FIRST][FIRST_ROW + r];
			bool set = bits << i % 16 / 2 & 0x80;

			assert_int_equal((uint8_t)cell(row + r, column + i), set ? 0xdb : ' ');
			assert_true(!set || colour(row + r, column + i) == ink);
		}
}

UNIT(verdict_is_large_and_keeps_the_log, .teardown_func = reset)
{
	char line[16];

	assert_true(open_text());
	screen_title("title");
	for (unsigned i = 0; i < 40; i++) {
		snprintf(line, sizeof(line), "%u\n", i);
		screen_write(line, SCREEN_GREY);
	}
	screen_verdict("FAIL", SCREEN_RED, (const char *[]){"why", "A first line", "the second"});
	assert_string_equal(row_text(0), "title");
	assert_string_equal(row_text(22), "why");
	assert_string_equal(row_text(23), "A first line");
	assert_string_equal(row_text(24), "the second");
	expect_letters(12, 8, "FAIL", SCREEN_RED);
	for (unsigned row = 2; row <= 10; row++) {
		snprintf(line, sizeof(line), "%u", 39 - (10 - row));
		assert_string_equal(row_text(row), line);
	}
	assert_string_equal(row_text(11), "");
	/* What is written after it does not touch it. */
	screen_write("B\nC\nA\n", SCREEN_GREY);
	expect_letters(12, 8, "FAIL", SCREEN_RED);
	assert_true(open_text());
	screen_verdict("STALL", SCREEN_YELLOW, (const char *[]){"", "a", "z"});
	expect_letters(12, 0, "STALL", SCREEN_YELLOW);
}

UNIT(verdict_grows_with_the_screen, .teardown_func = reset)
{
	/* 96 by 27 cells of 5 times the font, as 3840 by 2160 has; and 60 rows of 1. */
	assert_true(open_rgb(1279, 960, 32, 1279 * 4));
	screen_verdict("PASS", SCREEN_GREEN, (const char *[]){"", "a", "z"});
	/* 159 columns, 60 rows: letters of 2 by 4 cells a pixel of the font, 20 rows high, from
	 * row 37. */
	for (unsigned i = 0; i < 4; i++)
		for (unsigned x = 0; x < 8; x++)
			for (unsigned y = 0; y < LETTER_ROWS; y++) {
				bool set = font["PASS"[i] - FONT_FIRST][FIRST_ROW + y] << x & 0x80;
				unsigned column = (159 - 128) / 2 + i * 32 + x * 4,
					 row = 37 + 2 * y;

				assert_int_equal(pixel(3 + column * 8, row * 16),
						 set ? 0x55ff55 : 0);
				assert_int_equal(pixel(3 + column * 8 + 31, row * 16 + 31),
						 set ? 0x55ff55 : 0);
			}
	/* A small screen has it in small letters. */
	assert_true(open_rgb(320, 200, 32, 1280));
	screen_verdict("FAIL", SCREEN_RED, (const char *[]){"", "a", "z"});
	expect_glyph(0, 4 + 8 * 16, 1, 'F', 0xff5555);
}

/* Dark where x + y is even: each module has an edge to each of its neighbours. */
static bool is_chequered(unsigned x, unsigned y)
{
	return (x + y) % 2 == 0;
}

/* Black, white, or neither: 2. */
static unsigned shade(unsigned x, unsigned y)
{
	return pixel(x, y) == 0 ? 0 : pixel(x, y) == 0xffffff ? 1 : 2;
}

/* The code's first pixel, margin included, is at x and y; each module has `size` pixels. */
static void expect_code(unsigned x, unsigned y, unsigned modules, unsigned size)
{
	unsigned side = (modules + 8) * size;

	for (unsigned v = 0; v < side; v++)
		for (unsigned u = 0; u < side; u++) {
			unsigned column = u / size - 4, row = v / size - 4;
			bool dark = column < modules && row < modules && is_chequered(column, row);

			assert_int_equal(shade(x + u, y + v), !dark);
		}
}

UNIT(code_is_beside_verdict_and_log, .teardown_func = reset)
{
	static const struct {
		uint32_t width, height;
		unsigned most, modules, x, y, size;
	} cases[] = {
		/* 40 of 80 columns, 320 pixels: 3 for each of 106 modules, 4 of 80 */
		{640, 480, 98, 69, 640 - 77 * 4, 16, 4},
		{640, 480, 98, 98, 640 - 106 * 3, 16, 3},
		/* two pixels for one of the font, 21 rows of 32 pixels between title and last lines
		 */
		{1280, 800, 205, 69, 1280 - 77 * 8, 32, 8},
		/* 33 rows: 29 of 32 pixels; 12 above the first row */
		{1920, 1080, 301, 69, 1920 - 77 * 12, 44, 12},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct screen_code code = {cases[i].modules, is_chequered};
		uint32_t width = cases[i].width, height = cases[i].height;
		unsigned scale = height >= 800 ? 2 : 1, top = cases[i].y - 16 * scale;

		assert_true(open_rgb(width, height, 32, width * 4));
		assert_int_equal(screen_code_most(), cases[i].most);
		for (unsigned line = 0; line < 70; line++)
			screen_write(
				"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAz\n",
				SCREEN_GREY);
		screen_code(&code);
		expect_code(cases[i].x, cases[i].y, cases[i].modules, cases[i].size);
		screen_verdict("FAIL", SCREEN_RED, (const char *[]){"A", "A", "z"});
		expect_code(cases[i].x, cases[i].y, cases[i].modules, cases[i].size);
		/* Nothing at its left edge and below it is left of the log, whose lines are
		 * wrapped. */
		for (unsigned y = top + 32 * scale; y < height - 48 * scale; y++)
			assert_int_equal(shade(cases[i].x - 1, y), 0);
		for (unsigned y = cases[i].y + (cases[i].modules + 8) * cases[i].size;
		     y < top + (height / 16 / scale - 3) * 16 * scale; y++)
			for (unsigned x = cases[i].x; x < width; x++)
				assert_int_equal(shade(x, y), 0);
	}
}

UNIT(code_wraps_the_log_anew, .teardown_func = reset)
{
	struct screen_code code = {69, is_chequered};
	char line[100] = "";

	/* 41 columns of 80 are left: 85 times "A" were a row and 5 of the next, and are two and 3.
	 */
	memset(line, 'A', 85);
	strcpy(line + 85, "\nz\n");
	assert_true(open_rgb(640, 480, 32, 2560));
	screen_write(line, SCREEN_RED);
	screen_code(&code);
	expect_glyph(40 * 8, 2 * 16, 1, 'A', 0xff5555);
	expect_glyph(40 * 8, 3 * 16, 1, 'A', 0xff5555);
	expect_glyph(2 * 8, 4 * 16, 1, 'A', 0xff5555);
	assert_int_equal(shade(3 * 8, 4 * 16 + FIRST_ROW), 0);
	expect_glyph(0, 5 * 16, 1, 'z', 0xff5555);
	screen_write("B", SCREEN_GREY);
	expect_glyph(0, 6 * 16, 1, 'B', 0xaaaaaa);
	/* A word of 64 columns has letters of cells one for one there: 32 columns. */
	screen_verdict("PASS", SCREEN_GREEN, (const char *[]){"A", "A", "z"});
	for (unsigned i = 0; i < 4 * 8; i++)
		for (unsigned y = 0; y < LETTER_ROWS; y++) {
			uint8_t bits = font["PASS"[i / 8] - FONT_FIRST][FIRST_ROW + y];

			assert_int_equal(pixel((4 + i) * 8, (17 + y) * 16),
					 bits << i % 8 & 0x80 ? 0x55ff55 : 0);
		}
}

UNIT(code_needs_pixels, .teardown_func = reset)
{
	assert_true(open_text());
	assert_int_equal(screen_code_most(), 0);
	assert_true(open_rgb(320, 200, 32, 1280));
	assert_int_equal(screen_code_most(), 0);
}
