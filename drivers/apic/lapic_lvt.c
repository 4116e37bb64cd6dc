/* SPDX-License-Identifier: MIT */
/* Local vector table: performance counter (PMI) and NMI pins. */
#include "drivers/apic/lapic.h"
#include "drivers/apic/registers.h"

#define LVT_ACTIVE_LOW (1u << 13)
#define LVT_LEVEL      (1u << 15)

bool lapic_has_lvtpc(void)
{
	/* Entries come in a fixed order; this is the fifth (SDM figure "Local Vector Table"). */
	return (lapic_version() >> 16 & 0xff) >= 4;
}

void lapic_set_lvtpc(uint8_t vector, bool nmi)
{
	apic_write(APIC_LVT_PC, nmi ? LVT_NMI : vector);
}

void lapic_unmask_lvtpc(void)
{
	apic_write(APIC_LVT_PC, apic_read(APIC_LVT_PC) & ~LVT_MASKED);
}

void lapic_mask_lvtpc(void)
{
	apic_write(APIC_LVT_PC, apic_read(APIC_LVT_PC) | LVT_MASKED);
}

uint32_t lapic_read_lvtpc(void)
{
	return apic_read(APIC_LVT_PC);
}

void lapic_set_nmi_pin(unsigned lint, bool active_low, bool level)
{
	apic_write(lint ? APIC_LVT_LINT1 : APIC_LVT_LINT0,
		   LVT_NMI | (active_low ? LVT_ACTIVE_LOW : 0) | (level ? LVT_LEVEL : 0));
}
