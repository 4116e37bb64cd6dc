// SPDX-License-Identifier: MIT
/* The tables of this machine, each mapped once, and what only says where one device is. */
#include "drivers/acpi/tables.h"
#include "drivers/mmio.h"
#include "lib/string.h"

static struct acpi_tables tables;

bool acpi_init(struct boot_info *boot)
{
	bool found = acpi_find_rsdp(boot, physical_map);

	found = acpi_read_tables(boot, physical_map, &tables) && found;
	acpi_read_power();
	return found;
}

const struct acpi_header *acpi_find_nth(const char signature[4], unsigned index)
{
	for (unsigned i = 0; i < tables.count; i++) {
		if (memcmp(tables.table[i]->signature, signature, 4) == 0 && index-- == 0)
			return tables.table[i];
	}
	return NULL;
}

const struct acpi_header *acpi_find(const char signature[4])
{
	return acpi_find_nth(signature, 0);
}

/* IA-PC HPET 1.0a section 3.2.4. */
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
