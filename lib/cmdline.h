/* SPDX-License-Identifier: MIT */
/*
 * Command lines: words separated by blanks, each `name` or `name=value`. Double quotes, anywhere
 * in a word, keep blanks together; a backslash takes the sense from a quote or a backslash (GRUB
 * quotes the whole word, `"name=a b"`, whatever its menu had). A word given twice: the last one
 * counts. Any context; no allocation: values are copied into the caller's variables.
 */
#pragma once

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
	enum option_kind kind;
	void *target;
	uint64_t min, max;	    /* OPTION_NUMBER */
	const char *const *choices; /* OPTION_CHOICE, NULL at the end */
	size_t size;		    /* OPTION_TEXT */
};

/* The fields of a row of a table, for the variable `to`. */
#define FLAG_OPTION(word, to) .name = (word), .kind = OPTION_FLAG, .target = &(to)
#define TEXT_OPTION(word, to)                                                                      \
	.name = (word), .kind = OPTION_TEXT, .target = &(to), .size = sizeof(to)
#define NUMBER_OPTION(word, to, least, most)                                                       \
	.name = (word), .kind = OPTION_NUMBER, .target = &(to), .min = (least), .max = (most)
#define CHOICE_OPTION(word, to, ...)                                                               \
	.name = (word), .kind = OPTION_CHOICE, .target = &(to), .choices = (const char *const[])   \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

/*
 * Applies each word of `line` to `options`. False with a sentence in `error` that names the first
 * word at fault; for a word it does not know the sentence lists the words it knows. All others have
 * been applied, those after the fault too: they may select the console for the error and how to
 * end.
 */
bool cmdline_parse(const char *line, const struct option *options, size_t count, char *error,
		   size_t error_size);

/*
 * `line` without the file name that some loaders put first, for the command line and for a
 * module's string alike. QEMU's -kernel and -initrd put the path as it was given, iPXE puts the
 * URI, GRUB Legacy the path; GRUB 2 puts none, under either Multiboot version. The protocol does
 * not distinguish them, so the word does: a first word that has '/' or '.' before any '=' is a file
 * name. No option's name may therefore hold either character. (A file name with neither, or with a
 * blank, remains and is reported by cmdline_parse() as a word it does not know.)
 */
const char *cmdline_skip_file_name(const char *line);

/* True if the whole of `text` is one number, decimal or 0x hexadecimal, that fits 64 bits. */
bool parse_number(const char *text, size_t length, uint64_t *value);
