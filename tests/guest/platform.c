// SPDX-License-Identifier: MIT
/* What a monitor gives its guest beside the start of processors: SDM Vol 3, 10.4 and 10.12. */
#include <stddef.h>

#include "lib/string.h"
#include "tests/guest/machine.h"

/* SDM Vol 3, 10.4.3 and 10.12.2; native, and traced. */
static void check_silent_page(const char *what)
{
	uint32_t native = lapic_read(REGISTER_TPR), traced;

	trace(true);
	traced = lapic_read(REGISTER_TPR);
	trace(false);
	check(native == ~0u && traced == ~0u, what);
}

/* SDM Vol 3, 10.5.1 and 10.12.1.2: bits 12 and 14 are read-only, bit 11 is reserved. */
static void check_lint(void)
{
	enum { EXTINT = 0x700, READ_ONLY = 0x5000, RESERVED = 0x800 };

	check(!write_msr_faults(X2APIC_LINT0, EXTINT | READ_ONLY) &&
		      (read_msr(X2APIC_LINT0) & (EXTINT | READ_ONLY)) == EXTINT,
	      "read-only bits of LINT0 may be written in x2APIC mode");
	check(write_msr_faults(X2APIC_LINT0, EXTINT | RESERVED), "but not a reserved one");
	write_msr(X2APIC_LINT0, LVT_MASKED);
}

/* SDM Vol 2, WRMSR. QEMU's own processor takes them. */
static void check_canonical_bases(void)
{
	static const uint32_t msrs[] = {MSR_LSTAR, MSR_FS_BASE, MSR_GS_BASE, MSR_KERNEL_GS_BASE};

	for (unsigned i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++)
		check(write_msr_faults(msrs[i], 1ull << 47) && !read_msr(msrs[i]),
		      "WRMSR refuses a base that is not canonical");
}

/* SDM Vol 3, 10.4.3, 10.4.7.1 and 10.12.5.1. QEMU's own local APIC, once off, stays off. */
static void check_apic_base(void)
{
	uint64_t on = read_msr(MSR_APIC_BASE), off = on & ~(uint64_t)BASE_ENABLE;
	uint32_t id = self();

	write_msr(MSR_APIC_BASE, off);
	check(read_msr(MSR_APIC_BASE) == off && !cpuid_has_apic(), "the local APIC is off");
	lapic_write(REGISTER_TPR, 0xf0);
	check_silent_page("its page answers nothing");
	write_msr(MSR_APIC_BASE, on);
	check(read_msr(MSR_APIC_BASE) == on && cpuid_has_apic(), "the local APIC is on again");
	check(lapic_read(REGISTER_SPURIOUS) == 0xff && lapic_read(REGISTER_TPR) == 0 &&
		      lapic_read(REGISTER_LVT_TIMER) == LVT_MASKED,
	      "what was off is as from power-up");
	lapic_write(REGISTER_SPURIOUS, 0x13f);
	lapic_write(REGISTER_ID, (id + 40) << 24);
	write_msr(MSR_APIC_BASE, on | BASE_X2APIC);
	check(read_msr(X2APIC_ID) == id, "x2APIC mode has the ID of power-up");
	check_silent_page("nor does it in x2APIC mode");
	check_lint();
	write_msr(MSR_APIC_BASE, off);
	write_msr(MSR_APIC_BASE, on);
	check(lapic_read(REGISTER_ID) >> 24 == id, "and xAPIC mode after it");
	lapic_write(REGISTER_SPURIOUS, 0x13f);
	check_at_once(LAPIC + REGISTER_ICR, ICR_FIXED | ICR_SELF | CALL,
		      "an interrupt to oneself arrives at once, after that");
}

/* VMRUN and a short jump back: the code that a guest finds where the monitor ends an exit. */
static uint8_t *find_exit_code(void)
{
	const uint8_t vmrun_jump[] = {0x0f, 0x01, 0xd8, 0xeb};

	for (uint8_t *at = (uint8_t *)MEMORY_END - sizeof(vmrun_jump); at > (uint8_t *)MEMORY_LAST;
	     at--)
		if (*(uint32_t *)at == *(const uint32_t *)vmrun_jump)
			return at;
	return NULL;
}

/* SECURITY.md: the guest does not write what the monitor may execute. */
static void check_exit_code(void)
{
	volatile uint8_t *code = find_exit_code();
	uint8_t was;

	check(code, "the monitor has a page that ends nested paging");
	if (!code)
		return;
	was = *code;
	*code = (uint8_t)~was;
	check(*code == was, "what the monitor executes is not the guest's to write");
	trace(true);
	*code = (uint8_t)~was;
	trace(false);
	check(*code == was, "nor where the guest is interpreted");
}

/* Multiboot Specification 0.6.96, 3.3. */
struct information {
	uint32_t flags, lower, upper, device, words, modules[2], symbols[4], map_bytes, map;
};
struct region {
	uint32_t size;
	uint64_t base, length;
	uint32_t type;
} __attribute__((packed));

/* start.asm, ask_bios */
struct bios_memory {
	uint16_t count, kib_to_16_mib, blocks_from_16_mib, kib_from_1_mib, kib_from_0;
	struct {
		uint64_t base, length;
		uint32_t type;
	} __attribute__((packed)) map[];
};

extern const uint32_t boot_information; /* start.asm */

static const struct information *information(void)
{
	return (const struct information *)(uintptr_t)boot_information;
}

static bool offers(uint64_t start, uint64_t end)
{
	uintptr_t at = information()->map, map_end = at + information()->map_bytes;

	while (at < map_end) {
		const struct region *region = (const struct region *)at;

		if (region->type == 1 && region->base <= start &&
		    region->base + region->length >= end)
			return true;
		at += region->size + sizeof(region->size);
	}
	return false;
}

static bool bios_offers_no_more(const struct bios_memory *bios)
{
	for (unsigned i = 0; i < bios->count; i++)
		if (bios->map[i].type == 1 &&
		    !offers(bios->map[i].base, bios->map[i].base + bios->map[i].length))
			return false;
	return bios->count;
}

/* ACPI 6.5, 15.1; Ralf Brown's list for the other two. */
static void check_bios(void)
{
	const struct bios_memory *bios = (const struct bios_memory *)BIOS_MEMORY;
	uint64_t from_1_mib =
		((uint64_t)bios->kib_to_16_mib << 10) + ((uint64_t)bios->blocks_from_16_mib << 16);

	check(bios_offers_no_more(bios), "INT 15H, E820H, offers what the loader's map does");
	check(from_1_mib && offers(1 << 20, (1 << 20) + from_1_mib), "and E801H no more");
	check(bios->kib_from_1_mib &&
		      offers(1 << 20, (1 << 20) + ((uint64_t)bios->kib_from_1_mib << 10)),
	      "and 88H no more");
	check(bios->kib_from_0 && offers(0, (uint64_t)bios->kib_from_0 << 10),
	      "and INT 12H no more");
}

void check_boot(void)
{
	const char *words = (const char *)(uintptr_t)information()->words;
	const char *second = strchr(words, ' ');

	check(second && second != words && strcmp(second, " first last") == 0,
	      "the command line is the file name and the words");
	check_bios();
}

void check_platform(void)
{
	check_apic_base();
	check_canonical_bases();
	check_exit_code();
}
