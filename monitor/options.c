/* SPDX-License-Identifier: MIT */
#include "monitor/options.h"

#include "lib/cmdline.h"
#include "lib/string.h"
#include "lib/uart.h"

enum { END_HALT, END_EXIT };
enum { LOCKSTEP_OFF, LOCKSTEP_ON };
enum { CONSOLE_NONE = 4 };

static const char *const vbts_choices[] = {"auto", "on", "off", NULL};
static const char *const lockstep_choices[] = {"off", "on", NULL};
static const char *const end_choices[] = {"halt", "exit", NULL};
static const char *const console_choices[] = {"com1", "com2", "com3", "com4", "none", NULL};

bool options_parse(struct options *options, const char *line, char *error, size_t error_size)
{
	int vbts = VBTS_AUTO, lockstep = LOCKSTEP_OFF, end = END_HALT, console = 0;
	uint64_t baud = 115200;
	const struct option table[] = {
		{.name = "vbts",
		 .help = "virtual BTS: auto (on an emulator), on, off",
		 .kind = OPTION_CHOICE,
		 .target = &vbts,
		 .choices = vbts_choices},
		{.name = "lockstep",
		 .help = "check each interpreted instruction against the processor",
		 .kind = OPTION_CHOICE,
		 .target = &lockstep,
		 .choices = lockstep_choices},
		{.name = "console",
		 .help = "where the monitor speaks",
		 .kind = OPTION_CHOICE,
		 .target = &console,
		 .choices = console_choices},
		{.name = "baud",
		 .help = "speed of the console",
		 .kind = OPTION_NUMBER,
		 .target = &baud,
		 .min = 300,
		 .max = 115200},
		{.name = "end",
		 .help = "what follows an error: halt, or exit by isa-debug-exit",
		 .kind = OPTION_CHOICE,
		 .target = &end,
		 .choices = end_choices},
	};
	bool valid =
		cmdline_parse(line, table, sizeof(table) / sizeof(table[0]), error, error_size);

	options->vbts = (enum vbts)vbts;
	options->lockstep = lockstep == LOCKSTEP_ON;
	options->end_exit = end == END_EXIT;
	options->console_port = console == CONSOLE_NONE ? 0 : uart_com_bases[console];
	options->baud = (uint32_t)baud;
	return valid;
}

/* QEMU, iPXE and GRUB Legacy do; GRUB 2 does not, under either protocol. */
const char *loader_words(const struct boot_info *info, const char *string)
{
	const char *words = strchr(string, ' ');

	if (info->protocol == BOOT_MULTIBOOT2 || strncmp(info->loader_name, "GRUB 2", 6) == 0)
		return string;
	return words ? words + 1 : string + strlen(string);
}
