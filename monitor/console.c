// SPDX-License-Identifier: MIT
#include "monitor/console.h"

#include <stdarg.h>

#include "drivers/console/console.h"
#include "drivers/console/screen.h"
#include "lib/format.h"
#include "lib/io.h"
#include "monitor/host/lock.h"
#include "monitor/memory.h"

enum { DEBUG_EXIT_PORT = 0xf4, END_PATIENCE = 1000000 };

static bool leave_at_end, screen_is_guests;
static void (*stop_others_at_end)(void);
static struct lock lock;

static const void *direct_memory(uint64_t physical, uint64_t bytes)
{
	uint64_t end = direct_end();

	return physical < end && bytes <= end - physical ? direct(physical) : NULL;
}

uint64_t console_physical(const void *object)
{
	return image_physical(object);
}

static void title_screen(void)
{
	if (console_has_screen())
		screen_title(" Spoor's monitor");
}

void console_start(const char *list, uint32_t baud, struct boot_info *info)
{
	const char *notes = console_open(list, baud, info, direct_memory);

	title_screen();
	console_write("\n"); /* firmware leaves the cursor, and terminal escapes, anywhere */
	if (*notes)
		say("console: %s", notes);
}

void console_moved(void)
{
	const char *notes = console_move(direct_memory);

	if (*notes)
		say("console: %s", notes);
}

void console_give_screen(void)
{
	screen_is_guests = true;
}

void console_exit_at_end(bool leave)
{
	leave_at_end = leave;
}

void console_stop_at_end(void (*stop_others)(void))
{
	stop_others_at_end = stop_others;
}

static void put_text(const char *text)
{
	console_write(text);
	if (console_has_screen() && !screen_is_guests)
		screen_write(text, SCREEN_GREY);
}

static void put_line(const char *line)
{
	put_text("# monitor: ");
	put_text(line);
	put_text("\n");
}

void say(const char *template, ...)
{
	char line[400];
	const char *lost;
	va_list arguments;

	va_start(arguments, template);
	vformat(line, sizeof(line), template, arguments);
	va_end(arguments);
	lock_take(&lock);
	put_line(line);
	lost = console_lost();
	lock_release(&lock);
	if (lost)
		say("console: %s takes no more characters", lost);
}

/* Returns on the first processor that ends the run, once no other writes. */
static void be_the_last(void)
{
	static struct lock ended;

	while (!lock_try(&ended))
		__asm__ volatile("cli; hlt");
	if (stop_others_at_end)
		stop_others_at_end();
	/* One that was stopped in the middle of a line keeps the lock. */
	for (unsigned i = 0; i < END_PATIENCE && !lock_try(&lock); i++)
		__asm__ volatile("pause");
}

/* The guest may have been in the middle of a line, and of drawing. */
static void take_back_console(void)
{
	console_write("\n");
	if (console_has_screen() && screen_is_guests) {
		screen_is_guests = false;
		screen_clear();
		title_screen();
	}
}

void end_run(enum verdict verdict, const char *template, ...)
{
	char line[400];
	const char *const lines[] = {line, "The monitor ended this run: later tests have no result",
				     "The machine has halted and can be switched off"};
	va_list arguments;

	be_the_last();
	va_start(arguments, template);
	vformat(line, sizeof(line), template, arguments);
	va_end(arguments);
	take_back_console();
	put_line(line);
	if (console_has_screen() && verdict != VERDICT_LISTED)
		screen_verdict(verdict == VERDICT_PANIC ? "PANIC" : "ERROR", SCREEN_RED, lines);
	console_flush();
	if (leave_at_end)
		outb(DEBUG_EXIT_PORT, (uint8_t)verdict);
	for (;;)
		__asm__ volatile("cli; hlt");
}
