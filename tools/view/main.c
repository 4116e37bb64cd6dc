// SPDX-License-Identifier: MIT
// view: what a machine's branches were, from its log or from its trace stream. docs/view.md
#include "tools/view/view.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct command {
	const char *name, *does;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"panic", "functions, lines and a call tree for the branches in a console log", view_panic},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *out)
{
	fprintf(out,
		"usage: view COMMAND [options] FILE; `view COMMAND --help` lists the options\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].does);
	fprintf(out, "\nexit: 0 well, 1 the input is wrong, 2 the command line is wrong\n");
}

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

int main(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		usage(stdout);
		return 0;
	}
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(argv[1], commands[i].name)) {
			int code = commands[i].run(argc - 1, argv + 1);

			if (fflush(stdout) || ferror(stdout))
				fail("standard output: %s", strerror(errno));
			return code;
		}
	fprintf(stderr, "view: there is no command '%s'\n\n", argv[1]);
	usage(stderr);
	return EXIT_USAGE;
}
