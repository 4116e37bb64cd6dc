/* SPDX-License-Identifier: MIT */
/* From the root pointer to any table. */
#include "drivers/acpi/tables.h"
#include "drivers/mmio.h"
#include "lib/string.h"

/* No firmware comes near these; a length beyond them is a broken table. */
#define TABLE_MAX (4u << 20)
#define ROOT_MAX  (sizeof(struct acpi_header) + 512 * sizeof(uint64_t))

static const struct acpi_header *root;
static unsigned address_size; /* bytes of each entry: 4 in an RSDT, 8 in an XSDT */

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

static bool use_root(uint64_t physical, const char signature[4], unsigned size)
{
	const struct acpi_header *table = acpi_table_at(physical);
	if (!table || memcmp(table->signature, signature, 4) != 0 || table->length > ROOT_MAX)
		return false;
	root = table;
	address_size = size;
	return true;
}

bool acpi_init(const struct boot_info *boot)
{
	struct acpi_roots roots;
	root = NULL;
	const bool found = acpi_find_roots(boot, &roots) &&
			   (use_root(roots.xsdt, "XSDT", 8) || use_root(roots.rsdt, "RSDT", 4));
	acpi_read_power();
	return found;
}

const struct acpi_header *acpi_find_nth(const char signature[4], unsigned index)
{
	if (!root)
		return NULL;
	const uint8_t *entry = (const uint8_t *)(root + 1);
	const uint8_t *end = (const uint8_t *)root + root->length;
	for (; entry + address_size <= end; entry += address_size) {
		uint64_t physical = 0;
		memcpy(&physical, entry, address_size);
		/* The signature first: a checksum reads the whole table. */
		const char *name = physical ? physical_map(physical, 4) : NULL;
		if (!name || memcmp(name, signature, 4) != 0)
			continue;
		const struct acpi_header *table = acpi_table_at(physical);
		if (table && index-- == 0)
			return table;
	}
	return NULL;
}

const struct acpi_header *acpi_find(const char signature[4])
{
	return acpi_find_nth(signature, 0);
}
