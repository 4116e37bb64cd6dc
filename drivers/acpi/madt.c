/* SPDX-License-Identifier: MIT */
/* Multiple APIC Description Table, ACPI 6.5 section 5.2.12. */
#include "drivers/acpi/acpi.h"
#include "lib/string.h"

struct madt {
	struct acpi_header header;
	uint32_t lapic_address;
	uint32_t flags; /* bit 0: PCAT_COMPAT */
} __attribute__((packed));
_Static_assert(sizeof(struct madt) == 44, "ACPI 6.5 table 5.19");

enum entry_type {
	LAPIC = 0,
	IO_APIC = 1,
	SOURCE_OVERRIDE = 2,
	LAPIC_NMI = 4,
	X2APIC = 9,
	X2APIC_NMI = 10,
};

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

struct override_entry {
	uint8_t type, length;
	uint8_t bus; /* 0: ISA */
	uint8_t irq;
	uint32_t gsi;
	uint16_t flags;
} __attribute__((packed));
_Static_assert(sizeof(struct override_entry) == 10, "ACPI 6.5 table 5.24");

struct lapic_nmi_entry {
	uint8_t type, length;
	uint8_t uid;
	uint16_t flags;
	uint8_t lint;
} __attribute__((packed));
_Static_assert(sizeof(struct lapic_nmi_entry) == 6, "ACPI 6.5 table 5.27");

struct x2apic_entry {
	uint8_t type, length;
	uint16_t reserved;
	uint32_t apic_id;
	uint32_t flags;
	uint32_t uid;
} __attribute__((packed));
_Static_assert(sizeof(struct x2apic_entry) == 16, "ACPI 6.5 table 5.33");

struct x2apic_nmi_entry {
	uint8_t type, length;
	uint16_t flags;
	uint32_t uid;
	uint8_t lint;
	uint8_t reserved[3];
} __attribute__((packed));
_Static_assert(sizeof(struct x2apic_nmi_entry) == 12, "ACPI 6.5 table 5.34");

/* MPS INTI flags, table 5.26. 0 in either field: as the bus has it, on ISA edge and high. */
static bool is_active_low(uint16_t flags)
{
	return (flags & 3) == 3;
}

static bool is_level(uint16_t flags)
{
	return (flags >> 2 & 3) == 3;
}

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

/* Copies the next entry of this type that is at least `size` bytes long. */
static bool next_of(unsigned *cursor, enum entry_type type, void *copy, size_t size)
{
	const uint8_t *entry;
	while ((entry = next_entry(cursor))) {
		if (entry[0] == type && entry[1] >= size) {
			memcpy(copy, entry, size);
			return true;
		}
	}
	return false;
}

static bool decode_cpu(const uint8_t *entry, struct acpi_cpu *cpu)
{
	struct lapic_entry lapic;
	struct x2apic_entry x2apic;
	if (entry[0] == LAPIC && entry[1] >= sizeof(lapic)) {
		memcpy(&lapic, entry, sizeof(lapic));
		*cpu = (struct acpi_cpu){lapic.apic_id, lapic.uid, lapic.flags & 1};
		return lapic.apic_id != 0xff; /* broadcast: no CPU has this id */
	}
	if (entry[0] == X2APIC && entry[1] >= sizeof(x2apic)) {
		memcpy(&x2apic, entry, sizeof(x2apic));
		*cpu = (struct acpi_cpu){x2apic.apic_id, x2apic.uid, x2apic.flags & 1};
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

bool acpi_next_ioapic(unsigned *cursor, struct acpi_ioapic *ioapic)
{
	struct ioapic_entry entry;
	if (!next_of(cursor, IO_APIC, &entry, sizeof(entry)))
		return false;
	*ioapic = (struct acpi_ioapic){entry.id, entry.address, entry.first_gsi};
	return true;
}

struct acpi_irq acpi_isa_irq(uint8_t irq)
{
	unsigned cursor = 0;
	struct override_entry entry;
	while (next_of(&cursor, SOURCE_OVERRIDE, &entry, sizeof(entry))) {
		if (entry.bus == 0 && entry.irq == irq)
			return (struct acpi_irq){entry.gsi, is_active_low(entry.flags),
						 is_level(entry.flags)};
	}
	return (struct acpi_irq){.gsi = irq};
}

bool acpi_next_lapic_nmi(unsigned *cursor, struct acpi_lapic_nmi *nmi)
{
	const uint8_t *entry;
	struct lapic_nmi_entry lapic;
	struct x2apic_nmi_entry x2apic;
	while ((entry = next_entry(cursor))) {
		if (entry[0] == LAPIC_NMI && entry[1] >= sizeof(lapic)) {
			memcpy(&lapic, entry, sizeof(lapic));
			*nmi = (struct acpi_lapic_nmi){
				lapic.uid == 0xff ? ACPI_ALL_CPUS : lapic.uid, lapic.lint,
				is_active_low(lapic.flags), is_level(lapic.flags)};
		} else if (entry[0] == X2APIC_NMI && entry[1] >= sizeof(x2apic)) {
			memcpy(&x2apic, entry, sizeof(x2apic));
			*nmi = (struct acpi_lapic_nmi){x2apic.uid, x2apic.lint,
						       is_active_low(x2apic.flags),
						       is_level(x2apic.flags)};
		} else {
			continue;
		}
		if (nmi->lint <= 1)
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
