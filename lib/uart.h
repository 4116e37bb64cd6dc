/* SPDX-License-Identifier: MIT */
/*
 * Polled 16550 UART by port I/O, and QEMU's debug console. Every wait is bounded: a wedged or
 * absent port costs a bounded time and loses characters, never the run. Any context, no lock.
 */
#ifndef SPOOR_LIB_UART_H
#define SPOOR_LIB_UART_H

#include <stdbool.h>
#include <stdint.h>

/* I/O bases of COM1 to COM4 as firmware places them. */
extern const uint16_t uart_com_bases[4];

struct uart {
	uint16_t base; /* 0: no port here */
	bool wedged;   /* the transmitter stayed busy past the bound: no more waiting for it */
};

/*
 * True if the divisor of 115200 that is nearest to `baud`, 300 to 115200, is off by 2 percent at
 * most: with a start bit and a stop bit a receiver bears about 4 percent of both ends together.
 */
bool uart_can_give(uint32_t baud);

/*
 * True, and 8N1 at `baud` (one that uart_can_give()) with FIFOs on, if a 16550 answers at `base`;
 * what the transmitter still held is let out first. Else false, and uart_put() on it does nothing.
 */
bool uart_init(struct uart *uart, uint16_t base, uint32_t baud);

/*
 * Sends `c` as it is. Waits for the transmitter up to some seconds, once: past that the port
 * counts as wedged, and characters are dropped without waiting until it is ready again.
 */
void uart_put(struct uart *uart, char c);

/* Waits, as long at most, until the last bit has left the machine: before it is switched off. */
void uart_flush(const struct uart *uart);

/* QEMU's isa-debugcon: true if port E9H reads back as E9H. */
bool debugcon_present(void);
void debugcon_put(char c);

#endif
