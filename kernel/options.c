// SPDX-License-Identifier: MIT
#include "kernel/options.h"

#include "drivers/clock/tsc.h"
#include "lib/cmdline.h"
#include "lib/console.h"

struct options options = {
	.repeat = 1,
	.scale = 100,
	.timeout = 60,
	.console = "auto",
	.baud = 115200,
	.end = END_HALT,
	.trace_size = 128 << 10,
	.trace_packets = 4 << 20,
};

static const char *const unsafe_choices[] = {"0", "1", "force", NULL};
static const char *const trace_choices[] = {"programs", "tests", "cpus", NULL};
static const char *const unit_choices[] = {"bts", "pt", "both", NULL};
static const char *const view_choices[] = {"default", "user", "kernel", "both", NULL};
static const char *const mode_choices[] = {"whole", "wrap", "stop", NULL};
static const char *const end_choices[] = {"halt", "exit", "reboot", "poweroff", NULL};

static const struct option words[] = {
	{.name = "test",
	 .help = "globs of test names; -glob leaves out",
	 .kind = OPTION_TEXT,
	 .target = options.test,
	 .size = sizeof(options.test)},
	{.name = "require",
	 .help = "globs of tests that may not be skipped",
	 .kind = OPTION_TEXT,
	 .target = options.require,
	 .size = sizeof(options.require)},
	{.name = "group",
	 .help = "groups of tests",
	 .kind = OPTION_TEXT,
	 .target = options.group,
	 .size = sizeof(options.group)},
	{.name = "list",
	 .help = "print the tests and end",
	 .kind = OPTION_FLAG,
	 .target = &options.list},
	{.name = "unsafe",
	 .help = "run what can hang a host",
	 .kind = OPTION_CHOICE,
	 .target = &options.unsafe,
	 .choices = unsafe_choices},
	{.name = "repeat",
	 .help = "times each test is run",
	 .kind = OPTION_NUMBER,
	 .target = &options.repeat,
	 .min = 1,
	 .max = 1000000},
	{.name = "scale",
	 .help = "percent of the amount of work",
	 .kind = OPTION_NUMBER,
	 .target = &options.scale,
	 .min = 1,
	 .max = 100000},
	{.name = "seed",
	 .help = "of everything random; 0: from the clock",
	 .kind = OPTION_NUMBER,
	 .target = &options.seed,
	 .min = 0,
	 .max = UINT64_MAX},
	{.name = "timeout",
	 .help = "seconds that one test may take",
	 .kind = OPTION_NUMBER,
	 .target = &options.timeout,
	 .min = 1,
	 .max = 86400},
	{.name = "x2apic",
	 .help = "drive the local APICs in x2APIC mode",
	 .kind = OPTION_FLAG,
	 .target = &options.x2apic},
	{.name = "console",
	 .help = "devices: " CONSOLE_WORDS,
	 .kind = OPTION_TEXT,
	 .target = options.console,
	 .size = sizeof(options.console)},
	{.name = "baud",
	 .help = "of the serial ports",
	 .kind = OPTION_NUMBER,
	 .target = &options.baud,
	 .min = 0,
	 .max = UINT32_MAX},
	{.name = "machine",
	 .help = "the name of this machine in the banner",
	 .kind = OPTION_TEXT,
	 .target = options.machine,
	 .size = sizeof(options.machine)},
	{.name = "mac",
	 .help = "the address of its network card in the banner",
	 .kind = OPTION_TEXT,
	 .target = options.mac,
	 .size = sizeof(options.mac)},
	{.name = "end",
	 .help = "what the machine does at the end",
	 .kind = OPTION_CHOICE,
	 .target = &options.end,
	 .choices = end_choices},
	{.name = "export",
	 .help = "where traces go: com1..com4 debugcon",
	 .kind = OPTION_TEXT,
	 .target = options.export,
	 .size = sizeof(options.export)},
	{.name = "trace",
	 .help = "what is exported",
	 .kind = OPTION_CHOICE,
	 .target = &options.trace,
	 .choices = trace_choices},
	{.name = "trace_unit",
	 .help = "what traces it",
	 .kind = OPTION_CHOICE,
	 .target = &options.trace_unit,
	 .choices = unit_choices},
	{.name = "trace_view",
	 .help = "which of its branches",
	 .kind = OPTION_CHOICE,
	 .target = &options.trace_view,
	 .choices = view_choices},
	{.name = "trace_mode",
	 .help = "all, the newest or the oldest of them",
	 .kind = OPTION_CHOICE,
	 .target = &options.trace_mode,
	 .choices = mode_choices},
	{.name = "trace_size",
	 .help = "bytes of a ring",
	 .kind = OPTION_NUMBER,
	 .target = &options.trace_size,
	 .min = 4096,
	 .max = 64 << 20},
	{.name = "trace_packets",
	 .help = "bytes of a CPU's buffer for Processor Trace",
	 .kind = OPTION_NUMBER,
	 .target = &options.trace_packets,
	 .min = 4096,
	 .max = 256 << 20},
	{.name = "trace_raw",
	 .help = "records as they are, not packed",
	 .kind = OPTION_FLAG,
	 .target = &options.trace_raw},
};

static char error[512];

bool options_read(const char *line)
{
	bool valid =
		cmdline_parse(line, words, sizeof(words) / sizeof(words[0]), error, sizeof(error));

	/* Another one in each run, and short enough to be typed again. */
	if (!options.seed)
		options.seed = (uint32_t)tsc_read() | 1;
	return valid;
}

const char *options_error(void)
{
	return error;
}
