/* SPDX-License-Identifier: MIT */
/* The registers of the machine that startup.c tests, written a second time: SDM Vol 3, 10. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { LAPIC = 0xfee00000u, IOAPIC = 0xfec00000u, HPET = 0xfed00000u };
enum {
	REGISTER_ID = 0x20,
	REGISTER_TPR = 0x80,
	REGISTER_EOI = 0xb0,
	REGISTER_LDR = 0xd0,
	REGISTER_DFR = 0xe0,
	REGISTER_SPURIOUS = 0xf0,
	REGISTER_ICR = 0x300,
	REGISTER_ICR_HIGH = 0x310,
	REGISTER_LVT_TIMER = 0x320,
	REGISTER_LINT0 = 0x350,
	LVT_MASKED = 0x10000,
};
enum {
	ICR_FIXED = 0x4000,
	ICR_NMI = 0x4400,
	ICR_INIT = 0x4500,
	ICR_INIT_DEASSERT = 0x8500,
	ICR_STARTUP = 0x4600,
	ICR_LOGICAL = 0x800,
	ICR_SELF = 0x40000,
	ICR_OTHERS = 0xc0000,
};
enum { MSR_APIC_BASE = 0x1b, BASE_X2APIC = 0x400, BASE_ENABLE = 0x800 };
enum { X2APIC_ID = 0x802, X2APIC_LINT0 = 0x835 };
#define MSR_LSTAR	   0xc0000082u
#define MSR_FS_BASE	   0xc0000100u
#define MSR_GS_BASE	   0xc0000101u
#define MSR_KERNEL_GS_BASE 0xc0000102u
/* Of the machine that `run` makes, whose monitor is in the last of its memory. */
enum { MEMORY_LAST = 192 << 20, MEMORY_END = (256 << 20) - (128 << 10) };
enum { BIOS_MEMORY = 0x7400 };
enum { MSR_DEBUGCTL = 0x1d9, MSR_DS_AREA = 0x600, DEBUGCTL_TR_BTS = 0xc0 };
/* TM1, EIST, MONITOR, xTPR messages: SDM Vol 3, table 35-2. */
enum { MSR_MISC_ENABLE = 0x1a0, MISC_ENABLE_KEPT = 1 << 3 | 1 << 16 | 1 << 18 | 1 << 23 };

enum { CALL = 32 }; /* the vector of an interrupt that is expected */

/* startup.c: a result; tracing of this processor's branches, where there is BTS; its APIC ID. */
void check(bool ok, const char *what);
void trace(bool on);
uint32_t self(void);
/* Whether a store of `value` at `address` that makes an interrupt CALL has it come at once. */
void check_at_once(uint64_t address, uint32_t value, const char *what);
/* Whether WRMSR raises #GP. */
bool write_msr_faults(uint32_t index, uint64_t value);

/* platform.c: what the loader and the BIOS give; what a monitor gives. */
void check_boot(void);
void check_platform(void);

/* machine.c: a register of the local APIC, an MSR. */
uint32_t lapic_read(uint32_t offset);
void lapic_write(uint32_t offset, uint32_t value);
uint64_t read_msr(uint32_t index);
void write_msr(uint32_t index, uint64_t value);

/* Whether IA32_MISC_ENABLE holds `bits` once they are set: #GP where they are reserved. */
bool misc_enable_keeps(uint64_t bits);

/* The I/O APIC: 82093AA, 3.2. */
enum { PIT_ENTRY = 0x14, IO_LEVEL = 0x8000, IO_MASKED = 0x10000 };
void io_write(uint32_t index, uint32_t value);

/* The 8259: IRQ 0 alone, by vector `base`, through LINT0 as ExtINT. The PIT raises it once. */
void pic_open(uint8_t base);
void pic_close(void);

/* An IPI; returns once it is delivered. */
void send(uint32_t to, uint32_t command);

/* By the PIT's second counter, in its own time. */
void wait_ms(unsigned ms);

uint64_t read_tsc(void);
bool cpuid_has_apic(void);
