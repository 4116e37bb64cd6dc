// SPDX-License-Identifier: MIT
#include "lib/format.h"

#include <stdbool.h>
#include <stdint.h>

#include "lib/string.h"

struct output {
	char *buffer;
	size_t size, length;
};

/* One conversion, from after the '%'. */
struct conversion {
	bool left, zero;
	size_t width, precision; /* precision SIZE_MAX: none given */
	unsigned longs;		 /* 0: int, else 64 bits: l, ll and z are the same on x86-64 */
	char letter;
};

static void put(struct output *out, char c)
{
	if (out->length + 1 < out->size)
		out->buffer[out->length] = c;
	out->length++;
}

static void put_text(struct output *out, const char *text, size_t length)
{
	while (length--)
		put(out, *text++);
}

static void put_fill(struct output *out, char c, size_t width, size_t length)
{
	for (; length < width; length++)
		put(out, c);
}

static void put_padded(struct output *out, const struct conversion *how, const char *text,
		       size_t length)
{
	if (!how->left)
		put_fill(out, ' ', how->width, length);
	put_text(out, text, length);
	if (how->left)
		put_fill(out, ' ', how->width, length);
}

static void put_number(struct output *out, const struct conversion *how, uint64_t value,
		       unsigned base, const char *prefix)
{
	char digits[20]; /* 2^64 - 1 in decimal */
	char text[sizeof(digits) + 2];
	size_t first = sizeof(digits), length = strlen(prefix);
	const char *symbols = how->letter == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";

	do {
		digits[--first] = symbols[value % base];
		value /= base;
	} while (value);
	if (how->zero && !how->left) {
		put_text(out, prefix, length);
		put_fill(out, '0', how->width, length + sizeof(digits) - first);
		put_text(out, digits + first, sizeof(digits) - first);
		return;
	}
	memcpy(text, prefix, length);
	memcpy(text + length, digits + first, sizeof(digits) - first);
	put_padded(out, how, text, length + sizeof(digits) - first);
}

static size_t read_count(const char **template, va_list *arguments)
{
	size_t count = 0;

	if (**template == '*') {
		int value = va_arg(*arguments, int);

		++*template;
		return value < 0 ? 0 : (size_t)value;
	}
	for (; **template >= '0' && **template <= '9'; ++*template)
		count = count * 10 + (size_t)(**template - '0');
	return count;
}

static struct conversion read_conversion(const char **template, va_list *arguments)
{
	struct conversion how = {.precision = SIZE_MAX};

	for (; **template == '-' || **template == '0'; ++*template) {
		if (**template == '-')
			how.left = true;
		else
			how.zero = true;
	}
	how.width = read_count(template, arguments);
	if (**template == '.') {
		++*template;
		how.precision = read_count(template, arguments);
	}
	for (; **template == 'l' || **template == 'z'; ++*template)
		how.longs++;
	how.letter = **template;
	if (how.letter)
		++*template;
	return how;
}

/* False: not a conversion of ours, and no argument was taken. */
static bool convert(struct output *out, struct conversion *how, va_list *arguments)
{
	const char *text;
	int64_t value;
	char c;

	switch (how->letter) {
	case 'd':
	case 'i':
		value = how->longs ? va_arg(*arguments, int64_t) : va_arg(*arguments, int);
		put_number(out, how, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10,
			   value < 0 ? "-" : "");
		return true;
	case 'u':
	case 'x':
	case 'X':
		put_number(out, how,
			   how->longs ? va_arg(*arguments, uint64_t) : va_arg(*arguments, unsigned),
			   how->letter == 'u' ? 10 : 16, "");
		return true;
	case 'p':
		*how = (struct conversion){.zero = true, .width = 18, .letter = 'p'};
		put_number(out, how, (uintptr_t)va_arg(*arguments, void *), 16, "0x");
		return true;
	case 'c':
		c = (char)va_arg(*arguments, int);
		put_padded(out, how, &c, 1);
		return true;
	case 's':
		text = va_arg(*arguments, const char *);
		if (!text)
			text = "(null)";
		put_padded(out, how, text, strnlen(text, how->precision));
		return true;
	case '%':
		put(out, '%');
		return true;
	default:
		return false;
	}
}

int vformat(char *buffer, size_t size, const char *template, va_list arguments)
{
	struct output out = {buffer, size, 0};
	va_list rest;

	va_copy(rest, arguments);
	while (*template) {
		const char *start = template;

		if (*template ++ != '%') {
			put(&out, *start);
			continue;
		}

		struct conversion how = read_conversion(&template, &rest);

		if (!convert(&out, &how, &rest))
			put_text(&out, start, (size_t)(template - start));
	}
	va_end(rest);
	if (size)
		buffer[out.length < size ? out.length : size - 1] = '\0';
	return (int)out.length;
}

int format(char *buffer, size_t size, const char *template, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, template);
	length = vformat(buffer, size, template, arguments);
	va_end(arguments);
	return length;
}

char *format_plain(char *text)
{
	for (char *at = text; *at; at++)
		*at = *at >= ' ' && *at <= '~' && *at != '"' ? *at : '?';
	return text;
}
