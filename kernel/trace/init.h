/* SPDX-License-Identifier: MIT */
/* Tracing at boot. */
#ifndef SPOOR_KERNEL_TRACE_INIT_H
#define SPOOR_KERNEL_TRACE_INIT_H

#include <stdint.h>

/* What firmware left on is recorded and turned off. Boot, once exceptions can be caught. */
void trace_quiesce(void);

/*
 * Prints the banner's lines on the trace units: what is enumerated, what works, what firmware had
 * left on. `silicon` says whose they are, `mark` is what follows it. Boot, once.
 */
void trace_print_units(const char *silicon, const char *mark);

/* What the IA32_DEBUGCTLs of the other CPUs held when they had been started, or-ed. */
uint64_t trace_found_at_start(void);

/* Probes the trace units and the counters, gives this CPU its staging, takes the PMI. Boot. */
void trace_init(void);

/* The same for another CPU, which has what the boot CPU has. */
void trace_init_cpu(void);

#endif
