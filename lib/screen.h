/* SPDX-License-Identifier: MIT */
/*
 * The screen: the loader's framebuffer, or the VGA text screen that a BIOS left. It is divided into
 * cells of a character and a colour. Row 0 is the title, row 1 the progress, the rest scrolls. The
 * caller serialises; any context after screen_open().
 */
#ifndef SPOOR_LIB_SCREEN_H
#define SPOOR_LIB_SCREEN_H

#include "lib/boot_info.h"

#include <stdbool.h>

/* Attributes of VGA text: the background's colour in bits 7:4, the character's in bits 3:0. */
enum screen_colour {
	SCREEN_GREY = 0x07,
	SCREEN_GREEN = 0x0a,
	SCREEN_RED = 0x0c,
	SCREEN_YELLOW = 0x0e,
	SCREEN_TITLE = 0x1f,
};

/*
 * True, and the screen cleared, if the framebuffer is RGB of 15 to 32 bits a pixel, at least 320 by
 * 200, and `memory` reaches it. Without a framebuffer: if the BIOS data area says that a colour
 * text mode is set, and the text memory keeps what is written to it. Else false; `fault` then says
 * what is wrong with a framebuffer.
 */
bool screen_open(const struct boot_framebuffer *framebuffer, boot_memory memory,
		 const char **fault);

/* Reaches the same screen by `memory` from here on. False: it cannot, and the screen is closed. */
bool screen_move(boot_memory memory);

/* Clears an open screen, whatever else has drawn on it. */
void screen_clear(void);

/* Rows 0 and 1; what does not fit is cut off. */
void screen_title(const char *text);
void screen_progress(const char *text);

/* Text with newlines, below these rows. */
void screen_write(const char *text, enum screen_colour colour);

/*
 * `word`, at most 5 capitals, as large as there is room for, and two lines below it; the end of
 * what was written before stays above.
 */
void screen_verdict(const char *word, enum screen_colour colour, const char *const lines[3]);

#endif
