/* SPDX-License-Identifier: MIT */
#include "monitor/boot/rsdp.h"

#include <stdbool.h>

#include "lib/string.h"
#include "monitor/memory.h"

enum { RSDP_V1_BYTES = 20, RSDP_V2_BYTES = 36, REVISION_OFFSET = 15, ALIGNMENT = 16 };
enum { EBDA_SEGMENT_AT = 0x40e, EBDA_SEARCHED = 1024 };

static bool sums_to_zero(const uint8_t *bytes, unsigned count)
{
	uint8_t sum = 0;

	while (count--)
		sum = (uint8_t)(sum + bytes[count]);
	return sum == 0;
}

static bool search(struct boot_info *info, struct range range)
{
	for (uint64_t at = range.start; at + RSDP_V2_BYTES <= range.end; at += ALIGNMENT) {
		const uint8_t *found = direct(at);
		unsigned size;

		if (memcmp(found, "RSD PTR ", 8) != 0 || !sums_to_zero(found, RSDP_V1_BYTES))
			continue;
		size = found[REVISION_OFFSET] ? RSDP_V2_BYTES : RSDP_V1_BYTES;
		if (!sums_to_zero(found, size))
			continue;
		memcpy(info->rsdp, found, size);
		info->rsdp_size = size;
		return true;
	}
	return false;
}

void rsdp_find(struct boot_info *info)
{
	uint16_t segment;
	uint64_t ebda;

	if (info->rsdp_size)
		return;
	memcpy(&segment, direct(EBDA_SEGMENT_AT), sizeof(segment));
	ebda = (uint64_t)segment << 4;
	if (ebda >= 0x400 && ebda < 0xa0000 &&
	    search(info, (struct range){ebda, ebda + EBDA_SEARCHED}))
		return;
	search(info, (struct range){0xe0000, 0x100000});
}
