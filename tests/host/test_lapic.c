// SPDX-License-Identifier: MIT
/* sources: drivers/apic/lapic.c */
#include "drivers/apic/lapic.h"

#include "drivers/mmio.h"
#include "drivers/processor.h"
#include "tests/host/host.h"

/* One local APIC; by memory or by MSR, never by both. `lapic_init` decides once a run, so the
 * tests follow one another: absent, xAPIC, then x2APIC. */
static struct {
	bool present, x2apic_capable, busy;
	uint64_t base;
	uint32_t registers[0x40]; /* by offset / 16 */
	uint64_t icr;		  /* as x2APIC holds it */
	unsigned eois, icr_writes;
} apic;

#define REGISTER(offset) apic.registers[(offset) >> 4]

struct cpuid_result cpuid(uint32_t leaf, uint32_t subleaf)
{
	return (struct cpuid_result){.ecx = apic.x2apic_capable ? 1u << 21 : 0,
				     .edx = apic.present ? 1u << 9 : 0};
}

static bool by_msr(void)
{
	return apic.base >> 10 & 1;
}

static uint32_t read(uint32_t offset)
{
	assert_true(apic.base >> 11 & 1);
	if (offset == 0x300)
		return (uint32_t)apic.icr | (apic.busy ? 1u << 12 : 0);
	return REGISTER(offset);
}

static void write(uint32_t offset, uint64_t value)
{
	assert_true(apic.base >> 11 & 1);
	if (offset == 0xb0) {
		apic.eois++;
		for (unsigned i = 8; i-- > 0;) {
			if (REGISTER(0x100 + 16 * i)) {
				REGISTER(0x100 + 16 * i) &= REGISTER(0x100 + 16 * i) - 1;
				break;
			}
		}
	} else if (offset == 0x300) {
		apic.icr = by_msr() ? value : (apic.icr & ~0xffffffffull) | value;
		apic.icr_writes++;
	} else if (offset == 0x310) {
		apic.icr = (apic.icr & 0xffffffff) | value << 32;
	} else if (offset == 0x3f0) {
		assert_true(by_msr());
		apic.icr = value;
	} else {
		REGISTER(offset) = (uint32_t)value;
	}
}

volatile void *mmio_map(uint64_t physical, uint64_t bytes)
{
	assert_int_equal(physical, 0xfee00000);
	return &apic;
}

uint32_t mmio_read32(const volatile void *base, uint32_t offset)
{
	assert_false(by_msr());
	return read(offset);
}

void mmio_write32(volatile void *base, uint32_t offset, uint32_t value)
{
	assert_false(by_msr());
	assert_int_not_equal(offset, 0x3f0);
	write(offset, value);
}

uint64_t rdmsr(uint32_t index)
{
	if (index == 0x1b)
		return apic.base;
	assert_true(by_msr() && index >= 0x800 && index < 0x840);
	return read((index - 0x800) << 4);
}

void wrmsr(uint32_t index, uint64_t value)
{
	assert_true(by_msr() && index >= 0x800 && index < 0x840);
	assert_int_not_equal(index, 0x831); /* ICR high does not exist */
	write((index - 0x800) << 4, value);
}

bool rdmsr_safe(uint32_t index, uint64_t *value)
{
	*value = rdmsr(index);
	return true;
}

bool wrmsr_safe(uint32_t index, uint64_t value)
{
	assert_int_equal(index, 0x1b);
	if (value >> 10 & 1 && !apic.x2apic_capable)
		return false;
	apic.base = value;
	return true;
}

static int build(void **state)
{
	const uint64_t mode = apic.base & 1 << 10;

	__builtin_memset(&apic, 0, sizeof(apic));
	apic.present = true;
	apic.base = 0xfee00900 | mode;
	REGISTER(0x20) = mode ? 0x102 : 0x02000000;
	REGISTER(0x30) = 0x50014;
	return 0;
}

UNIT(absent, .setup_func = build)
{
	apic.present = false;
	assert_non_null(lapic_init());
}

UNIT(takes_over, .setup_func = build)
{
	REGISTER(0x80) = 0x70;
	REGISTER(0x120) = 0x80000001; /* firmware left two interrupts in service */
	REGISTER(0x170) = 0x4;
	REGISTER(0x320) = 0x20031;
	REGISTER(0x350) = 0x700;
	apic.base &= ~(1ull << 11);
	assert_null(lapic_init());
	assert_int_equal(REGISTER(0xf0), 0x1ff);
	assert_int_equal(REGISTER(0x80), 0);
	assert_int_equal(apic.eois, 3);
	for (unsigned lvt = 0x320; lvt <= 0x370; lvt += 0x10)
		assert_int_equal(REGISTER(lvt), 0x10000);
	assert_int_equal(REGISTER(0x2f0), 0); /* no CMCI entry: highest LVT entry is 5 */
	assert_int_equal(REGISTER(0x380), 0);
	assert_false(lapic_is_x2apic());
	assert_int_equal(lapic_id(), 2);
}

UNIT(local_vector_table, .setup_func = build)
{
	assert_true(lapic_has_lvtpc());
	lapic_set_lvtpc(0x22, false);
	assert_int_equal(apic_read(APIC_LVT_PC), 0x22);
	lapic_mask_lvtpc();
	assert_int_equal(apic_read(APIC_LVT_PC), 0x10022);
	lapic_unmask_lvtpc();
	assert_int_equal(apic_read(APIC_LVT_PC), 0x22);
	lapic_set_lvtpc(0x22, true);
	assert_int_equal(REGISTER(0x340), 0x400);
	REGISTER(0x30) = 0x30014;
	assert_false(lapic_has_lvtpc());
}

UNIT(timer, .setup_func = build)
{
	lapic_timer_set_frequency(62500000);
	lapic_timer_set_vector(0x20);
	assert_int_equal(REGISTER(0x320), 0x20);
	assert_int_equal(REGISTER(0x3e0), 3);
	lapic_timer_start_us(1000000);
	assert_int_equal(REGISTER(0x380), 62500000);
	lapic_timer_start_us(0);
	assert_int_equal(REGISTER(0x380), 1);
	lapic_timer_start_us(68719476);
	assert_int_equal(REGISTER(0x380), 4294967250u);
	lapic_timer_start_us(68719477);
	assert_int_equal(REGISTER(0x380), UINT32_MAX);
	lapic_timer_start_us(UINT64_MAX);
	assert_int_equal(REGISTER(0x380), UINT32_MAX);
	lapic_timer_stop();
	assert_int_equal(REGISTER(0x380), 0);
	lapic_timer_run_masked();
	assert_int_equal(REGISTER(0x320), 0x10000);
}

UNIT(sends_by_memory, .setup_func = build)
{
	assert_true(lapic_send_ipi(5, 0x41));
	assert_true(apic.icr == 0x0500000000004041);
	lapic_self_nmi();
	assert_true(apic.icr == 0x0200000000004400);
	assert_true(lapic_send_init(0xfe));
	assert_true(apic.icr == 0xfe00000000004500);
	assert_true(lapic_send_startup(1, 0x8000));
	assert_true(apic.icr == 0x0100000000004608);
	lapic_self_ipi(0x21);
	assert_true(apic.icr == 0x0100000000044021); /* the destination was not touched */
}

UNIT(refuses_by_memory, .setup_func = build)
{
	assert_false(lapic_send_ipi(0xff, 0x41));
	assert_false(lapic_send_nmi(0x100));
	assert_false(lapic_send_startup(1, 0x8001));
	assert_false(lapic_send_startup(1, 0x100000));
	assert_int_equal(apic.icr_writes, 0);
}

UNIT(a_stuck_ipi_does_not_hang, .setup_func = build)
{
	apic.busy = true;
	assert_true(lapic_send_ipi(5, 0x41));
	assert_int_equal(apic.icr_writes, 1);
}

UNIT(cannot_without_x2apic, .setup_func = build)
{
	assert_false(lapic_enable_x2apic());
	assert_false(lapic_is_x2apic());
}

UNIT(goes_to_x2apic, .setup_func = build)
{
	apic.x2apic_capable = true;
	assert_true(lapic_enable_x2apic());
	assert_true(lapic_is_x2apic());
	assert_true(lapic_enable_x2apic());
}

UNIT(sends_by_msr, .setup_func = build)
{
	assert_int_equal(lapic_id(), 0x102);
	assert_true(lapic_send_ipi(0x12345, 0x41));
	assert_true(apic.icr == 0x0001234500004041);
	assert_int_equal(apic.icr_writes, 1);
	lapic_self_nmi();
	assert_true(apic.icr == 0x0000010200004400);
	lapic_self_ipi(0x21);
	assert_true(apic.icr == 0x21);
}

/* Another CPU, still in xAPIC mode as firmware left it. */
UNIT(others_follow, .setup_func = build)
{
	apic.x2apic_capable = true;
	apic.base = 0xfee00800;
	assert_null(lapic_init());
	assert_true(by_msr());
	assert_int_equal(REGISTER(0xf0), 0x1ff);
}
