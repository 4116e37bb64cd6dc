/* SPDX-License-Identifier: MIT */
#include "drivers/acpi/acpi.h"
#include "drivers/apic/ioapic.h"
#include "drivers/clock/hpet.h"

#define ISA_LINES 16

static unsigned chosen; /* comparator */

static bool deliver(const struct acpi_irq *irq, uint32_t apic_id)
{
	return ioapic_route(&(struct ioapic_route){
		.gsi = irq->gsi,
		.apic_id = apic_id,
		.nmi = true,
		.active_low = irq->active_low,
	});
}

/* ISA interrupt 0 is nobody else's once the PIT is off it. */
static bool take_isa_line(uint32_t apic_id)
{
	const struct acpi_irq irq = acpi_isa_irq(0);

	chosen = 0;
	return ioapic_has(irq.gsi) && hpet_replace_legacy() && deliver(&irq, apic_id);
}

/* Any comparator, any input that is not an ISA device's. */
static bool take_any_line(uint32_t apic_id)
{
	for (chosen = 0; chosen < hpet_timer_count(); chosen++) {
		for (uint32_t gsi = ISA_LINES; gsi < 32; gsi++) {
			const struct acpi_irq irq = {.gsi = gsi};
			if (ioapic_has(gsi) && hpet_set_route(chosen, gsi) &&
			    deliver(&irq, apic_id))
				return true;
		}
	}
	return false;
}

bool hpet_nmi_init(uint32_t apic_id)
{
	return hpet_present() && (take_isa_line(apic_id) || take_any_line(apic_id));
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
