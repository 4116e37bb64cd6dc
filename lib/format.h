/* SPDX-License-Identifier: MIT */
/*
 * Text formatting without libc: %d %i %u %x %X %c %s %p %%, with the flags '-' and '0', a width,
 * a precision for %s (both may be '*'), and the lengths l, ll, z. %p is 0x and 16 digits; %s of
 * NULL is "(null)"; an unknown conversion is copied unchanged and takes no argument. Any
 * context; takes no lock.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

/*
 * Writes at most `size` bytes including the NUL (nothing at all if `size` is 0); returns the
 * length the whole text has.
 */
int vformat(char *buffer, size_t size, const char *template, va_list arguments)
	__attribute__((format(printf, 3, 0)));
int format(char *buffer, size_t size, const char *template, ...)
	__attribute__((format(printf, 3, 4)));

/* Returns `text`; its quotes and what is not printable ASCII become '?': a value of the banner. */
char *format_plain(char *text);
