/* SPDX-License-Identifier: MIT */
/*
 * The console: every line goes to each device in use, the UARTs first. Lines are written whole,
 * with CR LF. A device that wedges is dropped, the others go on.
 */
#ifndef SPOOR_KERNEL_CONSOLE_H
#define SPOOR_KERNEL_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Opens the devices that `list` names ("com1,debugcon"; "auto": the first COM port that answers
 * and QEMU's debug console; "none"). NULL, or a sentence that names the word at fault, with "auto"
 * opened in its place.
 */
const char *console_init(const char *list, uint32_t baud);

/* The text screen, if the list named it: once the kernel's memory map stands. */
void console_add_screen(void);

/* The devices in use, as words: "com1,debugcon". */
const char *console_names(void);

/* Prints to the console. Any context but NMI; a panic may print from anywhere. */
void printk(const char *template, ...) __attribute__((format(printf, 1, 2)));

/* From here on printk() takes no lock: one CPU is left and whoever held the lock may be gone. */
void console_unlock_for_good(void);

/* Waits until everything has left the machine. Any context. */
void console_flush(void);

#endif
