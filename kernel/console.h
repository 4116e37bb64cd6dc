/* SPDX-License-Identifier: MIT */
/*
 * The kernel's output. Lines go whole to every device of drivers/console/console.h, with CR LF; the
 * screen gets those that a reader there needs.
 */
#pragma once

#include "kernel/end.h"

/* Prints to the console. Any context but NMI; a panic may print from anywhere. */
void printk(const char *template, ...) __attribute__((format(printf, 1, 2)));

/* One line for each sentence of console_open() or console_move(). */
void console_print_notes(const char *notes);

/* Titles the screen, where there is one. */
void console_print_title(void);

/* On the screen only: the test `name`, number `n` of `all`, runs. */
void console_progress(unsigned n, unsigned all, const char *name);

/*
 * On the screen only: how the run ended, and `why` it did before its end (else NULL), what it
 * tested, what the machine does now, and the code for a photograph. `done` is the DONE line without
 * the words before its keys.
 */
void console_verdict(enum verdict verdict, const char *why, const char *done);

/*
 * Keeps the other CPUs from printing, before they are stopped: none stops in the midst of a line.
 * Waits a fifth of a second at most for one that prints. Any context.
 */
void console_claim(void);

/*
 * From here on printk() takes no lock, since one CPU is left. A line that has no end, as of a CPU
 * that panics in the midst of it, gets one. After console_claim(); any context.
 */
void console_unlock_for_good(void);
