// SPDX-License-Identifier: MIT
/* sources: drivers/console/uart.c */
#include "drivers/console/uart.h"

#include "lib/io.h"
#include "tests/host/host.h"

/* A 16550 at 3F8H, as far as a transmitter needs one. */
static struct {
	bool present, busy, scratch_stuck;
	uint8_t registers[8], divisor[2];
	unsigned polls, sent, received; /* `received`: how many wait to be read */
	bool has_fifo, overrun;
	char last;
} port;

static const uint16_t base = 0x3f8;

void outb(uint16_t where, uint8_t value)
{
	uint16_t reg = (uint16_t)(where - base);

	assert_true(reg < 8);
	if (reg < 2 && (port.registers[3] & 0x80)) {
		port.divisor[reg] = value;
	} else if (reg == 0) {
		assert_false(port.busy);
		port.sent++;
		port.last = (char)value;
	} else {
		port.registers[reg] = value;
	}
}

uint8_t inb(uint16_t where)
{
	uint16_t reg = (uint16_t)(where - base);

	if (where == 0xe9)
		return port.present ? 0xe9 : 0xff;
	if (!port.present)
		return 0xff;
	if (reg == 5) {
		uint8_t status =
			(port.busy ? 0 : 0x60) | (port.overrun ? 2 : 0) | (port.received ? 1 : 0);

		port.polls++;
		port.overrun = false;
		return status;
	}
	if (reg == 0 && port.received)
		return (uint8_t)port.received--;
	if (reg == 2)
		return port.has_fifo ? 0xc1 : 0x01;
	return reg == 7 && port.scratch_stuck ? 0 : port.registers[reg];
}

static int attach(void **state)
{
	__builtin_memset(&port, 0, sizeof(port));
	port.present = true;
	return 0;
}

UNIT(sends, .setup_func = attach)
{
	struct uart uart;

	assert_true(uart_init(&uart, base, 115200));
	assert_int_equal(port.divisor[0], 1);
	assert_int_equal(port.registers[3], 3); /* 8N1, DLAB clear */
	assert_int_equal(port.registers[1], 0); /* polled */
	uart_put(&uart, 'x');
	assert_int_equal(port.sent, 1);
	assert_int_equal(port.last, 'x');
}

UNIT(divides, .setup_func = attach)
{
	struct uart uart;

	assert_true(uart_init(&uart, base, 300));
	assert_int_equal(port.divisor[0] | port.divisor[1] << 8, 384);
	assert_true(uart_init(&uart, base, 38400));
	assert_int_equal(port.divisor[0] | port.divisor[1] << 8, 3);
	assert_false(uart_init(&uart, base, 299));
	assert_false(uart_init(&uart, base, 230400));
	assert_false(uart_init(&uart, 0, 9600));
}

UNIT(sends_what_there_is_room_for, .setup_func = attach)
{
	uint8_t bytes[40] = {0};
	struct uart uart;

	assert_true(uart_init(&uart, base, 115200));
	assert_int_equal(uart_send(&uart, bytes, 40), 1);
	port.has_fifo = true;
	assert_int_equal(uart_send(&uart, bytes, 40), 16);
	assert_int_equal(uart_send(&uart, bytes, 5), 5);
	assert_int_equal(uart_send(&uart, bytes, 0), 0);
	assert_true(uart_is_ready(&uart) && uart_is_empty(&uart));
	port.busy = true;
	port.polls = 0;
	assert_int_equal(uart_send(&uart, bytes, 40), 0);
	assert_int_equal(port.polls, 1);
	assert_int_equal(port.sent, 22);
	assert_false(uart_is_ready(&uart) || uart_is_empty(&uart));
}

/* Reading the status clears the bit, whichever function does it. */
UNIT(receives_and_says_what_was_lost, .setup_func = attach)
{
	uint8_t bytes[40];
	struct uart uart;

	assert_true(uart_init(&uart, base, 115200));
	assert_int_equal(uart_receive(&uart, bytes, 40), 0);
	port.received = 20;
	port.overrun = true;
	assert_true(uart_is_ready(&uart));
	assert_int_equal(uart_receive(&uart, bytes, 5), 5);
	assert_int_equal(bytes[0], 20);
	assert_int_equal(bytes[4], 16);
	assert_true(uart.overrun);
	assert_int_equal(uart_receive(&uart, bytes, 40), 15);
	assert_int_equal(bytes[14], 1);
	assert_true(uart_has_received(&uart));
	uart.overrun = false;
	assert_false(uart_has_received(&uart));
}

UNIT(absent, .setup_func = attach)
{
	struct uart uart;

	port.present = false;
	assert_false(uart_init(&uart, base, 115200));
	uart_put(&uart, 'x');
	assert_int_equal(port.sent, 0);
	assert_false(debugcon_present());

	port.present = true;
	port.scratch_stuck = true;
	assert_false(uart_init(&uart, base, 115200));
	assert_true(debugcon_present());
}

UNIT(wedges_and_recovers, .setup_func = attach)
{
	struct uart uart;

	assert_true(uart_init(&uart, base, 115200));
	port.busy = true;
	uart_put(&uart, 'a');
	assert_true(uart.wedged);
	port.polls = 0;
	uart_put(&uart, 'b');
	assert_int_equal(port.polls, 1); /* the long wait is paid once */
	assert_int_equal(port.sent, 0);
	port.busy = false;
	uart_put(&uart, 'c');
	assert_false(uart.wedged);
	assert_int_equal(port.last, 'c');
	assert_int_equal(port.sent, 1);
}
