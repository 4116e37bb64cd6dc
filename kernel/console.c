// SPDX-License-Identifier: MIT
#include "kernel/console.h"

#include "drivers/clock/clock.h"
#include "drivers/console/console.h"
#include "drivers/console/screen.h"
#include "kernel/code.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/mm/page.h"
#include "kernel/options.h"
#include "kernel/silicon.h"
#include "lib/format.h"
#include "lib/string.h"
#include "lib/version.h"

#define LINE_SIZE 512

static struct spinlock lock;
static bool lock_is_off;
static atomic_bool is_wanted; /* by the CPU that stops the others */

uint64_t console_physical(const void *object)
{
	return (uint64_t)object - KERNEL_BASE;
}

static uint64_t take_lock(void)
{
	while (!lock_is_off) {
		uint64_t flags = spin_lock(&lock);

		if (!atomic_load(&is_wanted))
			return flags;
		spin_unlock(&lock, flags);
	}
	return interrupts_save();
}

static void release_lock(uint64_t flags)
{
	if (lock_is_off)
		interrupts_restore(flags);
	else
		spin_unlock(&lock, flags);
}

static bool starts_with_one_of(const char *line, const char *const *starts)
{
	for (; *starts; starts++)
		if (!strncmp(line, *starts, strlen(*starts)))
			return true;
	return false;
}

/* Results that are good and figures are too many for a screen; the log has them. */
static void print_on_screen(const char *line)
{
	static const char *const hidden[] = {"ok ",	"# time ", "# obs ", "# bench ", "# beat ",
					     "# test ", "# unit=", "KTAP",   "1..",	 NULL};
	static const char *const bad[] = {"not ok",	  "# error",   "# panic",
					  "# unexpected", "Bail out!", NULL};

	while (*line == '\n')
		line++;
	if (*line && !starts_with_one_of(line, hidden))
		screen_write(line, starts_with_one_of(line, bad) ? SCREEN_RED : SCREEN_GREY);
}

void printk(const char *template, ...)
{
	char line[LINE_SIZE];
	const char *lost;
	va_list arguments;
	uint64_t flags;

	va_start(arguments, template);
	vformat(line, sizeof(line), template, arguments);
	va_end(arguments);
	flags = take_lock();
	console_write(line);
	if (console_has_screen())
		print_on_screen(line);
	lost = console_lost();
	release_lock(flags);
	if (lost)
		printk("# console: %s takes no more characters; the log goes on at %s\n", lost,
		       console_names());
}

void console_print_notes(const char *notes)
{
	while (*notes) {
		const char *end = strchr(notes, ';');
		size_t length = end ? (size_t)(end - notes) : strlen(notes);

		printk("# console: %.*s\n", (int)length, notes);
		notes += length + (end ? 2 : 0);
	}
}

void console_print_title(void)
{
	char title[100];

	format(title, sizeof(title),
	       " Spoor %s: a conformance suite for Intel's branch trace hardware", spoor_version);
	if (console_has_screen())
		screen_title(title);
}

void console_progress(unsigned n, unsigned all, const char *name)
{
	char text[100];
	uint64_t flags;

	if (!console_has_screen())
		return;
	format(text, sizeof(text), " %u of %u: %s", n, all, name);
	flags = take_lock();
	screen_progress(text);
	release_lock(flags);
}

static const char *what_was_tested(void)
{
	if (!strcmp(silicon_name(), "none"))
		return "Tested: nothing: this machine has no trace unit";
	if (silicon_is_virtual())
		return "Tested: virtual silicon of Spoor's monitor: it proves nothing about a chip";
	if (!silicon_is_foreign_guest())
		return "Tested: the trace units of this processor, without a hypervisor";
	return *silicon_mark()
		       ? "Tested: a rehearsal on virtual silicon: it proves nothing about a chip"
		       : "Tested: the trace units that a hypervisor shows";
}

static const char *what_comes_now(void)
{
	static const char *const sentences[] = {
		[END_HALT] = "This run is over; the machine has halted and can be switched off",
		[END_EXIT] =
			"This run is over; without an emulator to leave, the machine has halted",
		[END_REBOOT] = "This run is over; the machine restarts",
		[END_POWEROFF] = "This run is over; the machine switches itself off",
	};

	return sentences[options.end];
}

static void draw_code(const char *why, const char *done)
{
	const char *missing = code_draw(done, why);

	if (!missing)
		return;
	screen_write("# no code for a photograph: ", SCREEN_GREY);
	screen_write(missing, SCREEN_GREY);
	screen_write("\n", SCREEN_GREY);
}

void console_verdict(enum verdict verdict, const char *why, const char *done)
{
	const char *const lines[] = {why ? why : "", what_was_tested(), what_comes_now()};
	static const struct {
		const char *word;
		enum screen_colour colour;
	} verdicts[] = {
		[VERDICT_PASS] = {"PASS", SCREEN_GREEN},
		[VERDICT_FAIL] = {"FAIL", SCREEN_RED},
		[VERDICT_ERROR] = {"ERROR", SCREEN_RED},
		[VERDICT_ALL_SKIPPED] = {"SKIP", SCREEN_YELLOW},
		[VERDICT_PANIC] = {"PANIC", SCREEN_RED},
	};

	if (!console_has_screen() || options.list)
		return;
	draw_code(why, done);
	screen_verdict(verdicts[verdict].word, verdicts[verdict].colour, lines);
}

#define MOST_LINE 200000 /* microseconds: 512 characters take 44,000 at 115,200 baud */

void console_claim(void)
{
	uint64_t end = clock_us() + MOST_LINE;

	atomic_store(&is_wanted, true);
	while (!lock_is_off && atomic_load(&lock.held) && cpu_count() > 1 && clock_us() < end)
		__asm__ volatile("pause");
}

void console_unlock_for_good(void)
{
	if (!lock_is_off && atomic_load(&lock.held))
		console_write("\n");
	lock_is_off = true;
}
