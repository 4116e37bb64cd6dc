// SPDX-License-Identifier: MIT
#include "tests/guest/machine.h"

#include "lib/io.h"

enum { PIT_HZ = 1193182 };

uint32_t lapic_read(uint32_t offset)
{
	return *(volatile uint32_t *)(uintptr_t)(LAPIC + offset);
}

void lapic_write(uint32_t offset, uint32_t value)
{
	*(volatile uint32_t *)(uintptr_t)(LAPIC + offset) = value;
}

uint64_t read_msr(uint32_t index)
{
	uint32_t low, high;

	__asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(index));
	return (uint64_t)high << 32 | low;
}

void write_msr(uint32_t index, uint64_t value)
{
	__asm__ volatile("wrmsr"
			 :
			 : "c"(index), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
			 : "memory");
}

bool misc_enable_keeps(uint64_t bits)
{
	uint64_t before = read_msr(MSR_MISC_ENABLE);
	bool kept;

	write_msr(MSR_MISC_ENABLE, before | bits);
	kept = (read_msr(MSR_MISC_ENABLE) & bits) == bits;
	write_msr(MSR_MISC_ENABLE, before);
	return kept;
}

void io_write(uint32_t index, uint32_t value)
{
	*(volatile uint32_t *)(uintptr_t)IOAPIC = index;
	*(volatile uint32_t *)(uintptr_t)(IOAPIC + 0x10) = value;
}

void pic_open(uint8_t base)
{
	static const uint8_t pit[] = {0x30, 1, 0};

	outb(0x20, 0x11);
	outb(0x21, base);
	outb(0x21, 4);
	outb(0x21, 1);
	outb(0x21, 0xfe);
	lapic_write(REGISTER_LINT0, 0x700);
	for (unsigned i = 0; i < sizeof(pit); i++)
		outb(i ? 0x40 : 0x43, pit[i]);
}

void pic_close(void)
{
	outb(0x20, 0x20);
	outb(0x21, 0xff);
	lapic_write(REGISTER_LINT0, LVT_MASKED);
}

void send(uint32_t to, uint32_t command)
{
	lapic_write(REGISTER_ICR_HIGH, to << 24);
	lapic_write(REGISTER_ICR, command);
	while (lapic_read(REGISTER_ICR) & 0x1000)
		;
}

void wait_ms(unsigned ms)
{
	while (ms--) {
		outb(0x61, (uint8_t)((inb(0x61) & ~2) | 1));
		outb(0x43, 0xb0);
		outb(0x42, (uint8_t)(PIT_HZ / 1000));
		outb(0x42, PIT_HZ / 1000 >> 8);
		while (!(inb(0x61) & 0x20))
			;
	}
}

uint64_t read_tsc(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

bool cpuid_has_apic(void)
{
	uint32_t a, b, c, d;

	__asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(1), "c"(0));
	return d & 1u << 9;
}
