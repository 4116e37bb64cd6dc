// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/clock/clock.h"
#include "kernel/cpu.h"
#include "kernel/smp/internal.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/pause.h"
#include "kernel/trap/trap.h"

#define MOST_WAIT 100000 /* microseconds */

static _Atomic(struct cpu *) stopper; /* the one that goes on */
static atomic_uint stopped;

static bool stop(struct trap_frame *frame)
{
	struct cpu *goes_on = atomic_load(&stopper);

	(void)frame;
	if (!goes_on || goes_on == this_cpu())
		return false;
	trace_stop_cpu();
	atomic_fetch_add(&stopped, 1);
	for (;;)
		__asm__ volatile("cli; hlt");
}

void smp_init_stop(void)
{
	nmi_add_handler(stop);
}

/* Of two CPUs that come here at once the second waits for the NMI of the first. */
void smp_stop_others(void)
{
	struct cpu *nobody = NULL;
	uint64_t end;

	__asm__ volatile("cli");
	if (!atomic_compare_exchange_strong(&stopper, &nobody, this_cpu())) {
		while (nobody != this_cpu())
			__asm__ volatile("hlt");
		return;
	}
	for (unsigned i = 0; i < cpu_count(); i++)
		if (cpu_by_index(i) != this_cpu())
			lapic_send_nmi(cpu_by_index(i)->apic_id);
	end = clock_us() + MOST_WAIT;
	while (atomic_load(&stopped) + 1 < cpu_count() && clock_us() < end)
		__asm__ volatile("pause");
}
