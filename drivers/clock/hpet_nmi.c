/* SPDX-License-Identifier: MIT */
#include "drivers/apic/ioapic.h"
#include "drivers/clock/hpet.h"

#define ISA_LINES 16

static unsigned chosen; /* comparator */

static bool deliver(uint32_t gsi, uint32_t apic_id)
{
	return ioapic_route(&(struct ioapic_route){.gsi = gsi, .apic_id = apic_id, .nmi = true});
}

/* The PIT's line, free once the PIT is off it. */
static bool take_legacy_line(uint32_t apic_id)
{
	chosen = 0;
	return ioapic_has(HPET_LEGACY_GSI) && hpet_replace_legacy() &&
	       deliver(HPET_LEGACY_GSI, apic_id);
}

/* Any comparator, any input that is not an ISA device's. */
static bool take_any_line(uint32_t apic_id)
{
	for (chosen = 0; chosen < hpet_timer_count(); chosen++) {
		for (uint32_t gsi = ISA_LINES; gsi < 32; gsi++) {
			if (ioapic_has(gsi) && hpet_set_route(chosen, gsi) && deliver(gsi, apic_id))
				return true;
		}
	}
	return false;
}

bool hpet_nmi_init(uint32_t apic_id)
{
	return hpet_present() && (take_legacy_line(apic_id) || take_any_line(apic_id));
}

uint64_t hpet_nmi_after(uint64_t microseconds)
{
	return hpet_timer_start(chosen, microseconds);
}

void hpet_nmi_cancel(void)
{
	hpet_timer_stop(chosen);
}

bool hpet_nmi_expired(void)
{
	return hpet_timer_expired(chosen);
}
