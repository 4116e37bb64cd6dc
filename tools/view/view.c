// SPDX-License-Identifier: MIT
#include "tools/view/view.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void say(const char *before, const char *format, va_list arguments)
{
	fflush(stdout);
	fprintf(stderr, "view: %s", before);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
}

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say("", format, arguments);
	va_end(arguments);
	exit(EXIT_WRONG);
}

void fail_usage(const char *command, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say("", format, arguments);
	va_end(arguments);
	fprintf(stderr, "`view %s --help` lists the options\n", command);
	exit(EXIT_USAGE);
}

void warn(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say("warning: ", format, arguments);
	va_end(arguments);
}

char *make_printable(char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	return text;
}

void *allocate(size_t count, size_t size)
{
	void *memory = calloc(count ? count : 1, size);

	if (!memory)
		fail("no memory for %zu elements of %zu bytes", count, size);
	return memory;
}

void *reallocate(void *old, size_t count, size_t size)
{
	void *memory = reallocarray(old, count ? count : 1, size);

	if (!memory)
		fail("no memory for %zu elements of %zu bytes", count, size);
	return memory;
}

uint64_t hash_of(uint64_t one, uint64_t other)
{
	static uint64_t keys[2];
	__uint128_t product;

	if (!keys[0] && getrandom(keys, sizeof(keys), 0) != sizeof(keys))
		fail("no random numbers");
	product = (__uint128_t)(one ^ keys[0]) * (other ^ keys[1]);
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

char *read_file(const char *path, size_t *size)
{
	FILE *in = strcmp(path, "-") ? fopen(path, "rb") : stdin;
	size_t room = 1 << 16, count;
	char *text = allocate(room + 1, 1);

	if (!in)
		fail("%s: %s", path, strerror(errno));
	*size = 0;
	while ((count = fread(text + *size, 1, room - *size, in)) > 0) {
		*size += count;
		if (*size == room)
			text = reallocate(text, (room *= 2) + 1, 1);
	}
	if (ferror(in))
		fail("%s: %s", path, strerror(errno));
	if (in != stdin)
		fclose(in);
	text[*size] = 0;
	return text;
}
