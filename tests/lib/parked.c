// SPDX-License-Identifier: MIT
#include "tests/lib/parked.h"

#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/mm/vm.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/trace.h"

#define MOST_WAIT 2000000 /* microseconds: a virtual processor's host may be busy */

static void *parked[5]; /* where cpu_park() goes on: __builtin_setjmp() */
static uint64_t parked_cr4;

/* The first C of a parked CPU. */
static _Noreturn void processor_unpark(void)
{
	vm_load();
	__builtin_longjmp(parked, 1);
}

void cpu_park(void (*started)(void *argument), void *argument)
{
	struct cpu *cpu = this_cpu();

	__asm__ volatile("movq %%cr4, %0" : "=r"(parked_cr4));
	if (!__builtin_setjmp(parked)) {
		atomic_store(&cpu->online, false);
		while (!atomic_load(&cpu->online))
			__asm__ volatile("pause");
	}
	started(argument);
	smp_load_processor(cpu);
	__asm__ volatile("movq %0, %%cr4" : : "r"(parked_cr4) : "memory"); /* as units set it */
	trace_deliver_pmi(true);
	atomic_store(&cpu->online, true);
}

bool cpu_unpark(unsigned index)
{
	struct cpu *cpu = cpu_by_index(index);
	uint64_t flags = interrupts_save();
	bool started =
		!atomic_load(&cpu->online) && smp_send_start(cpu, processor_unpark, MOST_WAIT);

	interrupts_restore(flags);
	return started;
}
