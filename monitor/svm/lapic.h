/* SPDX-License-Identifier: MIT */
/* The guest's local APICs: the real ones, of which the guest's writes are looked at. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct guest;
struct vcpu;

/* The guest finds one of these in the page of its local APIC: nested_root(). */
enum lapic_view {
	LAPIC_WATCHED, /* its registers; a write exits */
	LAPIC_OPEN,    /* its registers */
	LAPIC_SILENT,  /* nothing that answers */
	LAPIC_VIEWS,
};

/* Finds the page of the registers. Once, on the boot processor; `one_processor`: the machine has no
   other, and never will. */
void lapic_watch(bool one_processor);
/* How this processor is to run next. It is watched where there are others to be started, where the
   guest executes one instruction, and where a unit waits for a write to the LVT. */
enum lapic_view lapic_view(const struct guest *guest, bool one_instruction);
bool lapic_is_watched(uint64_t physical);
/* Whether the registers of the processor that calls are in that page: not while the guest has its
   local APIC off or in x2APIC mode. */
bool lapic_answers(void);

/* Notes what the local APIC of the processor that calls answers to. */
void lapic_note_destination(struct guest *guest);
/*
 * The first brings this processor's local APIC to its state after power-up; the second to that of
 * one that is off: the pins LINT0 (of the boot processor) and LINT1 are INTR and NMI. SDM Vol 3,
 * 10.4.3, 10.4.7.1.
 */
void lapic_power_up(struct guest *guest);
void lapic_turn_off(bool boot_processor);
/* The guest wrote its register at `offset`, of the xAPIC's page. */
void lapic_note_write(struct guest *guest, uint32_t offset);

/* Whether an interrupt command that `sender` writes, in both halves, is for `target`: SDM Vol 3,
   10.6.2. Of the shorthands only "all others" is known. */
bool lapic_addresses(uint32_t command, uint8_t destination, const struct guest *sender,
		     const struct guest *target);

/*
 * x2apic.c: x2APIC mode (SDM Vol 3, 10.12), offered to the guest whether the processor has it or
 * not: the real local APIC stays in xAPIC mode, and MSRs 800H to 8FFH reach its registers.
 */

/* IA32_APIC_BASE.EN, as the guest has it: CPUID.1:EDX[9] follows it (SDM Vol 3, 10.4.3). */
bool apic_is_on(const struct vcpu *vcpu);

/* IA32_APIC_BASE. False: #GP(0). */
bool apic_base_read(const struct guest *guest, uint64_t *value);
bool apic_base_write(struct guest *guest, uint64_t value);

bool x2apic_owns_msr(uint32_t index);
/* False: #GP(0), which is what each of them raises in xAPIC mode. */
bool x2apic_read_msr(struct guest *guest, uint32_t index, uint64_t *value);
bool x2apic_write_msr(struct guest *guest, uint32_t index, uint64_t value);
