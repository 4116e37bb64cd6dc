// SPDX-License-Identifier: MIT
#include "monitor/options.h"

#include "drivers/console/uart.h"
#include "lib/cmdline.h"
#include "lib/format.h"
#include "lib/string.h"
#include "monitor/defect.h"
#include "monitor/unit.h"

enum { END_HALT, END_EXIT };
enum { LOCKSTEP_OFF, LOCKSTEP_ON };
enum { STACK_OFF, STACK_ON };

#define BAUD_UNSAID UINT64_MAX
#define BAUD_USUAL  115200

/* The words of the command line, as given. */
static struct {
	char vbts[sizeof(((struct options *)0)->variants)], profile[40], kinds[40], present[40],
		defect[80], erratum[40], console[sizeof(((struct options *)0)->console)];
	int lockstep, interpret, stack, end;
	int added[UNITS];
	uint64_t baud;
} given;

static const char *const vbts_names[] = {
	[VBTS_AUTO] = "auto", [VBTS_ON] = "on", [VBTS_OFF] = "off"};

static bool apply_inert(struct options *options, const char *word)
{
	static const char prefix[] = "inert=";

	if (strncmp(word, prefix, sizeof(prefix) - 1) != 0)
		return false;
	options->inert = unit_find(word + sizeof(prefix) - 1);
	return options->inert;
}

/* "auto", "on", "off", "list", a variant, or a unit that is inert. */
static bool apply_vbts(struct options *options, const char *word)
{
	for (unsigned i = 0; i < sizeof(vbts_names) / sizeof(vbts_names[0]); i++)
		if (strcmp(word, vbts_names[i]) == 0) {
			options->vbts = (enum vbts)i;
			return true;
		}
	if (strcmp(word, "list") == 0) {
		options->list_variants = true;
		return true;
	}
	if (!apply_inert(options, word) && !variant_apply(&options->behaviour, word))
		return false;
	format(options->variants + strlen(options->variants),
	       sizeof(options->variants) - strlen(options->variants), "%s%s",
	       options->variants[0] ? "," : "", word);
	return true;
}

static bool read_vbts(struct options *options, char *words, char *error, size_t error_size)
{
	while (words) {
		char *comma = strchr(words, ',');

		if (comma)
			*comma = '\0';
		if (!apply_vbts(options, words)) {
			format(error, error_size,
			       "vbts=%s is unknown; it is auto, on, off, one of what vbts=list "
			       "prints, or inert= with a unit, separated by commas",
			       words);
			return false;
		}
		words = comma ? comma + 1 : NULL;
	}
	return true;
}

/* Before the variants, which may differ from the profile's own behaviour. */
static bool read_profile(struct options *options, const char *name, char *error, size_t error_size)
{
	options->profile = *name ? profile_find(name) : profile_get(0);
	if (options->profile)
		behaviour_of_profile(&options->behaviour, options->profile);
	else
		format(error, error_size, "profile=%s is unknown; vbts=list prints all", name);
	return options->profile;
}

/* A profile's name, with +UNIT where it is given one. */
static bool read_kinds(struct options *options, char *name, char *error, size_t error_size)
{
	char *plus = strchr(name, '+');

	if (!*name)
		return true;
	if (plus)
		*plus = '\0';
	options->other = profile_find(name);
	if (options->other && plus)
		options->other_added = unit_to_add(plus + 1, options->other);
	if (options->other && (!plus || options->other_added))
		return true;
	if (plus)
		*plus = '+';
	format(error, error_size,
	       "kinds=%s is unknown; it is one of the profiles that vbts=list prints, or with +UNIT "
	       "one that can be given this unit",
	       name);
	options->other = NULL;
	return false;
}

static bool read_added(struct options *options, char *error, size_t error_size)
{
	for (unsigned i = 0; i < UNITS; i++) {
		if (!given.added[i])
			continue;
		if (!unit_to_add(units[i]->name, options->profile)) {
			format(error, error_size, "%s=on: profile=%s cannot have this unit",
			       units[i]->name, options->profile->name);
			return false;
		}
		options->added |= 1u << i;
	}
	return true;
}

/* Between the two: its rules are part of the processor that the guest meets. */
static bool read_present(struct options *options, const char *name, char *error, size_t error_size)
{
	if (!*name)
		return true;
	options->hypervisor = hypervisor_find(name);
	if (!options->hypervisor) {
		format(error, error_size, "present=%s is unknown; vbts=list prints all", name);
		return false;
	}
	hypervisor_adjust(options->hypervisor, options->profile, &options->behaviour);
	return true;
}

static bool read_defect(struct options *options, const char *name, char *error, size_t error_size)
{
	options->list_defects = strcmp(name, "list") == 0;
	if (!*name || options->list_defects)
		return true;
	options->defect = defect_find(name);
	if (!options->defect)
		format(error, error_size, "defect=%s is unknown; defect=list prints all", name);
	return options->defect;
}

static bool read_erratum(struct options *options, const char *id, char *error, size_t error_size)
{
	options->list_errata = strcmp(id, "list") == 0;
	if (!*id || options->list_errata)
		return true;
	if (options->defect) {
		format(error, error_size, "one of defect= and erratum= at a time");
		return false;
	}
	options->defect = erratum_find(id);
	if (!options->defect)
		format(error, error_size, "erratum=%s is unknown; erratum=list prints all", id);
	return options->defect;
}

static bool read_baud(struct options *options, uint64_t baud, char *error, size_t error_size)
{
	options->baud = BAUD_USUAL;
	options->baud_said = baud != BAUD_UNSAID;
	if (!options->baud_said)
		return true;
	if (uart_can_give((uint32_t)baud)) {
		options->baud = (uint32_t)baud;
		return true;
	}
	format(error, error_size,
	       "baud=%lu: a serial port gives 300 to 115200, near a divisor of 115200", baud);
	return false;
}

static const struct option table[] = {
	{TEXT_OPTION("vbts", given.vbts)},
	{TEXT_OPTION("profile", given.profile)},
	{TEXT_OPTION("kinds", given.kinds)},
	{TEXT_OPTION("present", given.present)},
	{TEXT_OPTION("defect", given.defect)},
	{TEXT_OPTION("erratum", given.erratum)},
	{CHOICE_OPTION("lockstep", given.lockstep, "off", "on")},
	{CHOICE_OPTION("interpret", given.interpret, "wanted", "traced", "always")},
	{CHOICE_OPTION("stack", given.stack, "off", "on")},
	{TEXT_OPTION("console", given.console)},
	{NUMBER_OPTION("baud", given.baud, 0, UINT32_MAX)},
	{CHOICE_OPTION("end", given.end, "halt", "exit")},
};

/* The words of the table, and NAME=on of each unit that is added. */
static bool read_words(const char *line, char *error, size_t error_size)
{
	static const char *const choices[] = {"off", "on", NULL};
	struct option all[sizeof(table) / sizeof(table[0]) + UNITS];
	size_t count = sizeof(table) / sizeof(table[0]);

	memcpy(all, table, sizeof(table));
	for (unsigned i = 0; i < UNITS; i++)
		if (units[i]->add)
			all[count++] = (struct option){.name = units[i]->name,
						       .kind = OPTION_CHOICE,
						       .target = &given.added[i],
						       .choices = choices};
	return cmdline_parse(line, all, count, error, error_size);
}

bool options_parse(struct options *options, const char *line, char *error, size_t error_size)
{
	char unused[80];
	bool valid, speed;

	memset(&given, 0, sizeof(given));
	memcpy(given.vbts, "auto", sizeof("auto"));
	given.baud = BAUD_UNSAID;
	valid = read_words(line, error, error_size);

	*options = (struct options){.vbts = VBTS_AUTO};
	options->lockstep = given.lockstep == LOCKSTEP_ON;
	options->interpret = (enum interpret)given.interpret;
	options->stack = given.stack == STACK_ON;
	options->end_exit = given.end == END_EXIT;
	memcpy(options->console, given.console, sizeof(options->console));
	speed = read_baud(options, given.baud, valid ? error : unused,
			  valid ? error_size : sizeof(unused));
	if (!valid || !speed || !read_defect(options, given.defect, error, error_size) ||
	    !read_erratum(options, given.erratum, error, error_size))
		return false;
	if (!given.profile[0] && options->defect && options->defect->profile)
		format(given.profile, sizeof(given.profile), "%s", options->defect->profile);
	return read_profile(options, given.profile, error, error_size) &&
	       read_added(options, error, error_size) &&
	       read_kinds(options, given.kinds, error, error_size) &&
	       read_present(options, given.present, error, error_size) &&
	       read_vbts(options, given.vbts, error, error_size);
}

void options_follow_kernel(struct options *options, const char *words)
{
	char console[sizeof(options->console)] = "auto", unused[80];
	uint64_t baud = BAUD_USUAL;
	const struct option both[] = {
		{TEXT_OPTION("console", console)},
		{NUMBER_OPTION("baud", baud, 0, UINT32_MAX)},
	};

	/* The other words are the kernel's to judge. */
	cmdline_parse(words, both, 2, unused, sizeof(unused));
	if (!options->console[0])
		memcpy(options->console, console, sizeof(console));
	if (!options->baud_said && uart_can_give((uint32_t)baud))
		options->baud = (uint32_t)baud;
}

/* QEMU, iPXE and GRUB Legacy do; GRUB 2 does not, under either protocol. */
const char *loader_words(const struct boot_info *info, const char *string)
{
	const char *words = strchr(string, ' ');

	if (info->protocol == BOOT_MULTIBOOT2 || strncmp(info->loader_name, "GRUB 2", 6) == 0)
		return string;
	return words ? words + 1 : string + strlen(string);
}
