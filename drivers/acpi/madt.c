// SPDX-License-Identifier: MIT
/* Multiple APIC Description Table, ACPI 6.5 section 5.2.12. */
#include "drivers/acpi/acpi.h"
#include "lib/string.h"

struct madt {
	struct acpi_header header;
	uint32_t lapic_address;
	uint32_t flags; /* bit 0: PCAT_COMPAT */
} __attribute__((packed));
_Static_assert(sizeof(struct madt) == 44, "ACPI 6.5 table 5.19");

enum { LAPIC = 0, IO_APIC = 1, X2APIC = 9 };

struct lapic_entry {
	uint8_t type, length;
	uint8_t uid;
	uint8_t apic_id;
	uint32_t flags; /* bit 0: enabled */
} __attribute__((packed));
_Static_assert(sizeof(struct lapic_entry) == 8, "ACPI 6.5 table 5.21");

struct ioapic_entry {
	uint8_t type, length;
	uint8_t id;
	uint8_t reserved;
	uint32_t address;
	uint32_t first_gsi;
} __attribute__((packed));
_Static_assert(sizeof(struct ioapic_entry) == 12, "ACPI 6.5 table 5.23");

struct x2apic_entry {
	uint8_t type, length;
	uint16_t reserved;
	uint32_t apic_id;
	uint32_t flags;
	uint32_t uid;
} __attribute__((packed));
_Static_assert(sizeof(struct x2apic_entry) == 16, "ACPI 6.5 table 5.33");

/*
 * The next entry of any type: its address within the table, and *cursor moved past it. NULL at
 * the end or at the first entry whose length makes no sense.
 */
static const uint8_t *next_entry(unsigned *cursor)
{
	const struct acpi_header *madt = acpi_find("APIC");
	const unsigned at = *cursor ? *cursor : sizeof(struct madt);
	if (!madt || madt->length < at || madt->length - at < 2)
		return NULL;
	const uint8_t *entry = (const uint8_t *)madt + at;
	if (entry[1] < 2 || entry[1] > madt->length - at)
		return NULL;
	*cursor = at + entry[1];
	return entry;
}

static bool decode_cpu(const uint8_t *entry, struct acpi_cpu *cpu)
{
	struct lapic_entry lapic;
	struct x2apic_entry x2apic;
	if (entry[0] == LAPIC && entry[1] >= sizeof(lapic)) {
		memcpy(&lapic, entry, sizeof(lapic));
		*cpu = (struct acpi_cpu){lapic.apic_id, lapic.flags & 1};
		return lapic.apic_id != 0xff; /* broadcast: no CPU has this id */
	}
	if (entry[0] == X2APIC && entry[1] >= sizeof(x2apic)) {
		memcpy(&x2apic, entry, sizeof(x2apic));
		*cpu = (struct acpi_cpu){x2apic.apic_id, x2apic.flags & 1};
		return x2apic.apic_id != 0xffffffff;
	}
	return false;
}

static bool listed_before(unsigned end, uint32_t apic_id)
{
	unsigned cursor = 0;
	const uint8_t *entry;
	struct acpi_cpu cpu;
	while ((entry = next_entry(&cursor)) && cursor < end) {
		if (decode_cpu(entry, &cpu) && cpu.apic_id == apic_id)
			return true;
	}
	return false;
}

bool acpi_next_cpu(unsigned *cursor, struct acpi_cpu *cpu)
{
	const uint8_t *entry;
	while ((entry = next_entry(cursor))) {
		if (decode_cpu(entry, cpu) && !listed_before(*cursor, cpu->apic_id))
			return true;
	}
	return false;
}

unsigned acpi_cpu_count(void)
{
	struct acpi_cpu cpu;
	unsigned cursor = 0, count = 0;

	while (acpi_next_cpu(&cursor, &cpu))
		count += cpu.enabled;
	return count ? count : 1;
}

uint32_t acpi_highest_apic_id(void)
{
	struct acpi_cpu cpu;
	unsigned cursor = 0;
	uint32_t highest = 0;

	while (acpi_next_cpu(&cursor, &cpu))
		if (cpu.enabled && cpu.apic_id > highest)
			highest = cpu.apic_id;
	return highest;
}

bool acpi_next_ioapic(unsigned *cursor, struct acpi_ioapic *ioapic)
{
	const uint8_t *at;
	struct ioapic_entry entry;

	while ((at = next_entry(cursor))) {
		if (at[0] != IO_APIC || at[1] < sizeof(entry))
			continue;
		memcpy(&entry, at, sizeof(entry));
		*ioapic = (struct acpi_ioapic){entry.address, entry.first_gsi};
		return true;
	}
	return false;
}

bool acpi_has_8259(void)
{
	const struct acpi_header *table = acpi_find("APIC");
	struct madt madt;
	if (!table || table->length < sizeof(madt))
		return true;
	memcpy(&madt, table, sizeof(madt));
	return madt.flags & 1;
}
