/* SPDX-License-Identifier: MIT */
/* The words of the kernel's command line. */
#pragma once

#include "kernel/end.h"

#include <stdbool.h>
#include <stdint.h>

struct options {
	char test[256];	   /* globs, comma-separated; one that starts with '-' leaves out */
	char require[256]; /* globs as in `test`: what may not be skipped; empty: any */
	char group[64];	   /* group letters or names, comma-separated; empty: all */
	char units[32];	   /* what the run is for, comma-separated; empty: BTS and what is there */
	bool list;	   /* print the tests and end */
	int unsafe;	   /* index into "auto", "0", "1", "force" */
	uint64_t repeat;   /* times each test is run */
	uint64_t from;	   /* number of the first result; the one before it died */
	uint64_t restart;  /* times that the kernel may start itself again */
	uint64_t scale;	   /* percent of each test's amount of work */
	uint64_t seed;	   /* of everything random; never 0: that word takes one from the clock */
	uint64_t timeout;  /* seconds that one test may take */
	bool x2apic;	   /* not xAPIC mode, which is what firmware mostly leaves */
	int freeze;	   /* 1 << this: PTRACE_FREEZE_...; 0: none */
	char console[128];
	char machine[64]; /* this one's name in the banner */
	char mac[32];	  /* of the network card that it booted from, as the loader wrote it */
	uint64_t baud;
	int end;		/* enum end_action */
	char export[16];	/* where traces go: com1..com4, debugcon; empty: nowhere */
	int trace;		/* enum export_what */
	int trace_view;		/* enum export_view */
	int trace_mode;		/* enum export_mode */
	uint64_t trace_size;	/* bytes of a tracer's ring */
	char trace_unit[8];	/* struct export_unit; "both": all that there are */
	uint64_t trace_packets; /* bytes of a CPU's buffer for Processor Trace */
	bool trace_raw;		/* records as they are */
};

enum { UNSAFE_AUTO, UNSAFE_NO, UNSAFE_YES, UNSAFE_FORCE };

/* The options of the command line, or the defaults. Read-only after boot. */
extern struct options options;

/*
 * NULL, or a sentence that names the word at fault and lists the words there are. All other words
 * count. Boot.
 */
const char *options_read(const char *line);
