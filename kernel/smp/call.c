// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/clock/clock.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"

// Each CPU has a list of calls, pushed and emptied by single atomic operations. A CPU that waits
// for its call serves those that it is sent, so that two CPUs that call each other both get on.

struct smp_call {
	void (*function)(void *argument);
	void *argument;
	atomic_bool done;
	struct smp_call *next;
};

static void serve(struct cpu *cpu)
{
	struct smp_call *call = atomic_exchange(&cpu->calls, NULL);

	while (call) {
		struct smp_call *next = call->next; /* the caller's stack: gone once it is done */

		call->function(call->argument);
		atomic_store(&call->done, true);
		call = next;
	}
}

static void interrupt(struct trap_frame *frame)
{
	(void)frame;
	lapic_eoi();
	serve(this_cpu());
}

static void kicked(struct trap_frame *frame)
{
	(void)frame;
	lapic_eoi();
	this_cpu()->reschedule = true;
}

/* Pauses tracing while it spins, as spin_wait() does. */
static void wait(const struct cpu *self, const struct smp_call *call)
{
	struct trace_paused paused = trace_pause_cpu();

	while (!atomic_load(&call->done) && !atomic_load(&self->calls))
		__asm__ volatile("pause");
	trace_resume_cpu(paused);
}

void smp_call(unsigned index, void (*function)(void *argument), void *argument)
{
	struct smp_call call = {.function = function, .argument = argument};
	uint64_t flags = interrupts_save();
	struct cpu *target = cpu_by_index(index), *self = this_cpu();

	if (target == self) {
		function(argument);
	} else {
		call.next = atomic_load(&target->calls);
		while (!atomic_compare_exchange_weak(&target->calls, &call.next, &call))
			;
		lapic_send_ipi(target->apic_id, VECTOR_CALL);
		while (!atomic_load(&call.done)) {
			wait(self, &call);
			serve(self);
		}
	}
	interrupts_restore(flags);
}

void smp_call_all(void (*function)(void *argument), void *argument)
{
	for (unsigned i = 0; i < cpu_count(); i++)
		if (atomic_load(&cpu_by_index(i)->online))
			smp_call(i, function, argument);
}

void smp_kick(unsigned index)
{
	uint64_t flags = interrupts_save();
	struct cpu *target = cpu_by_index(index);

	target->reschedule = true;
	if (target != this_cpu())
		lapic_send_ipi(target->apic_id, VECTOR_KICK);
	interrupts_restore(flags);
}

#define MOST_SINGLE_FLUSHES 128

struct range {
	uint64_t start, bytes;
};

/* Page by page, or all at once: no page is global. */
static void flush(void *argument)
{
	const struct range *range = argument;
	uint64_t root;

	if (range->bytes > MOST_SINGLE_FLUSHES * PAGE_SIZE) {
		__asm__ volatile("mov %%cr3, %0\n\tmov %0, %%cr3" : "=r"(root) : : "memory");
		return;
	}
	for (uint64_t at = 0; at < range->bytes; at += PAGE_SIZE)
		__asm__ volatile("invlpg (%0)" : : "r"(range->start + at) : "memory");
}

void smp_flush(uint64_t start, uint64_t bytes)
{
	struct range range = {start, bytes};

	smp_call_all(flush, &range);
}

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

void smp_init_calls(void)
{
	interrupt_set_handler(VECTOR_CALL, interrupt);
	interrupt_set_handler(VECTOR_KICK, kicked);
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
