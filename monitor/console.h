/* SPDX-License-Identifier: MIT */
/* The monitor's output: whole lines that start with "# monitor: ", at the devices of
   drivers/console/console.h. Any context of the monitor but its NMI entry, on any processor. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/boot_info.h"

/* Opens the devices of `list` (drivers/console/console.h). `info` has to stay where it is. */
void console_start(const char *list, uint32_t baud, struct boot_info *info);

/* After the move to the monitor's own page tables: what was out of reach may be in it now. */
void console_moved(void);

/* The guest draws on the screen from here on; end_run() takes it back. */
void console_give_screen(void);

/* One line, without its newline; at most 400 characters. */
void say(const char *template, ...) __attribute__((format(printf, 1, 2)));

/* How a run ends that the guest cannot end itself: values for QEMU's isa-debug-exit. */
enum verdict {
	VERDICT_LISTED = 0x10, /* exit status 33 */
	VERDICT_ERROR = 0x12,  /* exit status 37 */
	VERDICT_PANIC = 0x14,  /* exit status 41 */
};

/* Whether end_run() leaves the emulator; otherwise it halts. */
void console_exit_at_end(bool leave);

/* Sets what end_run() calls first, to stop the other processors. */
void console_stop_at_end(void (*stop_others)(void));

_Noreturn void end_run(enum verdict verdict, const char *template, ...)
	__attribute__((format(printf, 2, 3)));
