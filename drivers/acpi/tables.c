/* SPDX-License-Identifier: MIT */
/* From the root pointer to any table. */
#include "drivers/acpi/tables.h"
#include "drivers/mmio.h"
#include "lib/string.h"

#define TABLE_MAX  (4u << 20) /* no real table is as long: a broken length */
#define MAX_TABLES 128	      /* more are not looked at */

static const struct acpi_header *tables[MAX_TABLES];
static unsigned count;

bool acpi_sum_is_zero(const void *bytes, uint64_t size)
{
	uint8_t sum = 0;
	for (uint64_t i = 0; i < size; i++)
		sum = (uint8_t)(sum + ((const uint8_t *)bytes)[i]);
	return sum == 0;
}

const struct acpi_header *acpi_table_at(uint64_t physical)
{
	const struct acpi_header *header =
		physical ? physical_map(physical, sizeof(*header)) : NULL;
	if (!header || header->length < sizeof(*header) || header->length > TABLE_MAX)
		return NULL;
	const uint32_t length = header->length;
	header = physical_map(physical, length);
	return header && acpi_sum_is_zero(header, length) ? header : NULL;
}

/* Every valid table that the root table lists, each mapped once. False: it is no root table. */
static bool read_root(uint64_t physical, const char signature[4], unsigned address_size)
{
	const struct acpi_header *root = acpi_table_at(physical);
	if (!root || memcmp(root->signature, signature, 4) != 0)
		return false;
	const uint8_t *entry = (const uint8_t *)(root + 1);
	const uint8_t *end = (const uint8_t *)root + root->length;
	for (; (size_t)(end - entry) >= address_size && count < MAX_TABLES; entry += address_size) {
		uint64_t address = 0;
		memcpy(&address, entry, address_size);
		const struct acpi_header *table = acpi_table_at(address);
		if (table)
			tables[count++] = table;
	}
	return true;
}

bool acpi_init(const struct boot_info *boot)
{
	struct acpi_roots roots;
	count = 0;
	const bool found = acpi_find_roots(boot, &roots) &&
			   (read_root(roots.xsdt, "XSDT", 8) || read_root(roots.rsdt, "RSDT", 4));
	acpi_read_power();
	return found;
}

const struct acpi_header *acpi_find_nth(const char signature[4], unsigned index)
{
	for (unsigned i = 0; i < count; i++) {
		if (memcmp(tables[i]->signature, signature, 4) == 0 && index-- == 0)
			return tables[i];
	}
	return NULL;
}

const struct acpi_header *acpi_find(const char signature[4])
{
	return acpi_find_nth(signature, 0);
}
