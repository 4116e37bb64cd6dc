/* SPDX-License-Identifier: MIT */
/*
 * Local APIC of the CPU that calls (SDM Vol 3, chapter "Advanced Programmable Interrupt
 * Controller"), through its registers in memory (xAPIC) or through MSRs (x2APIC). The mode is the
 * same on all CPUs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LAPIC_SPURIOUS_VECTOR 0xffu /* takes no EOI */
#define XAPIC_ID_MOST	      0xfeu /* that xAPIC mode can address: FFH is a broadcast */

/* Registers by their offset in memory; the MSR is 800H + offset / 16. */
enum lapic_register {
	APIC_ID = 0x020,
	APIC_VERSION = 0x030,
	APIC_TPR = 0x080,
	APIC_EOI = 0x0b0,
	APIC_SVR = 0x0f0,
	APIC_ISR = 0x100, /* 256 bits, 32 in every 16 bytes */
	APIC_IRR = 0x200, /* as APIC_ISR */
	APIC_ESR = 0x280,
	APIC_LVT_CMCI = 0x2f0,
	APIC_ICR = 0x300,
	APIC_ICR_HIGH = 0x310, /* xAPIC only */
	APIC_LVT_TIMER = 0x320,
	APIC_LVT_THERMAL = 0x330,
	APIC_LVT_PC = 0x340,
	APIC_LVT_LINT0 = 0x350,
	APIC_LVT_LINT1 = 0x360,
	APIC_LVT_ERROR = 0x370,
	APIC_TIMER_INITIAL = 0x380,
	APIC_TIMER_CURRENT = 0x390,
	APIC_TIMER_DIVIDE = 0x3e0,
	APIC_SELF_IPI = 0x3f0, /* x2APIC only */
};

/*
 * Takes over this CPU's APIC: enabled, all local interrupts masked, task priority 0. The boot CPU
 * calls it first and decides the mode: x2APIC if firmware left it so, else xAPIC. NULL, or a
 * sentence that says why there is none. With IF = 0.
 */
const char *lapic_init(void);

/*
 * Goes from xAPIC to x2APIC; APs that call lapic_init() later follow. False if the CPU has none.
 * Between lapic_init() of the boot CPU and the start of the first AP, with IF = 0.
 */
bool lapic_enable_x2apic(void);

bool lapic_is_x2apic(void);

/* The rest needs lapic_init() on this CPU. Marked NMI: may also be called in an NMI handler. */

uint32_t apic_read(enum lapic_register reg); /* NMI */
uint32_t lapic_id(void);		     /* NMI */
bool lapic_in_service(uint8_t vector);	     /* NMI. It waits for its EOI */
bool lapic_requested(void); /* NMI. An interrupt waits for IF, or for the task priority */
void lapic_eoi(void);	    /* Ends the fixed-vector interrupt in service. Not for an NMI */

void lapic_set_task_priority(uint8_t priority); /* NMI. Vectors up to priority | 0FH wait */

/* LVT performance counter entry: the interrupt of the PMU and of the DS area (PMI). */

#define LVT_VECTOR_MASK 0x000000ffu
#define LVT_NMI		0x00000400u
#define LVT_PENDING	0x00001000u
#define LVT_MASKED	0x00010000u

/* Unmasked: to `vector`, or as NMI, for which the vector does not count. NMI */
void lapic_set_lvtpc(uint8_t vector, bool nmi);
void lapic_unmask_lvtpc(void); /* NMI. The APIC masks it at each delivery */
void lapic_mask_lvtpc(void);   /* NMI */
bool lapic_has_lvtpc(void);    /* NMI */

/*
 * Interprocessor interrupts. The waits for an earlier one to leave are bounded. False: the target
 * cannot be addressed in this mode.
 */

void lapic_self_ipi(uint8_t vector); /* NMI */
/* As all below: with IF = 0, since an interrupt between its two writes may send one too. */
bool lapic_send_ipi(uint32_t apic_id, uint8_t vector);
bool lapic_send_nmi(uint32_t apic_id);
void lapic_self_nmi(void);
bool lapic_send_init(uint32_t apic_id);
/* Start-up IPI: the AP begins in real mode at `address`, a page below 1 MiB. */
bool lapic_send_startup(uint32_t apic_id, uint32_t address);

/*
 * Timer, one shot; its interrupt is a fixed vector (the timer cannot deliver NMI). It counts at
 * the input clock divided by 16: that reaches a minute at 1 GHz.
 */

void lapic_timer_set_vector(uint8_t vector); /* stopped, unmasked. Each CPU */
/*
 * Expires `microseconds` from now, at least one tick, and replaces what was running. A time
 * beyond the counter's range expires when the range does. Needs lapic_timer_set_frequency().
 */
void lapic_timer_start_us(uint64_t microseconds);
void lapic_timer_stop(void);	      /* an interrupt already pending still arrives */
uint32_t lapic_timer_remaining(void); /* ticks; 0: stopped or expired */

/* Lets the timer count down from its largest value without any interrupt, to be measured. */
void lapic_timer_run_masked(void);
/* Sets the measured ticks per second, the same on all CPUs. */
void lapic_timer_set_frequency(uint64_t hz);
