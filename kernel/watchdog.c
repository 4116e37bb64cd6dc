// SPDX-License-Identifier: MIT
#include "kernel/watchdog.h"

#include "drivers/apic/lapic.h"
#include "drivers/clock/hpet.h"
#include "kernel/cpu.h"
#include "kernel/time.h"
#include "kernel/trap/trap.h"

#include <stdatomic.h>

/* The NMI comes this much later: where interrupts are on, the timer has spoken by then. */
#define NMI_GRACE 1000000

static void (*missed)(const struct trap_frame *frame);
static struct timer timer;
static bool nmi;
static atomic_bool armed;

static void timer_expired(struct timer *expired)
{
	(void)expired;
	if (atomic_exchange(&armed, false) && missed)
		missed(this_cpu()->interrupted);
}

/* One-shots of the HPET are told from other NMIs by the counter having passed the deadline. */
static bool nmi_expired(struct trap_frame *frame)
{
	if (!hpet_nmi_expired())
		return false;
	if (atomic_exchange(&armed, false) && missed)
		missed(frame);
	return true;
}

void watchdog_init(void)
{
	nmi = hpet_nmi_init(lapic_id());
	timer.expired = timer_expired;
	if (nmi)
		nmi_add_handler(nmi_expired);
}

const char *watchdog_kind(void)
{
	return nmi ? "timer+nmi" : "timer";
}

void watchdog_set_handler(void (*handler)(const struct trap_frame *frame))
{
	missed = handler;
}

void watchdog_arm(uint64_t seconds)
{
	atomic_store(&armed, true);
	timer_start(&timer, seconds * 1000000);
	if (nmi)
		hpet_nmi_after(seconds * 1000000 + NMI_GRACE);
}

void watchdog_disarm(void)
{
	atomic_store(&armed, false);
	timer_stop(&timer);
	if (nmi)
		hpet_nmi_cancel();
}
