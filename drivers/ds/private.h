/* SPDX-License-Identifier: MIT */
/* Between the files of this directory. */
#pragma once

#include "drivers/ds/ds.h"

/*
 * Writes one of the two MSRs of the Debug Store and reads it back, under #GP fixup. True if it
 * holds the value; else `caps` says what it did. For detection only.
 */
bool ds_msr_holds(uint32_t msr, uint64_t value, struct ds_caps *caps);

/* Puts IA32_DS_AREA at `area`, if this CPU does not have it there. TR is clear. */
void ds_load_area(struct ds_cpu *cpu, const void *area);

/*
 * pebs.c. Stops the PEBS half, if somebody holds it and it records, and lets it go on; carries its
 * fields from the area that this CPU has to another, while it is stopped; serves its interrupt.
 * ds_pebs_quiesce() clears what firmware left in IA32_PEBS_ENABLE, where CPUID has DS.
 */
void ds_pebs_pause(const struct ds_cpu *cpu);
void ds_pebs_resume(const struct ds_cpu *cpu);
void ds_pebs_quiesce(void);
void ds_pebs_move(const struct ds_cpu *cpu, uint64_t to);
void ds_pebs_interrupt(struct ds_cpu *cpu);
