/* SPDX-License-Identifier: MIT */
/*
 * Polled 16550 UART behind port I/O, and QEMU's debug console. Every wait is bounded: a wedged or
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
	bool wedged;   /* the transmitter stayed busy past the bound; nothing more is sent */
};

/* True, and 8N1 at `baud` (1..115200) with FIFOs on, if a 16550 answers at `base`. */
bool uart_init(struct uart *uart, uint16_t base, uint32_t baud);
void uart_put(struct uart *uart, char c);

/* QEMU's isa-debugcon: true if port E9H reads back as E9H. */
bool debugcon_present(void);
void debugcon_put(char c);

#endif
