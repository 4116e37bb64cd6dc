/* SPDX-License-Identifier: MIT */
/* The VGA text screen, 80 by 25, where firmware left one: a copy of the console. */
#ifndef SPOOR_DRIVERS_SCREEN_SCREEN_H
#define SPOOR_DRIVERS_SCREEN_SCREEN_H

#include <stdbool.h>

/*
 * True, and the screen cleared, if the BIOS data area says that a colour text mode is set and the
 * text memory keeps what is written to it. After the kernel's memory map is complete.
 */
bool screen_init(void);

/* One character; scrolls. The caller serialises. Any context after screen_init(). */
void screen_put(char c);

#endif
