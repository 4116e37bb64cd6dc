// SPDX-License-Identifier: MIT
/* The monitor's steps, in order. */
#include "lib/acpi.h"
#include "lib/boot_info.h"
#include "lib/checksum.h"
#include "lib/string.h"
#include "lib/version.h"
#include "monitor/boot/information.h"
#include "monitor/boot/kernel.h"
#include "monitor/boot/relocate.h"
#include "monitor/console.h"
#include "monitor/decision.h"
#include "monitor/host/lapic.h"
#include "monitor/host/traps.h"
#include "monitor/options.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/processor.h"

#define LOAD 0x100000ul /* linker.ld */

static struct boot_info info;

/* linker.ld: what is loaded, and what tools/checksum wrote. */
extern const uint64_t image_start[], text_loaded_end[], rodata_start[], rodata_loaded_end[];
extern const uint64_t data_start[], image_checksum[];
extern const char boot_loaded_end[];

/* Before anything is written to. */
static bool image_is_whole(void)
{
	uint64_t sum = checksum(0, direct(LOAD), direct((uint64_t)boot_loaded_end));

	sum = checksum(sum, image_start, text_loaded_end);
	sum = checksum(sum, rodata_start, rodata_loaded_end);
	return checksum(sum, data_start, image_checksum) == *image_checksum;
}

static const void *boot_memory_below_4_gib(uint64_t physical, uint64_t bytes)
{
	return physical + bytes <= 4 * GIB ? direct(physical) : NULL;
}

static struct options start(uint32_t magic, uint64_t information)
{
	char error[300];
	struct options options;
	const char *fault;
	bool understood, whole = image_is_whole();

	traps_init();
	fault = boot_info_read(&info, magic, information, boot_memory_below_4_gib);
	understood = options_parse(&options, loader_words(&info, info.command_line), error,
				   sizeof(error));
	options_follow_kernel(&options,
			      info.module_count ? loader_words(&info, info.modules[0].string) : "");
	console_start(options.console, options.baud, &info);
	console_exit_at_end(options.end_exit);
	say("Spoor %s (%s), loaded by %s", spoor_version, spoor_git,
	    info.loader_name[0] ? info.loader_name : "a loader without a name");
	if (!whole)
		end_run(VERDICT_ERROR, "the monitor is damaged: its checksum is not that of what "
				       "was built");
	if (fault)
		end_run(VERDICT_ERROR, "%s", fault);
	if (!understood)
		end_run(VERDICT_ERROR, "%s", error);
	choice_list(&options);
	if (!info.module_count)
		end_run(VERDICT_ERROR, "no kernel to run: the loader gave no module");
	return options;
}

/* The guest meets the processors that the monitor can run, and no others. True: there is one. */
static bool limit_processors(void)
{
	static struct acpi_tables tables;
	unsigned listed = 0, left = 0, possible = 0;

	acpi_read_tables(&info, boot_memory_below_4_gib, &tables);
	for (unsigned i = 0; i < tables.count; i++) {
		uint8_t *madt = (uint8_t *)(uintptr_t)tables.table[i];
		uint32_t length = tables.table[i]->length;

		if (memcmp(tables.table[i]->signature, "APIC", 4) != 0)
			continue;
		possible += information_count_processors(madt, length);
		left = information_limit_processors(madt, length, MOST_PROCESSORS, lapic_id(),
						    &listed);
	}
	if (left < listed)
		say("%u of %u processors are used: the monitor runs %u, with APIC IDs below 255; "
		    "the others are disabled in the MADT",
		    left, listed, MOST_PROCESSORS);
	return possible == 1;
}

void monitor_main(uint32_t magic, uint64_t information)
{
	struct options options = start(magic, information);
	struct residence residence;
	struct decision decision;
	struct kernel_entry kernel;
	struct range taken;
	uint64_t wake_page;
	uint32_t entry;
	bool one;

	clear_leftover_tracing();
	acpi_find_rsdp(&info, boot_memory_below_4_gib);
	residence = relocate(&info, modules_size(&info), processors_memory());
	console_moved();
	modules_copy(&info, residence.copies.start);
	taken = (struct range){residence.copies.start, residence.hidden.end};
	entry = kernel_load(&info, taken);

	decision = decide(options.vbts);
	say("%s", decision.reason);
	choice_announce(&options, decision.run_as_guest);
	if (decision.run_as_guest && !memory_reserve(&info, residence.hidden))
		end_run(VERDICT_ERROR, "the memory map has no room for the monitor's own range");
	wake_page = decision.run_as_guest ? low_page_reserve(&info) : 0;
	kernel = kernel_inform(&info, taken, entry);
	console_give_screen();
	one = decision.run_as_guest && limit_processors();
	if (decision.run_as_guest)
		guest_run(&info, &residence, &kernel, wake_page, choice_make(&options),
			  choice_make_other(&options), options.lockstep, one);
	handover(&kernel, residence.root);
}
