// SPDX-License-Identifier: MIT
#include "drivers/console/screen.h"

#include "lib/string.h"

enum { MOST_COLUMNS = 160, MOST_ROWS = 64, LOG_ROW = 2 };
enum { TEXT_COLUMNS = 80, TEXT_ROWS = 25, TEXT_MEMORY = 0xb8000 };
enum { BIOS_MODE = 0x449 /* BIOS data area: current video mode */, COLOUR_TEXT = 3 };
enum { LEAST_WIDTH = 320, LEAST_HEIGHT = 200, SCALE_WIDTH = 640, SCALE_HEIGHT = 400 };
enum { TYPE_RGB = 1, MOST_PIXELS = 1 << 15 };

#define PATTERN 0x0753
#define BLOCK	0xdb /* a cell full of its colour: code page 437, and here */
#define BLANK	(SCREEN_GREY << 8 | ' ')

/* Large letters are of cells, two of them wide for each pixel of the font. */
enum { LETTER_COLUMNS = 2 * FONT_WIDTH, VERDICT_LINES = 3 };

/* Beside a code the letters of a verdict may be of cells one for one. ISO/IEC 18004, 6.3.8: a
 * margin of four modules. */
enum { CODE_MARGIN = 4, CODE_LEAST_PIXELS = 3, CODE_LEFT = 5 * FONT_WIDTH, WHITE = 15 };

static struct boot_framebuffer fb; /* width 0: the text screen */
static volatile uint8_t *pixels;
static volatile uint16_t *text_cells;
static unsigned scale, columns, rows, left, top; /* of cells; pixels before the first */
static unsigned row, column, log_end;
static unsigned narrow; /* columns of the log and the verdict: all, or those beside a code */
static uint16_t cells[MOST_ROWS][MOST_COLUMNS]; /* attribute << 8 | character */

static unsigned bytes_of_pixel(void)
{
	return (fb.bits + 7u) / 8;
}

/* One part of a pixel: bit 0, 1 or 2 of a VGA colour at 2/3, and 1/3 if it is bright. */
static uint32_t part_of(unsigned colour, unsigned bit, unsigned position, unsigned size)
{
	uint32_t level = (colour & 1u << bit ? 170 : 0) + (colour & 8 ? 85 : 0);

	return (size < 8 ? level >> (8 - size) : level << (size - 8)) << position;
}

static uint32_t pixel_of(unsigned colour)
{
	return part_of(colour, 2, fb.red.position, fb.red.size) |
	       part_of(colour, 1, fb.green.position, fb.green.size) |
	       part_of(colour, 0, fb.blue.position, fb.blue.size);
}

static void put_pixels(unsigned x, unsigned y, unsigned count, uint32_t pixel)
{
	unsigned bytes = bytes_of_pixel();
	volatile uint8_t *at = pixels + (uint64_t)y * fb.pitch + (uint64_t)x * bytes;

	for (unsigned i = 0; i < count; i++, at += bytes) {
		if (bytes == 4 && !((uintptr_t)at & 3))
			*(volatile uint32_t *)at = pixel;
		else
			for (unsigned b = 0; b < bytes; b++)
				at[b] = (uint8_t)(pixel >> 8 * b);
	}
}

static uint8_t glyph_row(unsigned character, unsigned y)
{
	if (character == BLOCK)
		return 0xff;
	if (character < FONT_FIRST || character > FONT_LAST)
		character = '?';
	return font[character - FONT_FIRST][y];
}

static void draw(unsigned at_row, unsigned at_column)
{
	uint16_t cell = cells[at_row][at_column];
	uint32_t ink = pixel_of(cell >> 8 & 15), paper = pixel_of(cell >> 12);
	unsigned x = left + at_column * FONT_WIDTH * scale, y = top + at_row * FONT_HEIGHT * scale;

	if (!fb.width) {
		text_cells[at_row * TEXT_COLUMNS + at_column] = cell;
		return;
	}
	for (unsigned line = 0; line < FONT_HEIGHT * scale; line++) {
		uint8_t bits = glyph_row(cell & 0xff, line / scale);

		for (unsigned i = 0; i < FONT_WIDTH; i++)
			put_pixels(x + i * scale, y + line, scale, bits << i & 0x80 ? ink : paper);
	}
}

static void set(unsigned at_row, unsigned at_column, uint16_t cell)
{
	if (cells[at_row][at_column] == cell)
		return;
	cells[at_row][at_column] = cell;
	draw(at_row, at_column);
}

static void blank(unsigned from, unsigned end)
{
	for (unsigned r = from; r < end; r++)
		for (unsigned c = 0; c < columns; c++)
			set(r, c, BLANK);
}

void screen_clear(void)
{
	for (unsigned r = 0; r < rows; r++)
		for (unsigned c = 0; c < columns; c++)
			cells[r][c] = BLANK;
	for (unsigned y = 0; fb.width && y < fb.height; y++)
		put_pixels(0, y, fb.width, pixel_of(0));
	for (unsigned i = 0; !fb.width && i < TEXT_COLUMNS * TEXT_ROWS; i++)
		text_cells[i] = BLANK;
	row = LOG_ROW;
	column = 0;
	log_end = rows;
	narrow = columns;
}

/* NULL, or why nothing can be drawn on it. */
static const char *unusable(const struct boot_framebuffer *f)
{
	unsigned bytes = (f->bits + 7u) / 8;

	if (f->type != TYPE_RGB || f->bits < 15 || f->bits > 32)
		return "this framebuffer is not RGB of 15 to 32 bits a pixel";
	if (f->width < LEAST_WIDTH || f->height < LEAST_HEIGHT || f->width > MOST_PIXELS ||
	    f->height > MOST_PIXELS)
		return "this framebuffer is smaller than 320 by 200, or impossibly large";
	if (f->pitch < (uint64_t)f->width * bytes || f->pitch > MOST_PIXELS * 8u)
		return "this framebuffer has an impossible pitch";
	if (f->red.position + f->red.size > f->bits ||
	    f->green.position + f->green.size > f->bits ||
	    f->blue.position + f->blue.size > f->bits)
		return "this framebuffer has colours outside its pixels";
	return NULL;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static void lay_out(void)
{
	scale = least(fb.width / SCALE_WIDTH, fb.height / SCALE_HEIGHT);
	scale = scale ? scale : 1;
	columns = least(fb.width / FONT_WIDTH / scale, MOST_COLUMNS);
	rows = least(fb.height / FONT_HEIGHT / scale, MOST_ROWS);
	left = (fb.width - columns * FONT_WIDTH * scale) / 2;
	top = (fb.height - rows * FONT_HEIGHT * scale) / 2;
}

static bool open_text(boot_memory memory)
{
	const uint8_t *mode = memory(BIOS_MODE, 1);

	if (!mode || *mode != COLOUR_TEXT)
		return false;
	fb = (struct boot_framebuffer){0};
	if (!screen_move(memory))
		return false;
	text_cells[0] = PATTERN;
	if (text_cells[0] != PATTERN)
		return false;
	columns = TEXT_COLUMNS;
	rows = TEXT_ROWS;
	return true;
}

bool screen_open(const struct boot_framebuffer *framebuffer, boot_memory memory, const char **fault)
{
	bool text = !framebuffer->width || framebuffer->type > TYPE_RGB;

	*fault = text ? NULL : unusable(framebuffer);
	if (*fault || (text && !open_text(memory)))
		return false;
	if (!text) {
		fb = *framebuffer;
		lay_out();
		if (!screen_move(memory))
			return false;
	}
	screen_clear();
	return true;
}

bool screen_move(boot_memory memory)
{
	uintptr_t mapped;

	if (fb.width) {
		mapped = (uintptr_t)memory(fb.address, (uint64_t)fb.pitch * fb.height);
		pixels = (volatile uint8_t *)mapped;
	} else {
		mapped = (uintptr_t)memory(TEXT_MEMORY, TEXT_COLUMNS * TEXT_ROWS * 2);
		text_cells = (volatile uint16_t *)mapped;
	}
	return mapped;
}

/* Returns the column after the last character. */
static unsigned put_text(unsigned at_row, unsigned at_column, const char *text,
			 enum screen_colour colour)
{
	for (; *text && at_column < columns; text++)
		set(at_row, at_column++, (uint16_t)(colour << 8 | (uint8_t)*text));
	return at_column;
}

static void put_row(unsigned at_row, const char *text, enum screen_colour colour)
{
	unsigned end = put_text(at_row, 0, text, colour);

	while (end < columns)
		set(at_row, end++, (uint16_t)(colour << 8 | ' '));
}

void screen_title(const char *text)
{
	put_row(0, text, SCREEN_TITLE);
}

void screen_progress(const char *text)
{
	put_row(1, text, SCREEN_GREY);
}

static void scroll(unsigned count)
{
	for (unsigned r = LOG_ROW; r + count < log_end; r++)
		for (unsigned c = 0; c < columns; c++)
			set(r, c, cells[r + count][c]);
	blank(log_end - count, log_end);
	row = row > LOG_ROW + count ? row - count : LOG_ROW;
}

/* By a quarter of the rows: each cell that changes is drawn, which is slow in a framebuffer. */
static void next_row(void)
{
	column = 0;
	if (++row == log_end)
		scroll((log_end - LOG_ROW + 3) / 4);
}

static void put_cell(uint16_t cell)
{
	if (column == narrow)
		next_row();
	set(row, column++, cell);
}

void screen_write(const char *text, enum screen_colour colour)
{
	for (; *text; text++) {
		if (*text == '\n')
			next_row();
		else
			put_cell((uint16_t)(colour << 8 | (uint8_t)*text));
	}
}

/* Writes the log anew, so many columns wide; from here on the others' cells stay blank. */
static void wrap_log(unsigned width)
{
	static uint16_t old[MOST_ROWS][MOST_COLUMNS];
	unsigned end = row + (column > 0);

	memcpy(old, cells, sizeof(old));
	blank(LOG_ROW - 1, rows);
	narrow = width;
	for (unsigned c = 0; c < narrow; c++)
		set(LOG_ROW - 1, c, old[LOG_ROW - 1][c]);
	row = LOG_ROW;
	column = 0;
	for (unsigned r = LOG_ROW; r < end; r++) {
		unsigned length = columns;

		while (length && old[r][length - 1] == BLANK)
			length--;
		for (unsigned c = 0; c < length; c++)
			put_cell(old[r][c]);
		if (length < columns) /* a full row goes on in the next */
			next_row();
	}
}

/* Of a side of the square that is left beside CODE_LEFT columns, between title and last lines. */
static unsigned code_pixels(void)
{
	if (!fb.width || columns <= CODE_LEFT || rows <= 1 + VERDICT_LINES)
		return 0;
	return scale *
	       least((columns - CODE_LEFT) * FONT_WIDTH, (rows - 1 - VERDICT_LINES) * FONT_HEIGHT);
}

unsigned screen_code_most(void)
{
	unsigned modules = code_pixels() / CODE_LEAST_PIXELS;

	return modules > 2 * CODE_MARGIN ? modules - 2 * CODE_MARGIN : 0;
}

void screen_code(const struct screen_code *code)
{
	unsigned side = code->modules + 2 * CODE_MARGIN, size = code_pixels() / side;
	unsigned cell = FONT_WIDTH * scale, x = left + columns * cell - side * size;
	unsigned y = top + FONT_HEIGHT * scale;

	wrap_log(columns - (side * size + cell - 1) / cell);
	for (unsigned i = 0; i < side * size; i++)
		put_pixels(x, y + i, side * size, pixel_of(WHITE));
	for (unsigned i = 0; i < code->modules * code->modules * size; i++) {
		unsigned column_of = i / size % code->modules, row_of = i / size / code->modules;

		if (code->is_dark(column_of, row_of))
			put_pixels(x + (CODE_MARGIN + column_of) * size,
				   y + (CODE_MARGIN + row_of) * size + i % size, size, pixel_of(0));
	}
}

/* The rows of the font that the letters of `word` fill. */
static void letter_rows(const char *word, unsigned *first, unsigned *end)
{
	*first = FONT_HEIGHT;
	*end = 0;
	for (; *word; word++)
		for (unsigned y = 0; y < FONT_HEIGHT; y++) {
			if (!glyph_row((uint8_t)*word, y))
				continue;
			*first = least(*first, y);
			*end = y + 1 > *end ? y + 1 : *end;
		}
}

/* Row by row of cells, each pixel of the font `times` cells high and `wide` times as many wide. */
static void put_letters(unsigned at_row, const char *word, unsigned times, unsigned wide,
			enum screen_colour colour)
{
	unsigned length = (unsigned)strlen(word), width = length * FONT_WIDTH * wide * times;
	unsigned first, end, from = (narrow - width) / 2;

	letter_rows(word, &first, &end);
	for (unsigned r = 0; r < (end - first) * times; r++)
		for (unsigned c = 0; c < width; c++) {
			unsigned letter = c / times / wide / FONT_WIDTH;
			unsigned x = c / times / wide % FONT_WIDTH;

			if (glyph_row((uint8_t)word[letter], first + r / times) << x & 0x80)
				set(at_row + r, from + c, (uint16_t)(colour << 8 | BLOCK));
		}
}

static void put_centred(unsigned at_row, const char *text)
{
	unsigned length = (unsigned)strlen(text);

	put_text(at_row, length < columns ? (columns - length) / 2 : 0, text, SCREEN_TITLE & 15);
}

void screen_verdict(const char *word, enum screen_colour colour, const char *const lines[3])
{
	unsigned first, end, times, height, log_rows;
	unsigned length = (unsigned)strlen(word);
	unsigned wide = length * LETTER_COLUMNS > narrow && narrow < columns ? 1 : 2;
	unsigned used = row + (column > 0);

	letter_rows(word, &first, &end);
	/* Half of the rows are for the log. */
	times = least(narrow / (length * FONT_WIDTH * wide), rows / 2 / (end - first));
	height = times * (end - first);
	log_rows = rows - height - VERDICT_LINES - 1;
	if (used > log_rows)
		scroll(used - log_rows);
	log_end = log_rows;
	blank(log_end, rows);
	if (times)
		put_letters(log_end + 1, word, times, wide, colour);
	else
		put_text(log_end, 0, word, colour);
	for (unsigned i = 0; i < VERDICT_LINES; i++)
		put_centred(rows - VERDICT_LINES + i, lines[i]);
}
