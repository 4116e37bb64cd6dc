// SPDX-License-Identifier: MIT
/*
 * The functions of INT 15H that tell of memory (ACPI 6.5, 15.1 and 15.2; AH = 88H as well): the
 * BIOS knows nothing of the monitor's.
 */
#include "monitor/boot/information.h"
#include "monitor/interp/interp.h"
#include "monitor/interp/registers.h"
#include "monitor/svm/guest.h"

enum { MEMORY_SERVICES = 0x15, BASE_MEMORY = 0x413, UNSUPPORTED = 0x86 };
enum { GET_MAP = 0xe820, GET_SIZES = 0xe801, GET_SIZE = 0x88, SMAP = 0x534d4150 };
enum { KIB_TO_16_MIB = 15 << 10, KIB_A_BLOCK = 64, MOST_KIB = 63 << 10 };

struct map_entry {
	uint64_t base, length;
	uint32_t type;
} __attribute__((packed));
_Static_assert(sizeof(struct map_entry) == 20, "an entry without extended attributes");

static const struct boot_info *map;
static uint32_t bios; /* the vector of INT 15H, which the guest may change */

static uint32_t vector_now(void)
{
	return *(const volatile uint32_t *)direct(MEMORY_SERVICES * sizeof(uint32_t));
}

void bios_limit(const struct boot_info *from)
{
	volatile uint16_t *base_memory = direct(BASE_MEMORY);

	if (from->efi_system_table || !vector_now())
		return;
	map = from;
	bios = vector_now();
	*base_memory = (uint16_t)memory_from(map, 0);
}

static void set_word(struct vcpu *vcpu, unsigned place, uint64_t value)
{
	vcpu->gpr[place] = (vcpu->gpr[place] & ~0xffffull) | (uint16_t)value;
}

static void set_carry(struct vcpu *vcpu, bool carry)
{
	vcpu->rflags = (vcpu->rflags & ~(uint64_t)FLAG_CF) | (carry ? FLAG_CF : 0);
}

static void write_entry(struct vcpu *vcpu, const struct map_entry *entry)
{
	uint64_t at = vcpu->segment[ES].base + (uint16_t)vcpu->gpr[RDI];

	for (unsigned i = 0; i < sizeof(*entry); i++, at++) {
		uint8_t *page = nested_page(at);

		if (page)
			page[at % PAGE_SIZE] = ((const uint8_t *)entry)[i];
	}
}

static void get_map(struct vcpu *vcpu)
{
	uint32_t n = (uint32_t)vcpu->gpr[RBX];
	const struct boot_region *region = &map->regions[n];

	if (n >= map->region_count || (uint32_t)vcpu->gpr[RDX] != SMAP ||
	    (uint32_t)vcpu->gpr[RCX] < sizeof(struct map_entry)) {
		set_word(vcpu, RAX, UNSUPPORTED << 8);
		set_carry(vcpu, true);
		return;
	}
	write_entry(vcpu, &(struct map_entry){region->base, region->length, region->type});
	vcpu->gpr[RAX] = SMAP;
	vcpu->gpr[RBX] = n + 1 < map->region_count ? n + 1 : 0;
	vcpu->gpr[RCX] = sizeof(struct map_entry);
	set_carry(vcpu, false);
}

static void get_sizes(struct vcpu *vcpu)
{
	uint32_t kib = memory_from(map, 1 << 20);
	uint32_t to_16_mib = kib < KIB_TO_16_MIB ? kib : KIB_TO_16_MIB;
	uint32_t blocks = (kib - to_16_mib) / KIB_A_BLOCK;

	blocks = blocks < UINT16_MAX ? blocks : UINT16_MAX;
	set_word(vcpu, RAX, to_16_mib);
	set_word(vcpu, RBX, blocks);
	set_word(vcpu, RCX, to_16_mib);
	set_word(vcpu, RDX, blocks);
	set_carry(vcpu, false);
}

static void get_size(struct vcpu *vcpu)
{
	uint32_t kib = memory_from(map, 1 << 20);

	set_word(vcpu, RAX, kib < MOST_KIB ? kib : MOST_KIB);
	set_carry(vcpu, false);
}

bool platform_bios(struct vcpu *vcpu, uint8_t vector)
{
	uint16_t function = (uint16_t)vcpu->gpr[RAX];

	if (!map || vector != MEMORY_SERVICES || vector_now() != bios)
		return false;
	if (function == GET_MAP)
		get_map(vcpu);
	else if (function == GET_SIZES)
		get_sizes(vcpu);
	else if (function >> 8 == GET_SIZE)
		get_size(vcpu);
	else
		return false;
	return true;
}
