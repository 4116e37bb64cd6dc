/* SPDX-License-Identifier: MIT */
/* Tables that say where one device is: HPET (IA-PC HPET 1.0a section 3.2.4) and SPCR. */
#include "drivers/acpi/acpi.h"
#include "lib/string.h"

struct hpet_table {
	struct acpi_header header;
	uint32_t event_timer_block_id;
	struct acpi_address base;
	uint8_t number;
	uint16_t minimum_tick;
	uint8_t page_protection;
} __attribute__((packed));
_Static_assert(sizeof(struct hpet_table) == 56, "IA-PC HPET 1.0a table 3");

bool acpi_hpet_address(uint64_t *physical)
{
	struct hpet_table hpet;
	const struct acpi_header *table = acpi_find("HPET");
	if (!table || table->length < sizeof(hpet))
		return false;
	memcpy(&hpet, table, sizeof(hpet));
	if (hpet.base.space != ACPI_MEMORY || !hpet.base.address)
		return false;
	*physical = hpet.base.address;
	return true;
}

/* Serial Port Console Redirection table, as Microsoft publishes it; revision 1 ends at
 * `uart_clock`. */
struct spcr {
	struct acpi_header header;
	uint8_t interface_type;
	uint8_t reserved_37[3];
	struct acpi_address base;
	uint8_t interrupt_type;
	uint8_t irq;
	uint32_t gsi;
	uint8_t baud;
	uint8_t parity, stop_bits, flow_control;
	uint8_t terminal_type;
	uint8_t language;
	uint16_t pci_device, pci_vendor;
	uint8_t pci_bus, pci_slot, pci_function;
	uint32_t pci_flags;
	uint8_t pci_segment;
	uint32_t uart_clock;   /* revision 3 */
	uint32_t precise_baud; /* revision 4; 0: see `baud` */
} __attribute__((packed));
_Static_assert(offsetof(struct spcr, base) == 40, "SPCR");
_Static_assert(offsetof(struct spcr, baud) == 58, "SPCR");
_Static_assert(offsetof(struct spcr, uart_clock) == 76, "SPCR");

/* DBG2 serial port subtypes that are a 16550 to software. */
static bool is_16550(uint8_t interface_type)
{
	return interface_type == 0x00 || interface_type == 0x01 || interface_type == 0x12;
}

static uint32_t baud_rate(const struct spcr *spcr)
{
	static const uint32_t rates[] = {[3] = 9600, [4] = 19200, [6] = 57600, [7] = 115200};
	if (spcr->header.revision >= 4 && spcr->precise_baud)
		return spcr->precise_baud;
	return spcr->baud < sizeof(rates) / sizeof(rates[0]) ? rates[spcr->baud] : 0;
}

static uint8_t register_size(const struct acpi_address *base)
{
	if (base->space == ACPI_IO_PORT)
		return 1;
	if (base->access_size == 3 || base->bit_width == 32)
		return 4;
	return base->access_size == 2 || base->bit_width == 16 ? 2 : 1;
}

bool acpi_console(struct acpi_console *console)
{
	struct spcr spcr = {0};
	const struct acpi_header *table = acpi_find("SPCR");
	if (!table || table->length < offsetof(struct spcr, uart_clock))
		return false;
	memcpy(&spcr, table, table->length < sizeof(spcr) ? table->length : sizeof(spcr));
	const struct acpi_address *base = &spcr.base;
	/* Address 0: console redirection is switched off. */
	if (!is_16550(spcr.interface_type) || !base->address || base->space > ACPI_IO_PORT ||
	    (base->space == ACPI_IO_PORT && base->address > 0xfff8))
		return false;
	*console = (struct acpi_console){base->space, base->address, register_size(base),
					 baud_rate(&spcr)};
	return true;
}
