// SPDX-License-Identifier: MIT
#include "drivers/console/pci.h"

#include "lib/io.h"

enum { CONFIG_ADDRESS = 0xcf8, CONFIG_DATA = 0xcfc };
enum { ID = 0x00, COMMAND = 0x04, CLASS = 0x08, HEADER = 0x0c, BAR = 0x10 };
enum { COMMAND_IO = 1, COMMAND_MEMORY = 2 };
enum { BAR_IO = 1, BAR_64 = 4, BARS = 6 };
enum { UART_PORTS = 8, MOST_UARTS = 4 };
enum { BUSES = 256, SLOTS = 32 * 8 /* functions of a bus */ };
#define ENABLE	       0x80000000u
#define CLASS_SERIAL   0x0700
#define MOST_INTERFACE 6
#define HEADER_MULTI   0x800000

struct function {
	uint8_t bus, device, number;
};

static void select(struct function f, unsigned reg)
{
	outl(CONFIG_ADDRESS, ENABLE | (uint32_t)f.bus << 16 | (uint32_t)f.device << 11 |
				     (uint32_t)f.number << 8 | reg);
}

static uint32_t get(struct function f, unsigned reg)
{
	select(f, reg);
	return inl(CONFIG_DATA);
}

static void set(struct function f, unsigned reg, uint32_t value)
{
	select(f, reg);
	outl(CONFIG_DATA, value);
}

/* The upper half of the register is status, where a 1 clears: it is written as 0. */
static void decode(struct function f, uint32_t bits, bool on)
{
	uint32_t command = get(f, COMMAND) & 0xffff;

	set(f, COMMAND, on ? command | bits : command & ~bits);
}

/* Bytes of an I/O range, section 6.2.5.1; decoding is off meanwhile. */
static unsigned io_size(struct function f, unsigned reg, uint32_t bar)
{
	uint32_t mask;

	decode(f, COMMAND_IO | COMMAND_MEMORY, false);
	set(f, reg, 0xffffffff);
	mask = get(f, reg);
	set(f, reg, bar);
	return (~(mask & ~3u) & 0xffff) + 1;
}

static struct pci_serial range_of(struct function f)
{
	return (struct pci_serial){.bus = f.bus, .device = f.device, .function = f.number};
}

static unsigned io_ranges(struct function f, struct pci_serial *found, unsigned most)
{
	uint32_t command = get(f, COMMAND) & 0xffff;
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
		found[count] = range_of(f);
		found[count].port = bar & 0xfff8;
		found[count].uarts =
			size / UART_PORTS < MOST_UARTS ? size / UART_PORTS : MOST_UARTS;
		count += size >= UART_PORTS;
	}
	set(f, COMMAND, command | (count ? COMMAND_IO : 0));
	return count;
}

static uint64_t memory_range(struct function f)
{
	uint32_t bar = get(f, BAR);
	uint64_t physical = bar & ~15u;

	if (bar & BAR_IO)
		return 0;
	if (bar & BAR_64)
		physical |= (uint64_t)get(f, BAR + 4) << 32;
	return physical;
}

static unsigned serial_ports(struct function f, struct pci_serial *found, unsigned most)
{
	unsigned count = io_ranges(f, found, most);

	if (count || !most)
		return count;
	found[0] = range_of(f);
	found[0].memory = memory_range(f);
	found[0].uarts = 1;
	if (found[0].memory)
		decode(f, COMMAND_MEMORY, true);
	return 1;
}

static bool is_serial(struct function f)
{
	uint32_t class = get(f, CLASS);

	return class >> 16 == CLASS_SERIAL && (class >> 8 & 0xff) <= MOST_INTERFACE;
}

/* Bridges lead to most buses; those that firmware's AML alone names are found as well. */
unsigned pci_serial_ports(struct pci_serial *found, unsigned most)
{
	unsigned count = 0;

	outl(CONFIG_ADDRESS, ENABLE);
	if (inl(CONFIG_ADDRESS) != ENABLE)
		return 0;
	for (unsigned bus = 0; bus < BUSES; bus++) {
		for (unsigned slot = 0; slot < SLOTS; slot++) {
			struct function f = {(uint8_t)bus, (uint8_t)(slot / 8), slot % 8};

			if (get(f, ID) == 0xffffffff) {
				slot += f.number ? 0 : 7;
				continue;
			}
			if (is_serial(f))
				count += serial_ports(f, found + count, most - count);
			if (!f.number && !(get(f, HEADER) & HEADER_MULTI))
				slot += 7;
		}
	}
	return count;
}
