/* SPDX-License-Identifier: MIT */
/* How a run ends: its verdict, what the machine does then, and what a panic says before. */
#pragma once

#include <stdint.h>

struct trap_frame;

/* The rc of the run, from 10H on: QEMU's isa-debug-exit turns v into the exit status 2v + 1. */
enum verdict {
	VERDICT_PASS = 0x10,
	VERDICT_FAIL = 0x11,
	VERDICT_ERROR = 0x12,
	VERDICT_ALL_SKIPPED = 0x13,
	VERDICT_PANIC = 0x14,
};

/* The values of `end=`. */
enum end_action { END_HALT, END_EXIT, END_REBOOT, END_POWEROFF };

/*
 * Prints the last line of the run and ends it as the command line says. `why` is what ended a run
 * that is not over (a panic, a refusal), else NULL. A payload that knows results sets `end_report`
 * to print that line; without it the kernel prints one without results. Any context.
 */
_Noreturn void end_run(enum verdict verdict, const char *why);
extern void (*end_report)(enum verdict verdict, const char *why);

/*
 * Stops the other CPUs, between two lines of the console, and tracing on this one, which is alone
 * from here on: IF = 0. Any context.
 */
void end_stop_others(void);

/* The counts of the last line, and the line itself: for `end_report`, once a run. */
struct end_counts {
	unsigned pass, fail, skip, error, xfail, obs, slow;
	const char *units; /* units= of the command line; NULL or "": it has none */
	unsigned restarts;
};
void end_print_done(enum verdict verdict, const struct end_counts *counts);

/* The rc that belongs to a verdict: what the runner on the host exits with. */
int end_rc(enum verdict verdict);

/* "# error: ..." and the end of the run with VERDICT_ERROR: the environment is not fit. */
_Noreturn void refuse(const char *template, ...) __attribute__((format(printf, 1, 2)));

/*
 * The end when the kernel itself is wrong. Tracing is stopped on this CPU before anything is
 * printed. Any context, NMI included.
 */
_Noreturn void panic(const char *template, ...) __attribute__((format(printf, 1, 2)));

/* As panic(), for the state in `frame`; `what` NULL names the exception. */
_Noreturn void panic_trap(const struct trap_frame *frame, const char *what);

#define ASSERT(condition)                                                                          \
	do {                                                                                       \
		if (__builtin_expect(!(condition), 0))                                             \
			panic("%s:%d: %s does not hold", __FILE__, __LINE__, #condition);          \
	} while (0)

/* "#GP", or "exception" for a vector that has no such name. */
const char *exception_name(uint64_t vector);

/* Registers, backtrace and newest branches of the state in `frame`. Tracing is stopped. */
void print_trap(const struct trap_frame *frame);

/* The functions that led to `rip`, by the chain of frames from `rbp`. */
void print_backtrace(unsigned long rip, unsigned long rbp);

/*
 * The newest branches that this CPU's trace holds, symbolised; nothing where none is loaded. With
 * `frame` those on the way here from the event that made it are left out. Tracing is stopped.
 */
void print_last_branches(const struct trap_frame *frame);
