// SPDX-License-Identifier: MIT
/* Registers: National Semiconductor PC16550D data sheet, table II. */
#include "drivers/console/uart.h"

#include "lib/io.h"

const uint16_t uart_com_bases[4] = {0x3f8, 0x2f8, 0x3e8, 0x2e8};

enum {
	TRANSMIT = 0,	  /* DLAB = 0 */
	RECEIVE = 0,	  /* DLAB = 0 */
	DIVISOR_LOW = 0,  /* DLAB = 1 */
	DIVISOR_HIGH = 1, /* DLAB = 1 */
	INTERRUPTS = 1,	  /* DLAB = 0 */
	FIFO_CONTROL = 2,
	IDENTIFICATION = 2,
	LINE_CONTROL = 3,
	MODEM_CONTROL = 4,
	LINE_STATUS = 5,
	SCRATCH = 7,
};
enum { LINE_8N1 = 0x03, LINE_DLAB = 0x80 };
enum { FIFO_ENABLE_AND_CLEAR = 0x07, FIFO_IS_ENABLED = 0xc0 };
enum { MODEM_DTR = 0x01, MODEM_RTS = 0x02 };
enum {
	STATUS_RECEIVED = 0x01,
	STATUS_OVERRUN = 0x02, /* a read clears it */
	STATUS_HOLDING_EMPTY = 0x20,
	STATUS_ALL_EMPTY = 0x40,
};

#define CLOCK	   115200 /* baud at divisor 1 */
#define LEAST_BAUD 300

/*
 * Polls until a transmitter is given up. A poll takes about 1 us on a machine, where 16 characters
 * at 300 baud take 0.6 s; it takes about 0.2 us under an emulator, where the reader of the other
 * end may not be scheduled for a second.
 */
#define MOST_POLLS 5000000

static uint8_t get(const struct uart *uart, uint16_t reg)
{
	switch (uart->memory ? uart->size : 0) {
	case 1:
		return ((const volatile uint8_t *)uart->memory)[reg];
	case 2:
		return (uint8_t)((const volatile uint16_t *)uart->memory)[reg];
	case 4:
		return (uint8_t)((const volatile uint32_t *)uart->memory)[reg];
	}
	return inb((uint16_t)(uart->base + reg));
}

static void set(const struct uart *uart, uint16_t reg, uint8_t value)
{
	switch (uart->memory ? uart->size : 0) {
	case 1:
		((volatile uint8_t *)uart->memory)[reg] = value;
		return;
	case 2:
		((volatile uint16_t *)uart->memory)[reg] = value;
		return;
	case 4:
		((volatile uint32_t *)uart->memory)[reg] = value;
		return;
	}
	outb((uint16_t)(uart->base + reg), value);
}

static bool wait_for(const struct uart *uart, uint8_t status, unsigned polls)
{
	while (polls--) {
		if (get(uart, LINE_STATUS) & status)
			return true;
	}
	return false;
}

static bool scratch_holds(const struct uart *uart, uint8_t value)
{
	set(uart, SCRATCH, value);
	return get(uart, SCRATCH) == value;
}

static uint32_t divisor_for(uint32_t baud)
{
	return (CLOCK + baud / 2) / baud;
}

bool uart_can_give(uint32_t baud)
{
	uint32_t given, off;

	if (baud < LEAST_BAUD || baud > CLOCK)
		return false;
	given = CLOCK / divisor_for(baud);
	off = given > baud ? given - baud : baud - given;
	return off * 50 <= baud;
}

static void set_baud(struct uart *uart, uint32_t baud)
{
	uint32_t divisor = divisor_for(baud);

	set(uart, LINE_CONTROL, LINE_DLAB | LINE_8N1);
	set(uart, DIVISOR_LOW, (uint8_t)divisor);
	set(uart, DIVISOR_HIGH, (uint8_t)(divisor >> 8));
}

static bool begin(struct uart *uart, uint32_t baud)
{
	/* Where no port answers the bus reads as all ones. */
	if ((baud && !uart_can_give(baud)) || get(uart, LINE_STATUS) == 0xff ||
	    !scratch_holds(uart, 0x5a) || !scratch_holds(uart, 0xa5)) {
		*uart = (struct uart){0};
		return false;
	}
	wait_for(uart, STATUS_ALL_EMPTY, MOST_POLLS);
	set(uart, INTERRUPTS, 0);
	if (baud)
		set_baud(uart, baud);
	set(uart, LINE_CONTROL, LINE_8N1);
	set(uart, FIFO_CONTROL, FIFO_ENABLE_AND_CLEAR);
	set(uart, MODEM_CONTROL, MODEM_DTR | MODEM_RTS);
	return true;
}

bool uart_init(struct uart *uart, uint16_t base, uint32_t baud)
{
	*uart = (struct uart){.base = base};
	return base && begin(uart, baud);
}

bool uart_init_memory(struct uart *uart, volatile void *memory, uint8_t size, uint32_t baud)
{
	*uart = (struct uart){.memory = memory, .size = size};
	return memory && begin(uart, baud);
}

void uart_put(struct uart *uart, char c)
{
	if (!uart_is_open(uart))
		return;
	uart->wedged = !wait_for(uart, STATUS_HOLDING_EMPTY, uart->wedged ? 1 : MOST_POLLS);
	if (!uart->wedged)
		set(uart, TRANSMIT, (uint8_t)c);
}

void uart_flush(const struct uart *uart)
{
	if (uart_is_open(uart) && !uart->wedged)
		wait_for(uart, STATUS_ALL_EMPTY, MOST_POLLS);
}

static uint8_t look(struct uart *uart)
{
	uint8_t status = get(uart, LINE_STATUS);

	uart->overrun |= (status & STATUS_OVERRUN) != 0;
	return status;
}

bool uart_is_ready(struct uart *uart)
{
	return look(uart) & STATUS_HOLDING_EMPTY;
}

bool uart_has_received(struct uart *uart)
{
	return look(uart) & STATUS_RECEIVED || uart->overrun;
}

bool uart_is_empty(struct uart *uart)
{
	return look(uart) & STATUS_ALL_EMPTY;
}

/* A transmitter that is ready has its FIFO empty, or, being an 8250's, room for one byte. */
size_t uart_send(struct uart *uart, const uint8_t *bytes, size_t count)
{
	size_t room = UART_FIFO, sent = 0;

	if (!count || !uart_is_ready(uart))
		return 0;
	if ((get(uart, IDENTIFICATION) & FIFO_IS_ENABLED) != FIFO_IS_ENABLED)
		room = 1;
	while (sent < count && sent < room)
		set(uart, TRANSMIT, bytes[sent++]);
	return sent;
}

size_t uart_receive(struct uart *uart, uint8_t *bytes, size_t most)
{
	size_t count = 0;

	while (count < most && look(uart) & STATUS_RECEIVED)
		bytes[count++] = get(uart, RECEIVE);
	return count;
}

#define DEBUGCON_PORT 0xe9

bool debugcon_present(void)
{
	return inb(DEBUGCON_PORT) == 0xe9;
}

void debugcon_put(char c)
{
	outb(DEBUGCON_PORT, (uint8_t)c);
}
