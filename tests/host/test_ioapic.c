// SPDX-License-Identifier: MIT
/* sources: drivers/apic/ioapic.c */
#include "drivers/apic/ioapic.h"

#include "drivers/acpi/acpi.h"
#include "drivers/mmio.h"
#include "lib/io.h"
#include "tests/host/host.h"

/* Two I/O APICs: 24 inputs from GSI 0, 8 from GSI 24; a third entry where nothing answers. */
static struct chip {
	uint32_t select, registers[0x100];
} chips[2], nothing;
static bool pic_there;
static unsigned entries, pic_words, pics_off;

bool acpi_next_ioapic(unsigned *cursor, struct acpi_ioapic *ioapic)
{
	static const uint32_t bases[] = {0xfec00000, 0xfec01000, 0xfec02000, 0};

	if (*cursor >= entries)
		return false;
	*ioapic = (struct acpi_ioapic){.address = bases[*cursor], .first_gsi = *cursor * 24};
	++*cursor;
	return true;
}

bool acpi_has_8259(void)
{
	return pic_there;
}

/* The last word of each 8259 masks all of its inputs. */
void outb(uint16_t port, uint8_t value)
{
	assert_true((port & ~0x81) == 0x20);
	pic_words++;
	pics_off += (port & 1) && value == 0xff;
}

volatile void *mmio_map(uint64_t physical, uint64_t bytes)
{
	if (!physical)
		return NULL;
	return physical == 0xfec02000 ? &nothing : &chips[physical >> 12 & 1];
}

uint32_t mmio_read32(const volatile void *base, uint32_t offset)
{
	const volatile struct chip *chip = base;

	assert_int_equal(offset, 0x10);
	assert_true(chip->select < 0x100);
	return chip == &nothing ? UINT32_MAX : chip->registers[chip->select];
}

void mmio_write32(volatile void *base, uint32_t offset, uint32_t value)
{
	volatile struct chip *chip = base;

	if (offset == 0)
		chip->select = value;
	else
		chip->registers[chip->select] = value;
}

static int build(void **state)
{
	__builtin_memset(chips, 0, sizeof(chips));
	chips[0].registers[1] = 23 << 16 | 0x20;
	chips[1].registers[1] = 7 << 16 | 0x20;
	chips[0].registers[0x10 + 2 * 5] = 0x0200; /* firmware's SMI at input 5 */
	chips[0].registers[0x10 + 2 * 6] = 0x0931;
	entries = 4;
	pic_words = pics_off = 0;
	pic_there = true;
	return 0;
}

UNIT(masks_all_but_smis, .setup_func = build)
{
	assert_int_equal(ioapic_init(), 2);
	assert_int_equal(pic_words, 10);
	assert_int_equal(pics_off, 2);
	for (unsigned i = 0; i < 24; i++)
		assert_int_equal(chips[0].registers[0x10 + 2 * i], i == 5 ? 0x200 : 0x10000);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(chips[1].registers[0x10 + 2 * i], 0x10000);
	assert_int_equal(chips[1].registers[0x20], 0);
}

UNIT(leaves_an_absent_8259_alone, .setup_func = build)
{
	pic_there = false;
	ioapic_init();
	assert_int_equal(pic_words, 0);
}

UNIT(knows_its_inputs, .setup_func = build)
{
	ioapic_init();
	assert_true(ioapic_has(0) && ioapic_has(23) && ioapic_has(24) && ioapic_has(31));
	assert_false(ioapic_has(32) || ioapic_has(UINT32_MAX));
	assert_false(ioapic_route_nmi(32, 0));
	entries = 0;
	assert_int_equal(ioapic_init(), 0);
	assert_false(ioapic_has(0));
}

UNIT(routes, .setup_func = build)
{
	ioapic_init();
	assert_true(ioapic_route_nmi(9, 3));
	assert_int_equal(chips[0].registers[0x10 + 2 * 9], 0x400);
	assert_int_equal(chips[0].registers[0x11 + 2 * 9], 3u << 24);
	assert_true(ioapic_route_nmi(25, 0xfe));
	assert_int_equal(chips[1].registers[0x12], 0x400);
	assert_int_equal(chips[1].registers[0x13], 0xfeu << 24);
	assert_false(ioapic_route_nmi(1, 0xff));
	assert_int_equal(chips[0].registers[0x12], 0x10000);
}

/* 256 inputs would not fit an index of eight bits. */
UNIT(a_wild_input_count_is_bounded, .setup_func = build)
{
	chips[0].registers[1] = 0xff << 16 | 0x20;
	ioapic_init();
	assert_true(ioapic_has(23));
	assert_false(ioapic_has(120 + 24));
	assert_int_equal(chips[0].registers[0xfe], 0x10000);
}
