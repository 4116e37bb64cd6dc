/* SPDX-License-Identifier: MIT */
#include "monitor/svm/lapic.h"

#include "monitor/console.h"
#include "monitor/host/cpu.h"
#include "monitor/memory.h"
#include "monitor/svm/guest.h"

/* SDM Vol 3, table 10-1. */
enum {
	LAPIC_ID = 0x20,
	LAPIC_ICR_LOW = 0x300,
	LAPIC_ICR_HIGH = 0x310,
	LAPIC_LVTPC = 0x340,
};
enum {
	DELIVERY_FIXED = 0 << 8,
	DELIVERY_NMI = 4 << 8,
	LEVEL_ASSERT = 1 << 14,
	DESTINATION_SELF = 1 << 18,
};
#define APIC_BASE_ENABLE  (1ull << 11)
#define APIC_BASE_ADDRESS 0x000ffffffffff000ull

/* NULL: the guest has turned it off. */
static volatile uint32_t *registers(void)
{
	uint64_t base = read_msr(MSR_APIC_BASE);

	if (!(base & APIC_BASE_ENABLE) || (base & APIC_BASE_ADDRESS) >= direct_end())
		return NULL;
	return direct(base & APIC_BASE_ADDRESS);
}

void lapic_send_nmi_to_self(void)
{
	volatile uint32_t *lapic = registers();
	uint32_t high;

	if (!lapic)
		return;
	/* The shorthand "self" is for fixed interrupts only: SDM Vol 3, 10.6.1. */
	high = lapic[LAPIC_ICR_HIGH / 4];
	lapic[LAPIC_ICR_HIGH / 4] = lapic[LAPIC_ID / 4];
	lapic[LAPIC_ICR_LOW / 4] = DELIVERY_NMI | LEVEL_ASSERT;
	lapic[LAPIC_ICR_HIGH / 4] = high;
}

/* A fixed one goes through the APIC itself, so that TPR, ISR and EOI are right without further
   help. */
void platform_performance_interrupt(struct vcpu *vcpu)
{
	volatile uint32_t *lapic = registers();
	struct ds_delivery delivery;
	uint32_t entry;

	if (!lapic)
		return;
	entry = lapic[LAPIC_LVTPC / 4];
	delivery = ds_deliver(vcpu, entry);
	if (delivery.status)
		pmu_buffer_overflow(&guest_of(vcpu)->pmu);
	if (delivery.entry != entry)
		lapic[LAPIC_LVTPC / 4] = delivery.entry;
	vcpu->attention |= delivery.kind != DS_DELIVER_NOTHING;
	switch (delivery.kind) {
	case DS_DELIVER_NOTHING:
		break;
	case DS_DELIVER_FIXED:
		lapic[LAPIC_ICR_LOW / 4] =
			delivery.vector | DELIVERY_FIXED | LEVEL_ASSERT | DESTINATION_SELF;
		break;
	case DS_DELIVER_NMI:
		vcpu->nmi_pending = true;
		break;
	default:
		say("LVT performance counter entry 0x%x: this delivery mode is not provided",
		    entry);
	}
}
