/* SPDX-License-Identifier: MIT */
/*
 * Configuration space of PCI's segment 0, by mechanism #1 (PCI Local Bus 3.0, section 3.2.2.3.2),
 * and the consoles that are there. The caller serialises; any context. An access leaves the address
 * register as it was, so that a monitor may use it while its guest does; a walk does not.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pci_function {
	uint8_t bus, device, number;
};

/* Offsets in configuration space, and bits of the command register. */
enum { PCI_ID = 0x00, PCI_COMMAND = 0x04 };
enum { PCI_COMMAND_IO = 1, PCI_COMMAND_MEMORY = 2, PCI_COMMAND_MASTER = 4 };

/* An access of `size` bytes, 1, 2 or 4; `reg` is a multiple of it. */
uint32_t pci_read(struct pci_function function, unsigned reg, unsigned size);
void pci_write(struct pci_function function, unsigned reg, uint32_t value, unsigned size);

/* Sets `bits` of the command register. */
void pci_enable(struct pci_function function, uint32_t bits);

/* Calls `visit` for each function until it returns true. A bus that a walk since the last
   pci_serial_ports() found empty is not walked again. Early boot, one CPU. */
void pci_walk(bool (*visit)(struct pci_function function));

/* A function of class 07H, subclass 00H, programming interface 00H to 06H: 8250 to 16950. */
struct pci_serial {
	struct pci_function function;
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
