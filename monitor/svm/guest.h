/* SPDX-License-Identifier: MIT */
/* The guest on one of its processors, and how the parts of this directory share it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "monitor/boot/kernel.h"
#include "monitor/boot/relocate.h"
#include "monitor/svm/lapic.h"
#include "monitor/svm/vmcb.h"
#include "monitor/vcpu.h"

/* The processor's activity; written under the lock of startup.c, but for the step to HALTED. */
enum activity {
	ACTIVITY_WAITING,  /* for a start-up IPI, on the bare processor */
	ACTIVITY_STARTING, /* it has got one */
	ACTIVITY_RUNNING,
	ACTIVITY_HALTED, /* out of the guest until an INIT of the bare processor */
};

struct silicon;

struct guest {
	struct vcpu vcpu;
	struct vmcb *vmcb;
	uint64_t injection;	 /* EVENTINJ of the next entry; without EVENT_VALID: none */
	bool watches_ring_3;	 /* the last entry was of ring 0, and ring 3 is interpreted */
	bool stale_translations; /* page tables changed without the processor's knowledge */
	uint64_t misc_enable, sysenter_cs;
	uint64_t deadline; /* TSC of the next overflow of a counter of cycles; 0: none */
	bool own_nmi;	   /* the NMI that is noted is deadline.c's */

	bool lvt_disarmed; /* a hypervisor's, in a rehearsal: no PMI until the entry is written */
	bool apic_off;	   /* IA32_APIC_BASE.EN = 0 for the guest; the real one stays on */
	bool x2apic;
	uint64_t x2apic_destination; /* the upper half of its ICR */
	uint32_t apic_id;
	uint32_t logical_destination, destination_format; /* as in its local APIC */
	enum activity activity;
	bool init_requested; /* it is to leave for ACTIVITY_HALTED */
};

/* The guest that `vcpu` is the processor of. */
struct guest *guest_of(struct vcpu *vcpu);

/* Runs `kernel` as a guest from its entry on. `info` is the machine's memory map,
   `wake_page` a page below 1 MiB that the map does not offer; 0: there is none. `silicon` is what
   its processors are made of, every second one of `other` unless that is NULL. With `lockstep` the
   interpreter is checked against the processor: interp.h. `one_processor`: as of lapic_watch(). */
_Noreturn void guest_run(const struct boot_info *info, const struct residence *residence,
			 const struct kernel_entry *kernel, uint64_t wake_page,
			 const struct silicon *silicon, const struct silicon *other, bool lockstep,
			 bool one_processor);

/* lockstep.c. `deviations` of the processor (deviations.h) are corrected, and what was corrected is
   not compared. */
void lockstep_enable(unsigned deviations);
/* The same for one processor: `memory` holds LOCKSTEP_MEMORY bytes for it. */
void lockstep_attach(struct guest *guest, void *memory);
/* Whether the interpreter may access this page: with lockstep, memory alone. */
bool lockstep_allows(uint64_t physical);
/* An OUT to the one port that ends a run under QEMU. */
void exit_port(struct guest *guest);

/* guest.c, run_traced.c: from one change of the way of execution to the next. */
void run_native(struct guest *guest);
void run_traced(struct guest *guest);
/* run_traced.c: by the interpreter, NMI before external interrupts. One that the guest cannot
   accept now stays where it is. */
void deliver_pending(struct vcpu *vcpu);
/* The same: until an event ends HLT, which it delivers. */
void wait_while_halted(struct guest *guest);

/* enter.c: VMRUN with the state in guest->vcpu; false if an NMI came first and nothing ran. */
enum entry {
	ENTER_FREELY, /* until something intercepted happens */
	ENTER_STEP,   /* RFLAGS.TF is set: exceptions exit, external interrupts wait */
};
bool enter(struct guest *guest, enum entry entry);

/* Once, before the first enter(). */
void enter_init(void);

/* run_traced.c: executes one instruction of the guest natively, or raises what it raises. False if
   it still has to be executed. */
enum step_flags {
	STEP_KEEPS_TF, /* the instruction leaves TF as it is */
	STEP_LOADS_TF, /* IRET, POPF: TF is what the instruction left */
};
bool step(struct guest *guest, enum step_flags flags);

/* exits.c: does what the last exit asks for. */
void handle_exit(struct guest *guest);
_Noreturn void report_shutdown(const struct vcpu *vcpu);

/* events.c */
/* The guest gets an exception at its current instruction. `error` below 0: it has no error code. */
void raise_exception(struct guest *guest, uint8_t vector, int64_t error);
static inline bool exception_has_error(uint8_t vector)
{
	return vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21;
}
/* An instruction that the processor or the monitor executed is complete: where it was. */
struct retired native_began(const struct vcpu *vcpu);
void native_retired(struct vcpu *vcpu, struct retired *began);
/* The instruction at RIP, `opcode_bytes` long without prefixes, is done. */
void complete_instruction(struct guest *guest, unsigned opcode_bytes);
/* The ModRM byte of the instruction at RIP if that is 0FH `opcode`; else -1. */
int modrm_of(struct guest *guest, uint8_t opcode);
/* The last exit left the guest in an interrupt shadow, which the next entry would lose. */
void keep_interrupt_shadow(struct guest *guest);

/* nested.c: the tables that all processors share */
/* No access of the guest reaches `range`. Before nested_init(). */
void nested_hide(struct range range);
void nested_init(const struct boot_info *info);
/* The tables in which the local APIC's page is this. */
uint64_t nested_root(enum lapic_view view);
void nested_map(uint64_t physical);
/* Whether a write of the guest to this page exits: its local APIC's, and one of the monitor's. */
bool nested_is_read_only(uint64_t page);
/* Ends the run: the processor itself cannot execute an instruction that writes to such a page. */
_Noreturn void report_refused_write(const struct vcpu *vcpu);
/* True if the memory map offers the page and the monitor does not hide it. */
bool nested_is_memory(uint64_t physical);
/* The page of guest-physical memory, as the monitor sees it; NULL beyond its direct map. */
uint8_t *nested_page(uint64_t physical);

/* bios.c: the BIOS, if this machine has one, gives the guest the memory of `map` alone. Once. */
void bios_limit(const struct boot_info *map);

/* identity.c: the bits of IA32_XSS, and with them XSAVES, that the monitor adds to the processor
   underneath. 0 where that has its own. */
uint64_t virtual_xss(const struct silicon *silicon);

/* permissions.c: physical addresses of the maps of the MSRs and of the ports that exit. */
uint64_t msr_permissions(void);
uint64_t port_permissions(void);
/* Has this port exit as well. */
void port_exits(uint16_t port);

/* The keyboard controller's port by which a guest resets the machine. It exits, so that
   platform_out() can say it. The chipset's, CF9H, would have every access to PCI's CF8H exit. */
enum { RESET_PORT = 0x64 };
