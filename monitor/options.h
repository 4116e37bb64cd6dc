/* SPDX-License-Identifier: MIT */
/* The monitor's own command line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/boot_info.h"
#include "monitor/present.h"
#include "monitor/silicon.h"

struct defect;
struct unit;

enum vbts { VBTS_AUTO, VBTS_ON, VBTS_OFF };

/* Which code is interpreted: ring 3 while no other branch is wanted; all that is traced; all.
 */
enum interpret { INTERPRET_WANTED, INTERPRET_TRACED, INTERPRET_ALWAYS };

struct options {
	enum vbts vbts;
	const struct profile *profile;
	const struct hypervisor *hypervisor; /* present=; NULL: no rehearsal */
	char variants[1024]; /* what of vbts= chose `behaviour`, "" for the default; all points fit
			      */
	struct behaviour behaviour;
	const struct defect *defect; /* or erratum; NULL: none */
	const struct unit *inert;    /* it records nothing; NULL: none */
	bool list_variants, list_defects, list_errata;
	bool lockstep;
	enum interpret interpret;
	unsigned added;		     /* bits of units that are there since a word adds them */
	const struct profile *other; /* kinds=: of every second processor; NULL: all are alike */
	unsigned other_added;	     /* the unit that this word adds to them */
	bool stack;		     /* branches leave with RSP */
	bool end_exit;
	char console[128]; /* drivers/console/console.h; "": not said */
	uint32_t baud;
	bool baud_said;
};

/*
 * False with a sentence in `error`. Whatever could be read is in `options` all the same, so that
 * the run can end with a verdict.
 */
bool options_parse(struct options *options, const char *line, char *error, size_t error_size);

/* Takes the console's options that were not given from the kernel's `words`, or the defaults. */
void options_follow_kernel(struct options *options, const char *words);

/* The words of `string`: without the file name, where this loader puts one first. */
const char *loader_words(const struct boot_info *info, const char *string);
