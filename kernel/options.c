// SPDX-License-Identifier: MIT
#include "kernel/options.h"

#include "drivers/clock/tsc.h"
#include "lib/cmdline.h"

struct options options = {
	.repeat = 1,
	.from = 1,
	.restart = 16,
	.scale = 100,
	.timeout = 60,
	.console = "auto",
	.baud = 115200,
	.end = END_HALT,
	.trace_unit = "bts",
	.trace_size = 128 << 10,
	.trace_packets = 4 << 20,
};

static const struct option words[] = {
	{TEXT_OPTION("test", options.test)},
	{TEXT_OPTION("require", options.require)},
	{TEXT_OPTION("group", options.group)},
	{TEXT_OPTION("units", options.units)},
	{FLAG_OPTION("list", options.list)},
	{CHOICE_OPTION("unsafe", options.unsafe, "auto", "0", "1", "force")},
	{NUMBER_OPTION("repeat", options.repeat, 1, 1000000)},
	{NUMBER_OPTION("from", options.from, 1, UINT32_MAX)},
	{NUMBER_OPTION("restart", options.restart, 0, 1000)},
	{NUMBER_OPTION("scale", options.scale, 1, 100000)},
	{NUMBER_OPTION("seed", options.seed, 0, UINT64_MAX)},
	{NUMBER_OPTION("timeout", options.timeout, 1, 86400)},
	{FLAG_OPTION("x2apic", options.x2apic)},
	{CHOICE_OPTION("freeze", options.freeze, "none", "fault", "overflow", "panic")},
	{TEXT_OPTION("console", options.console)},
	{NUMBER_OPTION("baud", options.baud, 0, UINT32_MAX)},
	{TEXT_OPTION("machine", options.machine)},
	{TEXT_OPTION("mac", options.mac)},
	{CHOICE_OPTION("end", options.end, "halt", "exit", "reboot", "poweroff")},
	{TEXT_OPTION("export", options.export)},
	{CHOICE_OPTION("trace", options.trace, "programs", "tests", "cpus")},
	{TEXT_OPTION("trace_unit", options.trace_unit)},
	{CHOICE_OPTION("trace_view", options.trace_view, "default", "user", "kernel", "both")},
	{CHOICE_OPTION("trace_mode", options.trace_mode, "whole", "wrap", "stop")},
	{NUMBER_OPTION("trace_size", options.trace_size, 4096, 64 << 20)},
	{NUMBER_OPTION("trace_packets", options.trace_packets, 4096, 256 << 20)},
	{FLAG_OPTION("trace_raw", options.trace_raw)},
};

const char *options_read(const char *line)
{
	static char error[512];
	bool valid =
		cmdline_parse(line, words, sizeof(words) / sizeof(words[0]), error, sizeof(error));

	/* Another one in each run, and short enough to be typed again. */
	if (!options.seed)
		options.seed = (uint32_t)tsc_read() | 1;
	return valid ? NULL : error;
}
