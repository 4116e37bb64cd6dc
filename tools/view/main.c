// SPDX-License-Identifier: MIT
// view: what a machine's branches were, from its log or from its trace stream. docs/view.md
#include "tools/view/view.h"

#include <errno.h>
#include <string.h>

static const struct command {
	const char *name, *does;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"panic", "functions, lines and a call tree for the branches in a console log", view_panic},
	{"rx", "receive a trace stream from a line, and check it", view_rx},
	{"dump", "a trace, a record a line", view_dump},
	{"check", "whether a trace can be what the code did; TAP", view_check},
	{"stats", "how much of what a trace has, and its hottest branches", view_stats},
	{"stacks", "how often each stack of calls, or of branches, was sampled", view_stacks},
	{"calls", "the calls of each task, indented, with instructions and lines", view_calls},
	{"diff", "the first branch in which two runs of a task differ", view_diff},
	{"same", "whether BTS and Processor Trace have the same branches", view_same},
	{"html", "one page that a browser opens without a network", view_html},
	{"perfetto", "a trace for ui.perfetto.dev", view_perfetto},
	{"record", "run a program in a Linux on virtual silicon: its branches, and a page",
	 view_record},
	{"perf", "perf.data, which the perf of Linux reads", view_perf},
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
			char name[32];
			int code;

			snprintf(name, sizeof(name), "view %s", commands[i].name);
			argv[1] = name;
			code = commands[i].run(argc - 1, argv + 1);

			if (fflush(stdout) || ferror(stdout))
				fail("standard output: %s", strerror(errno));
			return code;
		}
	fprintf(stderr, "view: there is no command '%s'\n\n", argv[1]);
	usage(stderr);
	return EXIT_USAGE;
}
