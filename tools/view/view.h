/* SPDX-License-Identifier: MIT */
/* The subcommands of `view`, and what all of them use. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXIT_WRONG 1 /* of the input: a sentence says what */
#define EXIT_USAGE 2

/* Each gets its own name as argv[0], and returns the exit code. */
int view_panic(int argc, char **argv);
int view_rx(int argc, char **argv);
int view_dump(int argc, char **argv);
int view_check(int argc, char **argv);
int view_stats(int argc, char **argv);
int view_calls(int argc, char **argv);
int view_diff(int argc, char **argv);
int view_same(int argc, char **argv);
int view_html(int argc, char **argv);
int view_perfetto(int argc, char **argv);
int view_perf(int argc, char **argv);
int view_record(int argc, char **argv);
int view_stacks(int argc, char **argv);

/*
 * How many of `count` elements come first, if `is_first`, an expression, is true of these and of no
 * other; `at` is the index of the one it is asked of.
 */
#define COUNT_FIRST(count, at, is_first)                                                           \
	({                                                                                         \
		size_t low_ = 0, high_ = (count);                                                  \
                                                                                                   \
		while (low_ < high_) {                                                             \
			size_t at = low_ + (high_ - low_) / 2;                                     \
			if (is_first)                                                              \
				low_ = at + 1;                                                     \
			else                                                                       \
				high_ = at;                                                        \
		}                                                                                  \
		low_;                                                                              \
	})

/* "view: " and the sentence on standard error; the program ends with EXIT_WRONG. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As fail(), for a command line that is wrong: EXIT_USAGE. */
_Noreturn void fail_usage(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* "view: warning: " and the sentence on standard error. */
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Puts a `?` where a character is not printable ASCII, since a terminal obeys others; returns
 * `text`. */
char *make_printable(char *text, size_t size);

/* Zeroed memory for `count` elements; never NULL. */
void *allocate(size_t count, size_t size) __attribute__((returns_nonnull));
void *reallocate(void *old, size_t count, size_t size) __attribute__((returns_nonnull));

/* A hash that no input can foresee. */
uint64_t hash_of(uint64_t one, uint64_t other);

/* The whole of a file, "-": of standard input, with a 0 after it. Ends the program if it cannot. */
char *read_file(const char *path, size_t *size);
