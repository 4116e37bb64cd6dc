/* SPDX-License-Identifier: MIT */
/* The options that all commands on traces share: files, and which records are meant. */
#pragma once

#include "tools/view/trace.h"

#include <argp.h>

struct filter {
	const char *path; /* of the trace; the one argument */
	const char *elf, *program, *directory;
	bool damaged;
	const char *task;     /* id or name; NULL: all */
	int cpu;	      /* -1: all */
	uint64_t from, to;    /* indices of records in their stream; `to` is included */
	const char *function; /* NULL: all */
	unsigned depth;	      /* calls deeper than that are left out */
	/* A command's own option: 0, or ARGP_ERR_UNKNOWN. */
	error_t (*option)(int key, char *argument, struct argp_state *state);
};

/*
 * Reads the command line of a command on one trace: `does` is the text of --help, `options` are its
 * own, NULL: none. Ends the program for --help and if it is wrong.
 */
void filter_parse(struct filter *filter, int argc, char **argv, const char *does,
		  const struct argp_option *options);

/* The trace that the command line names, with its code. */
struct trace *filter_load(const struct filter *filter);

/* Whether anything of `stream` may be meant. */
bool filter_has_stream(const struct filter *filter, const struct trace_stream *stream);

/* Whether this item of a stream is meant; `function` is not looked at. */
bool filter_has_item(const struct filter *filter, const struct cursor_item *item);

/* Whether an address is in the function that is meant. */
bool filter_has_address(const struct filter *filter, const struct space *space, uint64_t address);

/*
 * Leaves older branches of `stream` out than the `newest` of those that are meant, by raising
 * `from`. Returns how many.
 */
uint64_t filter_newest(struct filter *filter, const struct trace *trace,
		       const struct trace_stream *stream, uint64_t newest);

/* A number of 64 bits, or the command line is wrong. */
uint64_t filter_number(const char *text, struct argp_state *state);
