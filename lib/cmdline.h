/* SPDX-License-Identifier: MIT */
/*
 * Command lines: words separated by blanks, each `name` or `name=value`. The value of a word may
 * be quoted with "" to hold blanks. Parsing stops at the first error. Any context; no allocation:
 * strings are copied into the caller's buffers.
 */
#ifndef SPOOR_LIB_CMDLINE_H
#define SPOOR_LIB_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
	OPTION_FLAG,   /* `name`, `name=1` or `name=0`; target is a bool */
	OPTION_NUMBER, /* decimal or 0x hexadecimal within [min, max]; target is a uint64_t */
	OPTION_CHOICE, /* one of `choices`; target is an int: the index chosen */
	OPTION_TEXT,   /* any value that fits; target is a char array of `size` bytes */
};

struct option {
	const char *name;
	const char *help; /* one line for the list of words */
	enum option_kind kind;
	void *target;
	uint64_t min, max;          /* OPTION_NUMBER */
	const char *const *choices; /* OPTION_CHOICE, NULL at the end */
	size_t size;                /* OPTION_TEXT */
};

/*
 * Applies each word of `line` to `options`. False with a sentence in `error` that names the word
 * at fault; for a word it does not know the sentence lists the words it knows. Words before the
 * fault have been applied.
 */
bool cmdline_parse(const char *line, const struct option *options, size_t count, char *error,
		   size_t error_size);

/* True if the whole of `text` is one number, decimal or 0x hexadecimal, that fits 64 bits. */
bool parse_number(const char *text, size_t length, uint64_t *value);

#endif
