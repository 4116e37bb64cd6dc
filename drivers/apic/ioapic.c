// SPDX-License-Identifier: MIT
#include "drivers/apic/ioapic.h"
#include "drivers/acpi/acpi.h"
#include "drivers/mmio.h"
#include "lib/io.h"

#include <stddef.h>

#define SELECT	    0x00u
#define WINDOW	    0x10u
#define VERSION	    0x01u
#define REDIRECTION 0x10u /* two registers for each input, low half first */
#define MODE_MASK   (7u << 8)
#define MODE_SMI    (2u << 8)
#define MODE_NMI    (4u << 8)
#define MASKED	    (1u << 16)
#define MAX_IOAPICS 16
#define MAX_INPUTS  120u /* as the 8-bit index reaches */

static struct ioapic {
	volatile void *registers;
	uint32_t first_gsi;
	unsigned inputs;
} ioapics[MAX_IOAPICS];
static unsigned ioapic_count;

static uint32_t read(const struct ioapic *ioapic, uint32_t index)
{
	mmio_write32(ioapic->registers, SELECT, index);
	return mmio_read32(ioapic->registers, WINDOW);
}

static void write(const struct ioapic *ioapic, uint32_t index, uint32_t value)
{
	mmio_write32(ioapic->registers, SELECT, index);
	mmio_write32(ioapic->registers, WINDOW, value);
}

static const struct ioapic *find(uint32_t gsi)
{
	for (unsigned i = 0; i < ioapic_count; i++) {
		const struct ioapic *ioapic = &ioapics[i];
		if (gsi >= ioapic->first_gsi && gsi - ioapic->first_gsi < ioapic->inputs)
			return ioapic;
	}
	return NULL;
}

/* False if nothing answers there. */
static bool take_over(struct ioapic *ioapic)
{
	const uint32_t version = read(ioapic, VERSION);
	const unsigned inputs = (version >> 16 & 0xff) + 1;

	if (version == UINT32_MAX)
		return false;
	ioapic->inputs = inputs < MAX_INPUTS ? inputs : MAX_INPUTS;
	for (unsigned i = 0; i < ioapic->inputs; i++) {
		const uint32_t low = read(ioapic, REDIRECTION + 2 * i);
		if ((low & MODE_MASK) != MODE_SMI)
			write(ioapic, REDIRECTION + 2 * i, MASKED);
	}
	return true;
}

#define PIC	   0x20 /* command of the first 8259; data at +1, the second at +80H */
#define PIC_SECOND 0x80

/* Its vectors are then above 20H, where even a spurious interrupt hits no exception. */
static void silence_pic(uint16_t offset, uint8_t vector, uint8_t cascade)
{
	const uint16_t command = (uint16_t)(PIC + offset), data = command + 1;

	outb(command, 0x11); /* ICW1: four words, cascaded, edge */
	outb(data, vector);  /* ICW2 */
	outb(data, cascade); /* ICW3 */
	outb(data, 0x01);    /* ICW4: 8086 mode */
	outb(data, 0xff);    /* OCW1: all masked */
}

unsigned ioapic_init(void)
{
	struct acpi_ioapic entry;
	unsigned cursor = 0;

	if (acpi_has_8259()) {
		silence_pic(0, 0x20, 1u << 2);
		silence_pic(PIC_SECOND, 0x28, 2);
	}
	ioapic_count = 0;
	while (ioapic_count < MAX_IOAPICS && acpi_next_ioapic(&cursor, &entry)) {
		struct ioapic *ioapic = &ioapics[ioapic_count];
		ioapic->registers = mmio_map(entry.address, 0x20);
		ioapic->first_gsi = entry.first_gsi;
		if (ioapic->registers && take_over(ioapic))
			ioapic_count++;
	}
	return ioapic_count;
}

bool ioapic_has(uint32_t gsi)
{
	return find(gsi) != NULL;
}

bool ioapic_route_nmi(uint32_t gsi, uint32_t apic_id)
{
	const struct ioapic *ioapic = find(gsi);
	uint32_t index;

	if (!ioapic || apic_id >= 0xff)
		return false;
	index = REDIRECTION + 2 * (gsi - ioapic->first_gsi);
	write(ioapic, index, MASKED);
	write(ioapic, index + 1, apic_id << 24);
	write(ioapic, index, MODE_NMI);
	return true;
}
