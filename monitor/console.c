/* SPDX-License-Identifier: MIT */
#include "monitor/console.h"

#include <stdarg.h>

#include "lib/format.h"
#include "lib/io.h"
#include "lib/uart.h"

enum { DEBUG_EXIT_PORT = 0xf4 };

static struct uart uart;
static bool debugcon;
static bool leave_at_end;

void console_open(uint16_t port, uint32_t baud)
{
	uart = (struct uart){0};
	if (port)
		uart_init(&uart, port, baud);
	debugcon = debugcon_present();
}

void console_exit_at_end(bool leave)
{
	leave_at_end = leave;
}

static void put(char c)
{
	if (uart.base) {
		if (c == '\n')
			uart_put(&uart, '\r');
		uart_put(&uart, c);
	}
	if (debugcon)
		debugcon_put(c);
}

static void put_text(const char *text)
{
	while (*text)
		put(*text++);
}

static void put_line(const char *template, va_list arguments)
{
	char line[400];

	vformat(line, sizeof(line), template, arguments);
	put_text("# monitor: ");
	put_text(line);
	put('\n');
}

void say(const char *template, ...)
{
	va_list arguments;

	va_start(arguments, template);
	put_line(template, arguments);
	va_end(arguments);
}

void end_run(enum verdict verdict, const char *template, ...)
{
	va_list arguments;

	/* The guest may have been in the middle of a line. */
	put('\n');
	va_start(arguments, template);
	put_line(template, arguments);
	va_end(arguments);
	if (leave_at_end)
		outb(DEBUG_EXIT_PORT, (uint8_t)verdict);
	for (;;)
		__asm__ volatile("cli; hlt");
}
