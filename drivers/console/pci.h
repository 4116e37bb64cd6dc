/* SPDX-License-Identifier: MIT */
/* Serial ports on PCI, by configuration mechanism #1 (PCI Local Bus 3.0 section 3.2.2.3.2). */
#ifndef SPOOR_DRIVERS_CONSOLE_PCI_H
#define SPOOR_DRIVERS_CONSOLE_PCI_H

#include <stdbool.h>
#include <stdint.h>

/* A function of class 07H, subclass 00H, programming interface 00H to 06H: 8250 to 16950. */
struct pci_serial {
	uint8_t bus, device, function;
	uint16_t port;	 /* first I/O port, 8 for each UART; 0: see `memory` */
	unsigned uarts;	 /* how many UARTs the range at `port` or `memory` has room for, 1 to 4 */
	uint64_t memory; /* physical; registers are one byte apart; 0: none */
};

/*
 * Fills `found` with at most `most` ranges of serial ports of every bus of segment 0, and returns
 * how many: one for each I/O range of a function, else one for its first memory range. It turns
 * their decoding on where firmware left that off. A function to which firmware gave no address has
 * neither port nor memory. Early boot, one CPU: it sizes the I/O ranges.
 */
unsigned pci_serial_ports(struct pci_serial *found, unsigned most);

#endif
