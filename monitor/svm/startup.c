// SPDX-License-Identifier: MIT
/*
 * A processor that the guest has not started waits for a start-up IPI as it does on the bare
 * machine. The guest's start-up IPI goes to it with another vector, that of the monitor's own
 * page; it arrives in processor_arrive() and finds here where the guest wants it. INIT first takes
 * a processor out of the guest; a real INIT then takes it back to waiting.
 */
#include "monitor/svm/startup.h"

#include "lib/string.h"
#include "monitor/console.h"
#include "monitor/host/cpu.h"
#include "monitor/host/lapic.h"
#include "monitor/host/lock.h"
#include "monitor/host/traps.h"
#include "monitor/silicon.h"
#include "monitor/svm/deadline.h"
#include "monitor/svm/lapic.h"
#include "monitor/svm/processor.h"

enum { APIC_IDS = 256, BROADCAST = 0xff, WANTED = 0x100 };
/* Of a wait for a processor that an NMI is sent to: ten seconds or more. Rounds, since clocks may
   go on while a hypervisor has stopped the machine. */
#define MOST_ROUNDS		 (1ul << 28)
#define APIC_BASE_BOOT_PROCESSOR (1ull << 8)

static struct lock lock;	  /* of what follows, and of each guest's activity */
static uint16_t wanted[APIC_IDS]; /* where the guest wants it: vector | WANTED; 0: nowhere */
static uint32_t wake_vector;
static bool others_wait;

/* For the end of the run. */
static void stop_others(void)
{
	traps_stop_at_nmi();
	if (others_wait)
		lapic_send(0, ICR_NMI | ICR_ASSERT | ICR_ALL_OTHERS);
}

void startup_init(uint64_t wake_page)
{
	wake_vector = (uint32_t)(wake_page >> 12);
	console_stop_at_end(stop_others);
}

static _Noreturn void halt(struct guest *guest, enum activity activity)
{
	__atomic_store_n(&guest->activity, activity, __ATOMIC_RELEASE);
	for (;;)
		__asm__ volatile("cli; hlt");
}

void startup_obey(struct guest *guest)
{
	if (!__atomic_load_n(&guest->init_requested, __ATOMIC_ACQUIRE))
		return;
	if (read_msr(MSR_APIC_BASE) & APIC_BASE_BOOT_PROCESSOR)
		end_run(VERDICT_ERROR, "the guest sent INIT to its boot processor: a reset");
	deadline_forget(guest);
	halt(guest, ACTIVITY_HALTED);
}

/* The holder of the lock waits for the others to obey. */
static void take_lock(struct guest *sender)
{
	while (!lock_try(&lock)) {
		startup_obey(sender);
		__asm__ volatile("pause");
	}
}

/* Firmware may have left them anywhere; none of them has been the guest's yet. */
static void let_others_wait(void)
{
	if (!others_wait)
		lapic_send(0, ICR_INIT | ICR_ASSERT | ICR_ALL_OTHERS);
	others_wait = true;
}

static bool is_target(uint32_t command, uint8_t destination, const struct guest *sender,
		      uint32_t apic_id)
{
	if (command & ICR_SHORTHAND || destination == BROADCAST)
		return apic_id != sender->apic_id;
	return apic_id == destination;
}

static void take_from_guest(struct guest *guest)
{
	if (guest->activity == ACTIVITY_RUNNING) {
		__atomic_store_n(&guest->init_requested, true, __ATOMIC_RELEASE);
		lapic_send(guest->apic_id, ICR_NMI | ICR_ASSERT);
		for (uint64_t round = 0;
		     __atomic_load_n(&guest->activity, __ATOMIC_ACQUIRE) != ACTIVITY_HALTED;
		     round++) {
			if (round == MOST_ROUNDS)
				end_run(VERDICT_ERROR,
					"the processor with APIC id %u answers no NMI: the "
					"guest's INIT cannot stop it",
					(unsigned)guest->apic_id);
			__asm__ volatile("pause");
		}
	}
	if (guest->activity == ACTIVITY_HALTED) {
		lapic_send(guest->apic_id, ICR_INIT | ICR_ASSERT);
		guest->activity = ACTIVITY_WAITING;
	}
}

static void init(struct guest *sender, uint32_t command, uint8_t destination)
{
	struct guest *guest;

	let_others_wait();
	for (uint32_t id = 0; id < APIC_IDS && !(command & ICR_LOGICAL); id++)
		if (is_target(command, destination, sender, id))
			wanted[id] = 0;
	for (unsigned i = 0; (guest = processor_by_index(i)); i++)
		if (guest != sender && lapic_addresses(command, destination, sender, guest))
			take_from_guest(guest);
	if (lapic_addresses(command, destination, sender, sender))
		sender->init_requested = true;
}

static void start(struct guest *guest)
{
	if (guest->activity == ACTIVITY_HALTED)
		lapic_send(guest->apic_id, ICR_INIT | ICR_ASSERT);
	guest->activity = ACTIVITY_STARTING;
	lapic_send(guest->apic_id, ICR_STARTUP | ICR_ASSERT | wake_vector);
}

/* Nobody who waits for it has a logical ID: INIT clears it. */
static void startup(struct guest *sender, uint32_t command, uint8_t destination)
{
	if (command & ICR_LOGICAL && !(command & ICR_SHORTHAND))
		return;
	let_others_wait();
	for (uint32_t id = 0; id < APIC_IDS; id++) {
		struct guest *guest = processor_by_apic_id(id);

		if (!is_target(command, destination, sender, id) || wanted[id] ||
		    (guest && guest->activity == ACTIVITY_RUNNING))
			continue;
		wanted[id] = (uint16_t)(WANTED | (command & ICR_VECTOR));
		if (guest && guest->activity != ACTIVITY_STARTING)
			start(guest);
	}
	/* For those that have never come; the others do not wait for it. */
	lapic_send(destination, (command & ~(uint32_t)ICR_VECTOR) | wake_vector);
}

bool startup_command(struct guest *sender, uint32_t command, uint8_t destination)
{
	uint32_t delivery = command & ICR_DELIVERY, shorthand = command & ICR_SHORTHAND;
	bool deassert = command & ICR_LEVEL && !(command & ICR_ASSERT);

	if (delivery != ICR_INIT && delivery != ICR_STARTUP)
		return false;
	/* SDM Vol 3, 10.6.1: INIT level de-assert is no longer supported; table 10-3: neither goes
	   with the shorthands that include the sender. */
	if ((delivery == ICR_INIT && deassert) || (shorthand && shorthand != ICR_ALL_OTHERS))
		return true;
	if (!wake_vector)
		end_run(VERDICT_ERROR, "no page below 1 MiB to start other processors at");
	take_lock(sender);
	if (delivery == ICR_INIT)
		init(sender, command, destination);
	else
		startup(sender, command, destination);
	lock_release(&lock);
	startup_obey(sender);
	return true;
}

uint8_t startup_arrive(struct guest *guest)
{
	uint16_t vector;

	lock_take(&lock);
	vector = wanted[guest->apic_id];
	wanted[guest->apic_id] = 0;
	guest->init_requested = false;
	guest->activity = vector ? ACTIVITY_RUNNING : ACTIVITY_HALTED;
	lock_release(&lock);
	if (!vector)
		halt(guest, ACTIVITY_HALTED);
	return (uint8_t)vector;
}

enum {
	CODE_32 = 0xc9b, /* execute, read, accessed; present; 32-bit; 4 GiB */
	DATA_32 = 0xc93,
	CODE_16 = 0x9b,
	DATA_16 = 0x93,
	LDT = 0x82,
	TSS_BUSY = 0x8b,
};
#define CR0_PE_ET  0x11
#define CR0_INIT   0x60000010 /* CD, NW, ET */
#define RFLAGS_SET 2	      /* bit 1 is always 1 */
#define DR6_RESET  0xffff0ff0

static void set_common(struct vcpu *vcpu)
{
	vcpu->ldtr = (struct segment){0, LDT, 0xffff, 0};
	vcpu->tr = (struct segment){0, TSS_BUSY, 0xffff, 0};
	vcpu->gdtr = (struct descriptor_table){0xffff, 0};
	vcpu->idtr = (struct descriptor_table){0xffff, 0};
	vcpu->rflags = RFLAGS_SET;
	vcpu->dr6 = DR6_RESET;
	vcpu->dr7 = DR7_RESET;
}

/* Multiboot2 specification 2.0, 3.3 "I386 machine state"; Linux, Documentation/arch/x86/boot.rst,
   "32-bit Boot Protocol". */
void reset_to_kernel(struct vcpu *vcpu, const struct kernel_entry *kernel)
{
	set_common(vcpu);
	for (unsigned i = 0; i < SEGMENTS; i++)
		vcpu->segment[i] = (struct segment){KERNEL_DS, DATA_32, ~0u, 0};
	vcpu->segment[CS] = (struct segment){KERNEL_CS, CODE_32, ~0u, 0};
	vcpu->gdtr = (struct descriptor_table){KERNEL_GDT_BYTES - 1, kernel->scratch};
	vcpu->cr0 = CR0_PE_ET;
	vcpu->rip = kernel->entry;
	vcpu->gpr[RAX] = kernel->eax;
	vcpu->gpr[RBX] = kernel->ebx;
	vcpu->gpr[RSI] = kernel->esi;
}

/* SDM Vol 3, table 9-1, column INIT, and 8.4.4. MSRs, and the x87 and SSE state, are unchanged,
   IA32_EFER apart: it would keep LMA without paging. */
void reset_by_init(struct vcpu *vcpu, uint8_t vector)
{
	set_common(vcpu);
	for (unsigned i = 0; i < SEGMENTS; i++)
		vcpu->segment[i] = (struct segment){0, i == CS ? CODE_16 : DATA_16, 0xffff, 0};
	vcpu->segment[CS].selector = (uint16_t)(vector << 8);
	vcpu->segment[CS].base = (uint64_t)vector << 12;
	memset(vcpu->gpr, 0, sizeof(vcpu->gpr));
	vcpu->gpr[RDX] = vcpu->silicon->profile->signature;
	vcpu->rip = 0;
	vcpu->cr0 = CR0_INIT;
	vcpu->cr2 = vcpu->cr3 = vcpu->cr4 = 0;
	vcpu->efer = 0;
	vcpu->cpl = 0;
	vcpu->interrupt_shadow = false;
	vcpu->nmi_blocked = vcpu->nmi_pending = false;
	vcpu->halted = vcpu->shut_down = false;
	vcpu->attention = false;
}
