/* SPDX-License-Identifier: MIT */
/*
 * Polled 16550 UART in I/O or memory space, and QEMU's debug console. Every wait is bounded: a
 * wedged or absent port costs a bounded time and loses characters, never the run. Any context, no
 * lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* I/O bases of COM1 to COM4 as firmware places them. */
extern const uint16_t uart_com_bases[4];

struct uart {
	uint16_t base;	       /* I/O port of its first register; 0: not a port */
	volatile void *memory; /* its registers in memory; NULL: none */
	uint8_t size; /* in memory: bytes of an access, and to the next register: 1, 2, 4 */
	bool wedged;  /* the transmitter stayed busy past the bound: no more waiting for it */
	bool overrun; /* uart_send() or uart_receive() has met the loss of received bytes */
};

/*
 * True if the divisor of 115200 that is nearest to `baud`, 300 to 115200, is off by 2 percent at
 * most: with a start bit and a stop bit a receiver bears about 4 percent of both ends together.
 */
bool uart_can_give(uint32_t baud);

/*
 * True, and 8N1 at `baud` (0, or one that uart_can_give()) with FIFOs on, if a 16550 answers at
 * `base`; what the transmitter still held is let out first. Else false, and uart_put() on it does
 * nothing.
 */
bool uart_init(struct uart *uart, uint16_t base, uint32_t baud);

/*
 * The same for registers at `memory`, `size` bytes apart and accessed as `size` bytes: 1, 2 or 4.
 * With `baud` 0 the divisor stays as firmware set it, here and in uart_init(): the clock of such a
 * port may be any.
 */
bool uart_init_memory(struct uart *uart, volatile void *memory, uint8_t size, uint32_t baud);

/* Whether one of the two found a port. */
static inline bool uart_is_open(const struct uart *uart)
{
	return uart->base || uart->memory;
}

/*
 * Sends `c` as it is. Waits for the transmitter up to some seconds, once: past that the port
 * counts as wedged, and characters are dropped without waiting until it is ready again.
 */
void uart_put(struct uart *uart, char c);

/* Waits, as long at most, until the last bit has left the machine: before it is switched off. */
void uart_flush(const struct uart *uart);

/*
 * Without waiting: sends the first of `count` bytes, as many as the transmitter takes at once, or
 * takes up to `most` that were received. They return how many. An open port; any context, the
 * caller serialises.
 */
#define UART_FIFO 16
size_t uart_send(struct uart *uart, const uint8_t *bytes, size_t count);
size_t uart_receive(struct uart *uart, uint8_t *bytes, size_t most);

/*
 * Whether uart_send() would send a byte; whether there is one to receive, or a loss to be told;
 * whether all that was sent has left the machine.
 */
bool uart_is_ready(struct uart *uart);
bool uart_has_received(struct uart *uart);
bool uart_is_empty(struct uart *uart);

/* QEMU's isa-debugcon: true if port E9H reads back as E9H. */
bool debugcon_present(void);
void debugcon_put(char c);
