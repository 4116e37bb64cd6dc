// SPDX-License-Identifier: MIT
/* How a guest begins, how it runs natively, and what the interpreter reaches outside the processor.
 */
#include "monitor/svm/guest.h"

#include "lib/io.h"
#include "monitor/console.h"
#include "monitor/host/cpu.h"
#include "monitor/host/deviations.h"
#include "monitor/host/wake.h"
#include "monitor/interp/interp.h"
#include "monitor/svm/deadline.h"
#include "monitor/svm/lapic.h"
#include "monitor/svm/processor.h"
#include "monitor/svm/startup.h"
#include "monitor/unit.h"

uint8_t *platform_guest_page(uint64_t physical)
{
	return nested_page(physical);
}

bool platform_is_memory(uint64_t physical)
{
	return nested_is_memory(physical);
}

uint64_t platform_read_cr8(struct vcpu *vcpu)
{
	(void)vcpu;
	return read_cr8();
}

void platform_write_cr8(struct vcpu *vcpu, uint64_t value)
{
	(void)vcpu;
	write_cr8(value);
}

uint32_t platform_in(struct vcpu *vcpu, uint16_t port, unsigned bytes)
{
	saw_exit(vcpu);
	if (bytes == 1)
		return inb(port);
	return bytes == 2 ? inw(port) : inl(port);
}

/* FEH and its like pulse the processor's reset line: QEMU ends with exit 0 then. */
static void note_reset(uint16_t port, uint32_t value)
{
	static bool noted;
	bool resets = port == RESET_PORT && (value & 0xf1) == 0xf0;

	if (resets && !noted)
		say("the guest resets the machine, by port 0x%x", port);
	noted |= resets;
}

void platform_out(struct vcpu *vcpu, uint16_t port, unsigned bytes, uint32_t value)
{
	note_reset(port, value);
	saw_exit(vcpu);
	if (bytes == 1)
		outb(port, (uint8_t)value);
	else if (bytes == 2)
		outw(port, (uint16_t)value);
	else
		outl(port, value);
}

/* By the interpreter: VMRUN takes one event, and would not end when that is delivered. */
static void deliver_injection(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;
	uint64_t event = guest->injection;
	bool exception = (event & EVENT_TYPE_MASK) == EVENT_TYPE_EXCEPTION;

	guest->injection = 0;
	interp_forget(vcpu);
	event_deliver(vcpu, &(struct event){
				    .kind = exception ? EVENT_EXCEPTION : EVENT_INTERRUPT,
				    .vector = (uint8_t)event,
				    .has_error = event & EVENT_ERROR_VALID,
				    .error = (uint32_t)(event >> 32),
				    .return_rip = vcpu->rip,
				    .from = vcpu->rip,
			    });
	if (vcpu->shut_down)
		report_shutdown(vcpu);
}

/*
 * By the interpreter: in Bochs 2.7 an NMI that VMRUN injects blocks those of the processor too, by
 * which another one calls it, and not only the guest's (APM Vol 2, 15.20). Outside IA-32e mode its
 * vector may be a task gate, which only the processor goes through. The guest's IRET ends the
 * blocking.
 */
static void deliver_nmi(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;

	if (!(vcpu->efer & EFER_LMA)) {
		guest->injection = EVENT_VALID | EVENT_TYPE_NMI | VECTOR_NMI;
		vcpu->nmi_blocked = true;
		return;
	}
	interp_forget(vcpu);
	event_deliver(vcpu, &(struct event){.kind = EVENT_NMI,
					    .vector = VECTOR_NMI,
					    .return_rip = vcpu->rip,
					    .from = vcpu->rip});
	if (vcpu->shut_down)
		report_shutdown(vcpu);
}

static void inject_nmi(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;

	deadline_set(guest);
	if (deadline_take_nmi(guest))
		vcpu->nmi_pending = true;
	startup_obey(guest);
	if (!vcpu->nmi_pending || vcpu->nmi_blocked)
		return;
	vcpu->nmi_pending = false;
	if (guest->injection)
		deliver_injection(guest);
	deliver_nmi(guest);
}

/* Ring 0 whose entry to ring 3 exits: choose_intercepts() has external interrupts exit too. */
static void enter_ring_0(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;

	deadline_set(guest);
	interp_forget(vcpu);
	deliver_pending(vcpu);
	if (vcpu->shut_down)
		report_shutdown(vcpu);
	if (interp_needed(vcpu) || !enter(guest, ENTER_FREELY))
		return;
	if (vcpu->cpl) {
		say("ring 3 was entered unseen, by a far RET: branches up to rip=0x%016llx are not "
		    "recorded, nor counted; from now on ring 0 is interpreted too",
		    (unsigned long long)vcpu->rip);
		vcpu->native_ring_0 = false;
	}
	handle_exit(guest);
}

void run_native(struct guest *guest)
{
	guest->stale_translations = true;
	while (!interp_needed(&guest->vcpu)) {
		if (interp_awaited(&guest->vcpu)) {
			enter_ring_0(guest);
		} else {
			inject_nmi(guest);
			if (enter(guest, ENTER_FREELY))
				handle_exit(guest);
		}
		trace_pass(&guest->vcpu);
	}
}

void guest_run(const struct boot_info *info, const struct residence *residence,
	       const struct kernel_entry *kernel, uint64_t wake_page, const struct silicon *silicon,
	       const struct silicon *other, bool lockstep, bool one_processor)
{
	struct guest *guest;

	unsigned deviations = deviations_probe();

	if (lockstep)
		lockstep_enable(deviations);
	nested_hide(residence->hidden);
	if (wake_page) {
		nested_hide((struct range){wake_page, wake_page + PAGE_SIZE});
		wake_prepare(wake_page, residence->root);
	}
	startup_init(wake_page);
	lapic_watch(one_processor);
	nested_init(info);
	bios_limit(info);
	enter_init();
	processors_init(residence->root, silicon, other);
	guest = processor_create();
	reset_to_kernel(&guest->vcpu, kernel);
	processor_run_first(guest);
}
