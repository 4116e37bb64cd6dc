/* SPDX-License-Identifier: MIT */
#include "monitor/console.h"

#include <stdarg.h>

#include "lib/format.h"
#include "lib/io.h"
#include "lib/uart.h"
#include "monitor/host/lock.h"

enum { DEBUG_EXIT_PORT = 0xf4, END_PATIENCE = 1000000 };

static struct uart uart;
static bool debugcon;
static bool leave_at_end;
static void (*stop_others_at_end)(void);
static struct lock lock;

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

void console_open(uint16_t port, uint32_t baud)
{
	uart = (struct uart){0};
	if (port)
		uart_init(&uart, port, baud);
	debugcon = debugcon_present();
	put('\n'); /* firmware leaves the cursor, and terminal escapes, anywhere */
}

void console_flush(void)
{
	uart_flush(&uart);
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
	lock_take(&lock);
	put_line(template, arguments);
	lock_release(&lock);
	va_end(arguments);
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

void end_run(enum verdict verdict, const char *template, ...)
{
	va_list arguments;

	be_the_last();
	/* The guest may have been in the middle of a line. */
	put('\n');
	va_start(arguments, template);
	put_line(template, arguments);
	va_end(arguments);
	console_flush();
	if (leave_at_end)
		outb(DEBUG_EXIT_PORT, (uint8_t)verdict);
	for (;;)
		__asm__ volatile("cli; hlt");
}
