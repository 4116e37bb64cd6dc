/* SPDX-License-Identifier: MIT */
/*
 * x2APIC mode (SDM Vol 3, 10.12), offered to the guest whether the processor has it or not: the
 * real local APIC stays in xAPIC mode, and MSRs 800H to 8FFH reach its registers.
 */
#ifndef SPOOR_MONITOR_SVM_X2APIC_H
#define SPOOR_MONITOR_SVM_X2APIC_H

#include <stdbool.h>
#include <stdint.h>

struct guest;
struct vcpu;

/* IA32_APIC_BASE.EN, as the guest has it: CPUID.1:EDX[9] follows it (SDM Vol 3, 10.4.3). */
bool apic_is_on(const struct vcpu *vcpu);

/* IA32_APIC_BASE. False: #GP(0). */
bool apic_base_read(const struct guest *guest, uint64_t *value);
bool apic_base_write(struct guest *guest, uint64_t value);

bool x2apic_owns_msr(uint32_t index);
/* False: #GP(0), which is what each of them raises in xAPIC mode. */
bool x2apic_read_msr(struct guest *guest, uint32_t index, uint64_t *value);
bool x2apic_write_msr(struct guest *guest, uint32_t index, uint64_t value);

#endif
