/* SPDX-License-Identifier: MIT */
/*
 * An interrupt to the monitor when a counter of cycles is to overflow while the guest runs
 * natively: the last comparator of the HPET, by a message to the local APIC, as NMI. By the HPET's
 * clock it is at most DEADLINE_LATE microseconds late, whatever IF is. Where there is no HPET
 * with three comparators, of 64 bits, that sends messages (QEMU: -global hpet.msi=on), or the guest
 * has not turned it on, the overflow shows at the guest's next exit.
 */
#pragma once

#include <stdbool.h>

enum { DEADLINE_LATE = 20 };

struct guest;

/* Sets the interrupt for this processor of the guest, or takes it off, as its counters are. Before
   each entry. */
void deadline_set(struct guest *guest);

/* On the processor that INIT takes out of the guest: no interrupt is sent to it from now on, until
   deadline_set(). */
void deadline_forget(struct guest *guest);

/* Takes an NMI that was noted: true if it is the guest's, false if there is none or if it is this
   file's own. */
bool deadline_take_nmi(struct guest *guest);
