// SPDX-License-Identifier: MIT
#include "kernel/console.h"

#include "drivers/screen/screen.h"
#include "kernel/lock.h"
#include "lib/format.h"
#include "lib/string.h"
#include "lib/uart.h"

#define LINE_SIZE 512

static struct spinlock lock;
static bool lock_is_off;
static struct uart uarts[4];
static bool debugcon, screen_wanted, screen;
static char names[48];

static void note(const char *name)
{
	size_t used = strlen(names);

	format(names + used, sizeof(names) - used, "%s%s", used ? "," : "", name);
}

static bool open_com(unsigned index, uint32_t baud)
{
	static const char *const com_names[] = {"com1", "com2", "com3", "com4"};

	if (!uart_init(&uarts[index], uart_com_bases[index], baud))
		return false;
	note(com_names[index]);
	return true;
}

static void open_debugcon(void)
{
	debugcon = debugcon_present();
	if (debugcon)
		note("debugcon");
}

static void open_auto(uint32_t baud)
{
	for (unsigned i = 0; i < 4; i++)
		if (open_com(i, baud))
			break;
	open_debugcon();
	screen_wanted = true;
}

static bool open_named(const char *word, size_t length, uint32_t baud)
{
	if (length == 4 && !strncmp(word, "auto", 4))
		open_auto(baud);
	else if (length == 4 && !strncmp(word, "com", 3) && word[3] >= '1' && word[3] <= '4')
		open_com((unsigned)(word[3] - '1'), baud);
	else if (length == 8 && !strncmp(word, "debugcon", 8))
		open_debugcon();
	else if (length == 6 && !strncmp(word, "screen", 6))
		screen_wanted = true;
	else
		return length == 4 && !strncmp(word, "none", 4);
	return true;
}

const char *console_init(const char *list, uint32_t baud)
{
	static char error[96];

	if (!uart_can_give(baud)) {
		format(error, sizeof(error),
		       "baud=%u: a serial port gives 300 to 115200, near a divisor of 115200",
		       baud);
		open_auto(115200);
		return error;
	}
	while (*list) {
		size_t length = 0;

		while (list[length] && list[length] != ',')
			length++;
		if (!open_named(list, length, baud)) {
			format(error, sizeof(error),
			       "console=%.*s: not one of auto com1 com2 com3 com4 debugcon screen none",
			       (int)(length < 16 ? length : 16), list);
			if (!names[0])
				open_auto(baud);
			return error;
		}
		list += length + (list[length] == ',');
	}
	return NULL;
}

void console_add_screen(void)
{
	screen = screen_wanted && screen_init();
	if (screen)
		note("screen");
}

const char *console_names(void)
{
	return names[0] ? names : "none";
}

static void put(char c)
{
	for (unsigned i = 0; i < 4; i++)
		if (uarts[i].base)
			uart_put(&uarts[i], c);
	if (debugcon)
		debugcon_put(c);
	if (screen)
		screen_put(c);
}

void printk(const char *template, ...)
{
	char line[LINE_SIZE];
	va_list arguments;
	uint64_t flags;

	va_start(arguments, template);
	vformat(line, sizeof(line), template, arguments);
	va_end(arguments);
	flags = lock_is_off ? interrupts_save() : spin_lock(&lock);
	for (const char *c = line; *c; c++) {
		if (*c == '\n')
			put('\r');
		put(*c);
	}
	if (lock_is_off)
		interrupts_restore(flags);
	else
		spin_unlock(&lock, flags);
}

void console_unlock_for_good(void)
{
	lock_is_off = true;
}

void console_flush(void)
{
	for (unsigned i = 0; i < sizeof(uarts) / sizeof(uarts[0]); i++)
		uart_flush(&uarts[i]);
}
