// SPDX-License-Identifier: MIT
/* sources: drivers/clock/hpet.c */
#include "drivers/clock/hpet.h"

#include "drivers/acpi/acpi.h"
#include "drivers/apic/ioapic.h"
#include "drivers/mmio.h"
#include "tests/host/host.h"

/* An HPET of three comparators at 10 MHz, as far as the driver sees it. */
static struct {
	uint32_t registers[256]; /* by offset / 4 */
	bool in_acpi;
	uint64_t counter, step; /* per read of a half */
	uint64_t inputs;	/* of the I/O APIC, a bit each */
	uint32_t gsi, apic_id;	/* of the NMI */
} device;

static uint32_t *at(uint32_t offset)
{
	assert_true(offset < sizeof(device.registers) && offset % 4 == 0);
	return &device.registers[offset / 4];
}

bool acpi_hpet_address(uint64_t *physical)
{
	*physical = 0xfed00000;
	return device.in_acpi;
}

volatile void *mmio_map(uint64_t physical, uint64_t bytes)
{
	assert_int_equal(physical, 0xfed00000);
	return &device;
}

uint32_t mmio_read32(const volatile void *base, uint32_t offset)
{
	if (offset == 0xf0 || offset == 0xf4) {
		device.counter += device.step;
		return (uint32_t)(offset == 0xf0 ? device.counter : device.counter >> 32);
	}
	return *at(offset);
}

void mmio_write32(volatile void *base, uint32_t offset, uint32_t value)
{
	const bool timer = offset >= 0x100 && offset % 0x20 == 0;

	assert_true(offset != 0xf0 && offset != 0xf4);
	/* Of a comparator's register, capabilities stay. */
	*at(offset) = timer ? (*at(offset) & 0x8030) | (value & ~0x8030u) : value;
}

bool ioapic_has(uint32_t gsi)
{
	return gsi < 64 && (device.inputs >> gsi & 1);
}

bool ioapic_route_nmi(uint32_t gsi, uint32_t apic_id)
{
	device.gsi = gsi;
	device.apic_id = apic_id;
	return apic_id < 0xff;
}

static int build(void **state)
{
	__builtin_memset(&device, 0, sizeof(device));
	device.in_acpi = true;
	device.inputs = 0xffffff;
	*at(0) = 0x8086a201; /* 64 bits, legacy, 3 comparators */
	*at(4) = 100000000;  /* fs */
	for (uint32_t timer = 0x100; timer < 0x160; timer += 0x20) {
		*at(timer) = 0x20; /* 64 bits */
		*at(timer + 4) = 0xff0104;
	}
	return 0;
}

static int start(void **state)
{
	build(state);
	assert_non_null(hpet_init());
	assert_true(hpet_nmi_init(0));
	return 0;
}

UNIT(takes_over, .setup_func = build)
{
	*at(0x120) = 0x20 | 0x4e; /* firmware's periodic interrupt */
	const struct reference *reference = hpet_init();
	assert_non_null(reference);
	assert_int_equal(reference->hz, 10000000);
	assert_int_equal(*at(0x120), 0x20);
	assert_int_equal(*at(0x10), 1);
}

UNIT(refuses_what_makes_no_sense, .setup_func = build)
{
	*at(4) = 0;
	assert_null(hpet_init());
	*at(4) = 100000001;
	assert_null(hpet_init());
	*at(4) = UINT32_MAX;
	assert_null(hpet_init());
	assert_false(hpet_nmi_init(0));
	device.in_acpi = false;
	assert_null(hpet_init());
}

/* The low half turns between the two reads. */
UNIT(reads_64_bits_in_halves, .setup_func = start)
{
	for (unsigned before = 1; before < 5; before++) {
		device.counter = 0x500000000ull - before;
		device.step = 1;
		const uint64_t value = hpet_counter();
		assert_true(value >= 0x500000000ull - before && value <= device.counter);
	}
}

UNIT(reads_32_bits, .setup_func = start)
{
	*at(0) &= ~(1u << 13);
	assert_non_null(hpet_init());
	device.counter = 0x123456789;
	assert_int_equal(hpet_counter(), 0x23456789);
}

UNIT(starts_a_comparator, .setup_func = start)
{
	device.counter = 0x1fffffff0;
	assert_int_equal(hpet_nmi_after(1000000), 1000000);
	assert_int_equal(*at(0x108), 0x1fffffff0 + 10000000 - 0x200000000);
	assert_int_equal(*at(0x10c), 2);
	assert_int_equal(*at(0x100), 0x24);
	assert_false(hpet_nmi_expired());
	device.counter += 9999999;
	assert_false(hpet_nmi_expired());
	device.counter++;
	assert_true(hpet_nmi_expired());
	hpet_nmi_cancel();
	assert_false(hpet_nmi_expired());
	assert_int_equal(*at(0x100), 0x20);
}

UNIT(too_near_and_too_far, .setup_func = start)
{
	assert_int_equal(hpet_nmi_after(0), 20);
	assert_int_equal(hpet_nmi_after(UINT64_MAX), INT64_MAX / 10);
	assert_false(hpet_nmi_expired());
}

UNIT(a_32_bit_comparator_wraps, .setup_func = start)
{
	*at(0x100) &= ~0x20u;
	device.counter = 0xfffffff0;
	assert_int_equal(hpet_nmi_after(1000), 1000);
	assert_int_equal(*at(0x108), 10000 - 0x10);
	assert_int_equal(*at(0x10c), 0);
	assert_false(hpet_nmi_expired());
	device.counter += 10000;
	assert_true(hpet_nmi_expired());
	assert_int_equal(hpet_nmi_after(UINT64_MAX), INT32_MAX / 10);
	assert_false(hpet_nmi_expired());
}

/* Only the last comparator reaches inputs that are no ISA device's: GSI 23 and 24. */
UNIT(routes_only_where_it_can, .setup_func = start)
{
	*at(0) &= ~(1u << 15);
	*at(0x104) = *at(0x124) = 0x0104;
	*at(0x144) = 0x1800104;
	device.inputs = 1 << 23 | 1 << 3 | 1 << 2;
	assert_true(hpet_nmi_init(0));
	assert_int_equal(device.gsi, 23);
	assert_int_equal(*at(0x100), 0x20);
	assert_int_equal(*at(0x140), 0x20 | 23 << 9);
	device.inputs = 1 << 3 | 1 << 2 | 1 << 22;
	assert_false(hpet_nmi_init(0));
}

UNIT(nmi_by_the_legacy_line, .setup_func = start)
{
	assert_true(hpet_nmi_init(5));
	assert_int_equal(*at(0x10), 3);
	assert_int_equal(device.gsi, 2);
	assert_int_equal(device.apic_id, 5);
	assert_int_equal(hpet_nmi_after(100), 100);
	assert_int_equal(*at(0x100), 0x24);
	assert_false(hpet_nmi_expired());
	device.counter += 1000;
	assert_true(hpet_nmi_expired());
	hpet_nmi_cancel();
	assert_false(hpet_nmi_expired());
}

UNIT(nmi_by_a_line_of_its_own, .setup_func = start)
{
	*at(0) &= ~(1u << 15);
	*at(0x104) = 0x1004; /* ISA lines only */
	assert_non_null(hpet_init());
	assert_true(hpet_nmi_init(0));
	assert_int_equal(*at(0x10), 1);
	assert_int_equal(device.gsi, 16);
	assert_int_equal(*at(0x120), 0x20 | 16 << 9);
	hpet_nmi_after(100);
	assert_int_equal(*at(0x120), 0x24 | 16 << 9);
}

UNIT(no_nmi_without_a_line, .setup_func = start)
{
	device.inputs = 0;
	assert_false(hpet_nmi_init(0));
	device.inputs = 0xffffff;
	assert_false(hpet_nmi_init(0x100));
}
