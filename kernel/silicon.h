/* SPDX-License-Identifier: MIT */
/* Whose Branch Trace Store this is: said in the banner and in the last line of every run. */
#pragma once

#include <stdbool.h>

/* Boot, after ds_probe(). */
void silicon_init(void);

/*
 * "native": no hypervisor; "guest": a foreign one passes a trace unit through; "virtual":
 * Spoor's own monitor; "none": there is no trace unit, neither BTS nor PEBS nor Intel PT.
 */
const char *silicon_name(void);

/*
 * Returns what follows `silicon=` in banner and DONE line: " rehearsal=yes" where Spoor's own
 * monitor presents itself as another hypervisor, else "".
 */
const char *silicon_mark(void);

/* A hypervisor other than Spoor's own monitor: what can hang a host is refused there.
   True in a rehearsal. */
bool silicon_is_foreign_guest(void);

/* True on Spoor's own monitor, which presents itself as such: no test can hang a host there. */
bool silicon_is_virtual(void);

/* The hypervisor's own name (CPUID 40000000H), "" on bare metal. */
const char *silicon_hypervisor(void);
