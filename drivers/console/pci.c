// SPDX-License-Identifier: MIT
#include "drivers/console/pci.h"

#include "lib/io.h"
#include "lib/string.h"

enum { CONFIG_ADDRESS = 0xcf8, CONFIG_DATA = 0xcfc };
enum { CLASS = 0x08, HEADER = 0x0c, BAR = 0x10 };
enum { BAR_IO = 1, BAR_64 = 4, BARS = 6 };
enum { UART_PORTS = 8, MOST_UARTS = 4 };
enum { BUSES = 256, SLOTS = 32 * 8 /* functions of a bus */ };
#define ENABLE	       0x80000000u
#define CLASS_SERIAL   0x0700
#define MOST_INTERFACE 6
#define HEADER_MULTI   0x800000

static void select(struct pci_function f, unsigned reg)
{
	outl(CONFIG_ADDRESS, ENABLE | (uint32_t)f.bus << 16 | (uint32_t)f.device << 11 |
				     (uint32_t)f.number << 8 | (reg & 0xfc));
}

uint32_t pci_read(struct pci_function f, unsigned reg, unsigned size)
{
	uint32_t before = inl(CONFIG_ADDRESS), value;
	uint16_t port = (uint16_t)(CONFIG_DATA + reg % 4);

	select(f, reg);
	value = size == 1 ? inb(port) : size == 2 ? inw(port) : inl(port);
	outl(CONFIG_ADDRESS, before);
	return value;
}

void pci_write(struct pci_function f, unsigned reg, uint32_t value, unsigned size)
{
	uint32_t before = inl(CONFIG_ADDRESS);
	uint16_t port = (uint16_t)(CONFIG_DATA + reg % 4);

	select(f, reg);
	if (size == 1)
		outb(port, (uint8_t)value);
	else if (size == 2)
		outw(port, (uint16_t)value);
	else
		outl(port, value);
	outl(CONFIG_ADDRESS, before);
}

static uint32_t get(struct pci_function f, unsigned reg)
{
	return pci_read(f, reg, 4);
}

static void set(struct pci_function f, unsigned reg, uint32_t value)
{
	pci_write(f, reg, value, 4);
}

/* The upper half of the register is status, where a 1 clears: it is written as 0. */
static void decode(struct pci_function f, uint32_t bits, bool on)
{
	uint32_t command = get(f, PCI_COMMAND) & 0xffff;

	set(f, PCI_COMMAND, on ? command | bits : command & ~bits);
}

void pci_enable(struct pci_function f, uint32_t bits)
{
	decode(f, bits, true);
}

/* Bytes of an I/O range, section 6.2.5.1; decoding is off meanwhile. */
static unsigned io_size(struct pci_function f, unsigned reg, uint32_t bar)
{
	uint32_t mask;

	decode(f, PCI_COMMAND_IO | PCI_COMMAND_MEMORY, false);
	set(f, reg, 0xffffffff);
	mask = get(f, reg);
	set(f, reg, bar);
	return (~(mask & ~3u) & 0xffff) + 1;
}

static unsigned io_ranges(struct pci_function f, struct pci_serial *found, unsigned most)
{
	uint32_t command = get(f, PCI_COMMAND) & 0xffff;
	unsigned count = 0;

	for (unsigned i = 0; i < BARS && count < most; i++) {
		unsigned reg = BAR + 4 * i, size;
		uint32_t bar = get(f, reg);

		if (!(bar & BAR_IO)) {
			i += (bar & BAR_64) != 0;
			continue;
		}
		if (!(bar & 0xfff8))
			continue;
		size = io_size(f, reg, bar);
		found[count] = (struct pci_serial){.function = f, .port = bar & 0xfff8};
		found[count].uarts =
			size / UART_PORTS < MOST_UARTS ? size / UART_PORTS : MOST_UARTS;
		count += size >= UART_PORTS;
	}
	set(f, PCI_COMMAND, command | (count ? PCI_COMMAND_IO : 0));
	return count;
}

static uint64_t memory_range(struct pci_function f)
{
	uint32_t bar = get(f, BAR);
	uint64_t physical = bar & ~15u;

	if (bar & BAR_IO)
		return 0;
	if (bar & BAR_64)
		physical |= (uint64_t)get(f, BAR + 4) << 32;
	return physical;
}

static unsigned serial_ports(struct pci_function f, struct pci_serial *found, unsigned most)
{
	unsigned count = io_ranges(f, found, most);

	if (count || !most)
		return count;
	found[0] = (struct pci_serial){.function = f, .uarts = 1, .memory = memory_range(f)};
	if (found[0].memory)
		decode(f, PCI_COMMAND_MEMORY, true);
	return 1;
}

static bool is_serial(struct pci_function f)
{
	uint32_t class = get(f, CLASS);

	return class >> 16 == CLASS_SERIAL && (class >> 8 & 0xff) <= MOST_INTERFACE;
}

static bool empty[BUSES]; /* as the walks since pci_serial_ports() found them */

/* Bridges lead to most buses; those that firmware's AML alone names are found as well. */
void pci_walk(bool (*visit)(struct pci_function function))
{
	outl(CONFIG_ADDRESS, ENABLE);
	if (inl(CONFIG_ADDRESS) != ENABLE)
		return;
	for (unsigned bus = 0; bus < BUSES; bus++) {
		if (empty[bus])
			continue;
		empty[bus] = true;
		for (unsigned slot = 0; slot < SLOTS; slot++) {
			struct pci_function f = {(uint8_t)bus, (uint8_t)(slot / 8), slot % 8};

			/* Not get(): most are absent, and in a guest each access exits. */
			select(f, PCI_ID);
			if (inl(CONFIG_DATA) == 0xffffffff) {
				slot += f.number ? 0 : 7;
				continue;
			}
			empty[bus] = false;
			if (visit(f))
				return;
			if (!f.number && !(get(f, HEADER) & HEADER_MULTI))
				slot += 7;
		}
	}
}

static struct {
	struct pci_serial *found;
	unsigned most, count;
} ports;

static bool visit(struct pci_function f)
{
	if (is_serial(f))
		ports.count += serial_ports(f, ports.found + ports.count, ports.most - ports.count);
	return false;
}

unsigned pci_serial_ports(struct pci_serial *found, unsigned most)
{
	ports.found = found;
	ports.most = most;
	ports.count = 0;
	memset(empty, 0, sizeof(empty));
	pci_walk(visit);
	return ports.count;
}
