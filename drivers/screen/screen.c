// SPDX-License-Identifier: MIT
#include "drivers/screen/screen.h"

#include "drivers/mmio.h"

#include <stddef.h>
#include <stdint.h>

#define COLUMNS	    80
#define ROWS	    25
#define TEXT_MEMORY 0xb8000
#define BIOS_MODE   0x449 /* BIOS data area: current video mode */
#define COLOUR_TEXT 3
#define GREY	    0x0700
#define PATTERN	    0x0753

static volatile uint16_t *cells;
static unsigned row, column;

static void scroll(void)
{
	for (unsigned i = 0; i < COLUMNS * (ROWS - 1); i++)
		cells[i] = cells[i + COLUMNS];
	for (unsigned i = COLUMNS * (ROWS - 1); i < COLUMNS * ROWS; i++)
		cells[i] = GREY | ' ';
}

bool screen_init(void)
{
	const uint8_t *mode = physical_map(BIOS_MODE, 1);

	if (!mode || *mode != COLOUR_TEXT)
		return false;
	cells = mmio_map(TEXT_MEMORY, COLUMNS * ROWS * 2);
	if (!cells)
		return false;
	cells[0] = PATTERN;
	if (cells[0] != PATTERN)
		return false;
	for (unsigned i = 0; i < COLUMNS * ROWS; i++)
		cells[i] = GREY | ' ';
	row = column = 0;
	return true;
}

void screen_put(char c)
{
	if (c == '\r') {
		column = 0;
		return;
	}
	if (c != '\n') {
		cells[row * COLUMNS + column++] = (uint16_t)(GREY | (uint8_t)c);
		if (column < COLUMNS)
			return;
		column = 0;
	}
	if (++row == ROWS) {
		row = ROWS - 1;
		scroll();
	}
}
