/* SPDX-License-Identifier: MIT */
/* Root System Description Pointer, ACPI 6.5 section 5.2.5. */
#include "drivers/acpi/tables.h"
#include "drivers/mmio.h"
#include "lib/string.h"

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
