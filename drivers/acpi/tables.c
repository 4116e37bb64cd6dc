// SPDX-License-Identifier: MIT
#include "drivers/acpi/tables.h"
#include "drivers/mmio.h"
#include "lib/string.h"

/* Root System Description Pointer, ACPI 6.5 section 5.2.5. */

struct rsdp {
	char signature[8];
	uint8_t checksum; /* over the first 20 bytes */
	char oem_id[6];
	uint8_t revision; /* 0: ends here after rsdt; 2: the rest follows */
	uint32_t rsdt;
	uint32_t length;
	uint64_t xsdt;
	uint8_t extended_checksum; /* over `length` bytes */
	uint8_t reserved[3];
} __attribute__((packed));
_Static_assert(sizeof(struct rsdp) == 36, "ACPI 6.5 table 5.3");

#define RSDP_V1_SIZE 20

#define EBDA_SEGMENT 0x40e /* BIOS data area: real-mode segment of the EBDA */
#define BIOS_START   0xe0000
#define BIOS_SIZE    0x20000

static bool rsdp_decode(const void *bytes, uint64_t size, struct acpi_roots *roots)
{
	struct rsdp rsdp = {0};
	if (size < RSDP_V1_SIZE || memcmp(bytes, "RSD PTR ", 8) != 0)
		return false;
	memcpy(&rsdp, bytes, size < sizeof(rsdp) ? size : sizeof(rsdp));
	if (!acpi_sum_is_zero(&rsdp, RSDP_V1_SIZE))
		return false;
	roots->rsdt = rsdp.rsdt;
	roots->xsdt = 0;
	if (rsdp.revision >= 2 && size >= sizeof(rsdp) && rsdp.length == sizeof(rsdp) &&
	    acpi_sum_is_zero(&rsdp, sizeof(rsdp)))
		roots->xsdt = rsdp.xsdt;
	return roots->rsdt || roots->xsdt;
}

static bool scan(uint64_t physical, uint64_t size, struct acpi_roots *roots)
{
	const uint8_t *area = physical_map(physical, size);
	if (!area)
		return false;
	for (uint64_t at = 0; at < size; at += 16) {
		if (area[at] == 'R' && rsdp_decode(area + at, size - at, roots))
			return true;
	}
	return false;
}

bool acpi_find_roots(const struct boot_info *boot, struct acpi_roots *roots)
{
	const uint64_t given =
		boot->rsdp_size < sizeof(boot->rsdp) ? boot->rsdp_size : sizeof(boot->rsdp);
	if (rsdp_decode(boot->rsdp, given, roots))
		return true;

	/* Section 5.2.5.1: the first KiB of the EBDA, then the BIOS area, at multiples of 16. */
	const void *segment = physical_map(EBDA_SEGMENT, 2);
	if (segment) {
		uint16_t value;
		memcpy(&value, segment, sizeof(value));
		const uint64_t ebda = (uint64_t)value << 4;
		if (ebda >= 0x80000 && ebda < 0xa0000 && scan(ebda, 1024, roots))
			return true;
	}
	return scan(BIOS_START, BIOS_SIZE, roots);
}

/* From the root pointer to any table. */

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
