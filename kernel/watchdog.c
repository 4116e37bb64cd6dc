// SPDX-License-Identifier: MIT
#include "kernel/watchdog.h"

#include "drivers/apic/lapic.h"
#include "drivers/clock/hpet.h"
#include "kernel/cpu.h"
#include "kernel/time.h"
#include "kernel/trap/trap.h"

#include <stdatomic.h>

/* The NMI is this much later: where interrupts are on, the timer has spoken by then. */
#define NMI_GRACE 1000000

/*
 * A deadline in slices: each has to be seen to pass. The clocks of a guest may have gone on while a
 * hypervisor had stopped it; however long that was, it counts as the slice that it was in.
 */
#define SLICES 4

/*
 * Microseconds: when the trial is due, and when it is given up. A host that is busy may leave a
 * guest alone for tenths of a second.
 */
#define TRIAL	    20
#define TRIAL_LIMIT 1000000

static void (*missed)(struct trap_frame *frame);
static struct timer timer;
static bool nmi;
static atomic_bool armed;
static uint64_t slice;			 /* microseconds */
static atomic_uint timer_left, nmi_left; /* slices that each of the two has not seen pass */

/* Where interrupts are on the NMI has seen what the timer has, and does not arrive. */
static void begin_slice(void)
{
	atomic_store(&nmi_left, atomic_load(&timer_left));
	timer_start(&timer, slice);
	if (nmi)
		hpet_nmi_after(slice + NMI_GRACE);
}

static void timer_expired(struct timer *expired)
{
	(void)expired;
	if (!atomic_load(&armed))
		return;
	if (atomic_fetch_sub(&timer_left, 1) > 1)
		begin_slice();
	else if (atomic_exchange(&armed, false) && missed)
		missed(this_cpu()->interrupted);
}

/* A trial at boot: a machine may list the route and not have it. */
static volatile bool trial_came;

static bool trial(struct trap_frame *frame)
{
	(void)frame;
	trial_came = true;
	return true;
}

static bool nmi_arrives(void)
{
	uint64_t end;

	nmi_add_handler(trial);
	hpet_nmi_after(TRIAL);
	end = clock_us() + TRIAL_LIMIT;
	while (!trial_came && clock_us() < end)
		__asm__ volatile("pause");
	hpet_nmi_cancel();
	nmi_remove_handler(trial);
	return trial_came;
}

/* One-shots of the HPET are told from other NMIs by the counter having passed the deadline. */
static bool nmi_expired(struct trap_frame *frame)
{
	if (!hpet_nmi_expired())
		return false;
	if (!atomic_load(&armed))
		return true;
	if (atomic_fetch_sub(&nmi_left, 1) > 1)
		hpet_nmi_after(slice);
	else if (atomic_exchange(&armed, false) && missed)
		missed(frame);
	return true;
}

void watchdog_init(void)
{
	nmi = hpet_nmi_init(lapic_id()) && nmi_arrives();
	timer.expired = timer_expired;
	if (nmi)
		nmi_add_handler(nmi_expired);
}

const char *watchdog_kind(void)
{
	return nmi ? "timer+nmi" : "timer";
}

void watchdog_set_handler(void (*handler)(struct trap_frame *frame))
{
	missed = handler;
}

void watchdog_arm(uint64_t seconds)
{
	slice = seconds * 1000000 / SLICES;
	atomic_store(&timer_left, SLICES);
	atomic_store(&armed, true);
	begin_slice();
}

void watchdog_disarm(void)
{
	atomic_store(&armed, false);
	timer_stop(&timer);
	watchdog_silence();
}

void watchdog_silence(void)
{
	if (nmi)
		hpet_nmi_cancel();
}
