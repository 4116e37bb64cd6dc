/* SPDX-License-Identifier: MIT */
/* The processors of the guest, and what each has separately. */
#pragma once

#include <stdint.h>

#include "monitor/svm/guest.h"

#define MOST_PROCESSORS 8

/* Bytes that MOST_PROCESSORS need of the pool of pages. */
uint64_t processors_memory(void);

/* `root`: the monitor's page tables; `silicon`: what the processors are made of, every second
   one of `other` unless that is NULL. */
void processors_init(uint64_t root, const struct silicon *silicon, const struct silicon *other);

/* Makes the processor that calls one of the guest's: all but its architectural state, which is
   zero. Ends the run if there are more than MOST_PROCESSORS. */
struct guest *processor_create(void);

/* Processor `index`, in the order of their coming; NULL past the last one. */
struct guest *processor_by_index(unsigned index);
struct guest *processor_by_apic_id(uint32_t apic_id);

/* Runs the boot processor, on its own stack. The others come by themselves. */
_Noreturn void processor_run_first(struct guest *guest);
