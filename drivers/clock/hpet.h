/* SPDX-License-Identifier: MIT */
/*
 * High precision event timer (IA-PC HPET specification 1.0a): a counter, and one-shot comparators
 * that interrupt through the I/O APIC.
 */
#ifndef SPOOR_DRIVERS_HPET_H
#define SPOOR_DRIVERS_HPET_H

#include "drivers/clock/reference.h"

#include <stdbool.h>

/*
 * Finds it by ACPI, silences all comparators and lets the counter run. False: there is none, or
 * none that makes sense. After acpi_init(); boot CPU.
 */
bool hpet_init(void);

bool hpet_present(void);
uint64_t hpet_frequency(void);	 /* Hz */
uint64_t hpet_counter(void);	 /* 64 bits, or 32 that wrap around. NMI */
unsigned hpet_timer_count(void); /* comparators */
const struct reference *hpet_reference(void);

/* The I/O APIC inputs that comparator `timer` may interrupt: bit n for GSI n. */
uint32_t hpet_routes(unsigned timer);
/* Directs comparator `timer` to such an input; edge, active high. False if it cannot. */
bool hpet_set_route(unsigned timer, uint32_t gsi);
/*
 * Takes over the lines of PIT and RTC, which then do not interrupt: comparator 0 is at I/O APIC
 * input 2, comparator 1 at input 8 (specification 2.3.5). False if this HPET cannot.
 */
#define HPET_LEGACY_GSI 2u
bool hpet_replace_legacy(void);

/*
 * One interrupt `microseconds` from now. Returns for how many it was set: fewer where the
 * comparator does not reach that far. NMI
 */
uint64_t hpet_timer_start(unsigned timer, uint64_t microseconds);
void hpet_timer_stop(unsigned timer); /* NMI */
/* True from its interrupt on until it is started again or stopped. NMI */
bool hpet_timer_expired(unsigned timer);

/*
 * One comparator as a deadline that IF = 0 cannot hold off: it arrives as an NMI through the I/O
 * APIC. One user at a time.
 */

/*
 * Routes it to the CPU `apic_id`. False: no HPET, no I/O APIC, or no input that both can use.
 * After hpet_init() and ioapic_init(); again, to move it to another CPU.
 */
bool hpet_nmi_init(uint32_t apic_id);
/* Replaces the deadline that was set; returns what hpet_timer_start() does. NMI */
uint64_t hpet_nmi_after(uint64_t microseconds);
void hpet_nmi_cancel(void); /* NMI. One already under way still arrives */
/* True if a deadline is set and over: how the NMI handler distinguishes it from other causes. NMI
 */
bool hpet_nmi_expired(void);

#endif
