/* SPDX-License-Identifier: MIT */
/*
 * Precise event-based sampling of one virtual processor: SDM Vol 3, 18.4.4, 18.8.1.1, 18.11, 18.13;
 * the adaptive records of format 4: Linux 6.1, arch/x86/include/asm/perf_event.h. Written from
 * these, not from the kernel's driver.
 */
#pragma once

#include "monitor/vcpu.h"

/* Whether IA32_MISC_ENABLE says that PEBS is available. */
bool pebs_present(const struct vcpu *vcpu);

/* False: #GP(0), nothing changed. */
bool pebs_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool pebs_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);

/* Whether an overflow arms counter `n`: whether it takes samples. */
bool pebs_arms(const struct vcpu *vcpu, unsigned n);

/* Counter `n` overflowed: it is armed, if it takes samples. */
void pebs_overflow(struct vcpu *vcpu, unsigned n);

/* The event of counter `n` occurred. True: a sample was taken of it, and the counter begins again;
   false: it counts as any other. */
bool pebs_take(struct vcpu *vcpu, unsigned n, const struct retired *retired);
