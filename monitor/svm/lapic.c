// SPDX-License-Identifier: MIT
#include "monitor/svm/lapic.h"

#include "monitor/console.h"
#include "monitor/host/lapic.h"
#include "monitor/interp/interp.h"
#include "monitor/memory.h"
#include "monitor/present.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/processor.h"
#include "monitor/svm/startup.h"
#include "monitor/unit.h"

enum { BROADCAST = 0xff, DESTINATION_SHIFT = 24, CLUSTER = 0xf0 };

static uint64_t watched;
static bool alone;

void lapic_watch(bool one_processor)
{
	watched = lapic_page();
	alone = one_processor;
}

enum lapic_view lapic_view(const struct guest *guest, bool one_instruction)
{
	if (guest->apic_off || guest->x2apic)
		return LAPIC_SILENT;
	if (!alone || one_instruction || guest->lvt_disarmed ||
	    trace_awaits_unmasking(&guest->vcpu))
		return LAPIC_WATCHED;
	return LAPIC_OPEN;
}

bool lapic_is_watched(uint64_t physical)
{
	return physical == watched;
}

bool lapic_answers(void)
{
	const struct guest *guest = processor_by_apic_id(lapic_id());

	return !guest || !(guest->apic_off || guest->x2apic);
}

void lapic_note_destination(struct guest *guest)
{
	const volatile uint32_t *lapic = lapic_registers();

	if (!lapic)
		return;
	guest->apic_id = lapic[LAPIC_ID / 4] >> DESTINATION_SHIFT;
	guest->logical_destination = lapic[LAPIC_LOGICAL_DESTINATION / 4];
	guest->destination_format = lapic[LAPIC_DESTINATION_FORMAT / 4];
}

enum { SVR_OFF = 0xff, SVR_ON = 0x1ff, LINT_EXTINT = 7 << 8, LINT_NMI = 4 << 8 };

/* IRR stays: nothing but the processor's acceptance takes a vector away. */
static void reset_registers(volatile uint32_t *lapic)
{
	lapic[LAPIC_TPR / 4] = 0;
	for (unsigned word = 0; word < 8; word++)
		while (lapic[(LAPIC_ISR + word * 16) / 4])
			lapic[LAPIC_EOI / 4] = 0;
	for (unsigned entry = LAPIC_LVT; entry < LAPIC_LVT_END; entry += 16)
		lapic[entry / 4] = LVT_MASKED;
	lapic[LAPIC_INITIAL_COUNT / 4] = 0;
	lapic[LAPIC_DIVIDE / 4] = 0;
	lapic[LAPIC_DESTINATION_FORMAT / 4] = ~0u;
	lapic[LAPIC_LOGICAL_DESTINATION / 4] = 0;
}

void lapic_power_up(struct guest *guest)
{
	volatile uint32_t *lapic = lapic_registers();

	if (!lapic)
		return;
	reset_registers(lapic);
	lapic[LAPIC_SPURIOUS / 4] = SVR_OFF;
	guest->lvt_disarmed = false;
	trace_forget(&guest->vcpu);
	lapic_note_destination(guest);
}

void lapic_turn_off(bool boot_processor)
{
	volatile uint32_t *lapic = lapic_registers();

	if (!lapic)
		return;
	reset_registers(lapic);
	lapic[LAPIC_SPURIOUS / 4] = SVR_ON;
	lapic[LAPIC_LINT0 / 4] = boot_processor ? LINT_EXTINT : LVT_MASKED;
	lapic[LAPIC_LINT1 / 4] = LINT_NMI;
}

/* SDM Vol 3, 10.6.2.2: the flat model, and the flat cluster model. */
static bool is_logical(uint8_t destination, const struct guest *target)
{
	uint8_t id = (uint8_t)(target->logical_destination >> DESTINATION_SHIFT);

	if (destination == BROADCAST)
		return true;
	if (target->destination_format >> 28)
		return id & destination;
	return (id & CLUSTER) == (destination & CLUSTER) && id & destination & ~CLUSTER;
}

bool lapic_addresses(uint32_t command, uint8_t destination, const struct guest *sender,
		     const struct guest *target)
{
	if (command & ICR_SHORTHAND)
		return target != sender;
	if (command & ICR_LOGICAL)
		return is_logical(destination, target);
	return destination == BROADCAST || destination == target->apic_id;
}

/* Where chipsets have I/O APICs: FEC0_0000H to FECF_FFFFH. */
static bool is_ioapic(uint64_t physical)
{
	return physical >> 20 == 0xfec;
}

bool platform_takes_writes(uint64_t physical)
{
	return physical == watched || is_ioapic(physical);
}

/* Registers are 32 bits wide and 16 bytes apart (82093AA, 3.1); what else is written goes nowhere.
   The entry may have an interrupt that waits. */
static void write_ioapic(struct vcpu *vcpu, uint64_t physical, const void *data, unsigned bytes)
{
	volatile uint32_t *at = direct(physical);

	if (bytes != sizeof(*at) || physical % sizeof(*at))
		return;
	*at = *(const uint32_t *)data;
	vcpu->attention = true;
}

/* SDM Vol 3, 10.4.1: registers are accessed by aligned 32-bit words; what else happens is
   undefined, here nothing. */
void platform_write(struct vcpu *vcpu, uint64_t physical, const void *data, unsigned bytes)
{
	volatile uint32_t *lapic = lapic_registers();
	struct guest *guest = guest_of(vcpu);
	uint32_t offset = (uint32_t)(physical - watched), value;

	if (is_ioapic(physical)) {
		write_ioapic(vcpu, physical, data, bytes);
		return;
	}
	/* Without the xAPIC's registers the page is memory that nothing answers for. */
	if (!lapic || guest->apic_off || guest->x2apic || bytes != sizeof(value) ||
	    offset % sizeof(value))
		return;
	value = *(const uint32_t *)data;
	/* It may have made an interrupt deliverable. */
	vcpu->attention = true;
	if (offset == LAPIC_ICR_LOW &&
	    startup_command(guest, value,
			    (uint8_t)(lapic[LAPIC_ICR_HIGH / 4] >> DESTINATION_SHIFT)))
		return;
	lapic[offset / 4] = value;
	lapic_note_write(guest, offset);
}

/* True if delivery leaves the guest's LVT entry as it is; a hypervisor may have its own mask bit.
 */
static bool keeps_entry(struct guest *guest, bool delivered)
{
	const struct hypervisor *hypervisor = guest->vcpu.silicon->hypervisor;

	if (!hypervisor)
		return false;
	guest->lvt_disarmed |= hypervisor->leaves_lvt_mask && delivered;
	return hypervisor->leaves_lvt_mask || hypervisor->leaves_lvt_armed;
}

void lapic_note_write(struct guest *guest, uint32_t offset)
{
	if (offset == LAPIC_ID || offset == LAPIC_LOGICAL_DESTINATION ||
	    offset == LAPIC_DESTINATION_FORMAT)
		lapic_note_destination(guest);
	if (offset == LAPIC_LVTPC) {
		guest->lvt_disarmed = false;
		if (!(lapic_registers()[LAPIC_LVTPC / 4] & LVT_MASKED))
			trace_unmasked(&guest->vcpu);
	}
}

/* A fixed one goes through the APIC itself, so that TPR, ISR and EOI are right without further
   help. */
void platform_performance_interrupt(struct vcpu *vcpu)
{
	volatile uint32_t *lapic = lapic_registers();
	struct guest *guest = guest_of(vcpu);
	struct delivery delivery;
	uint32_t entry;

	if (!lapic)
		return;
	entry = lapic[LAPIC_LVTPC / 4];
	delivery = trace_deliver(vcpu, guest->lvt_disarmed ? entry | LVT_MASKED : entry);
	trace_interrupted(vcpu, delivery.waits, delivery.status);
	if (keeps_entry(guest, delivery.kind != DELIVER_NOTHING))
		delivery.entry = entry;
	if (delivery.entry != entry)
		lapic[LAPIC_LVTPC / 4] = delivery.entry;
	if (delivery.kind != DELIVER_NOTHING)
		vcpu->attention = true;
	switch (delivery.kind) {
	case DELIVER_NOTHING:
		break;
	case DELIVER_FIXED:
		lapic[LAPIC_ICR_LOW / 4] = delivery.vector | ICR_FIXED | ICR_ASSERT | ICR_SELF;
		break;
	case DELIVER_NMI:
		vcpu->nmi_pending = true;
		break;
	default:
		say("LVT performance counter entry 0x%x: this delivery mode is unsupported", entry);
	}
}
