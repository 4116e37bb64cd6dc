/* SPDX-License-Identifier: MIT */
/*
 * The code: a run as one QR code on the screen, for a photograph. tools/judge makes a log of it
 * again; docs/console.md has its format. No function allocates or takes a lock.
 */
#pragma once

#include "lib/boot_info.h"

#include <stdbool.h>
#include <stdint.h>

/* A result in the code: bits 1:0 are among those of all results, the others follow where these are
 * 3. */
enum code_result {
	CODE_PASS = 0,
	CODE_SKIP = 1,
	CODE_FAIL = 2,
	CODE_ERROR = 3,
	CODE_XFAIL = 3 | 1 << 2,
	CODE_OBS = 3 | 2 << 2,
};

/* What the payload knows of a run's results. */
struct code_results {
	uint32_t list;			    /* CRC32C of the list of all tests */
	unsigned tests;			    /* how many there are in it */
	bool (*is_selected)(unsigned test); /* by its place in that list; NULL: those that run */
	/* where no word chooses any */
	unsigned plan;	       /* results that were due */
	unsigned count;	       /* results that there are */
	const uint8_t *result; /* enum code_result, in the order of the plan */
};

/* The results that code_text() tells from here on, which stay where they are. Any context. */
void code_set_results(const struct code_results *results);

/* The command line that it tells, which stays where it is. Boot. */
void code_set_boot(const struct boot_info *info);

/*
 * Returns the text of the code: alphanumeric characters only. `done` is the run's DONE line, `why`
 * what ended a run that was not over, or NULL. NULL if the results are too many. Any context, one
 * CPU: the text stays until the next call.
 */
const char *code_text(const char *done, const char *why);

/*
 * Draws the code beside the verdict that is drawn next. Returns NULL, or a sentence that says why
 * there is none. Any context; of several calls the first draws, since a later one is a panic's that
 * the first may have caused.
 */
const char *code_draw(const char *done, const char *why);
