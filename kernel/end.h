/* SPDX-License-Identifier: MIT */
/* How a run ends: its verdict, and what the machine does then. */
#ifndef SPOOR_KERNEL_END_H
#define SPOOR_KERNEL_END_H

/* The rc of the run, from 10H on: QEMU's isa-debug-exit turns v into the exit status 2v + 1. */
enum verdict {
	VERDICT_PASS = 0x10,
	VERDICT_FAIL = 0x11,
	VERDICT_ERROR = 0x12,
	VERDICT_ALL_SKIPPED = 0x13,
	VERDICT_PANIC = 0x14,
};

/* What `end=` chose. */
enum end_action { END_HALT, END_EXIT, END_REBOOT, END_POWEROFF };

/*
 * Prints the last line of the run and ends it as the command line says. `why` is what ended a run
 * that is not over (a panic, a refusal), else NULL. A payload that knows results sets `end_report`
 * to print that line; without it the kernel prints one without results. Any context.
 */
_Noreturn void end_run(enum verdict verdict, const char *why);
extern void (*end_report)(enum verdict verdict, const char *why);

/* The rc that belongs to a verdict: what the runner on the host exits with. */
int end_rc(enum verdict verdict);

/* "# error: ..." and the end of the run with VERDICT_ERROR: the environment is not fit. */
_Noreturn void refuse(const char *template, ...) __attribute__((format(printf, 1, 2)));

#endif
