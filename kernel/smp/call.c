// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/clock/clock.h"
#include "drivers/debugexit/debugexit.h"
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
	atomic_uint *left; /* of the calls that the caller waits for */
	struct smp_call *next;
};

static void serve(struct cpu *cpu)
{
	struct smp_call *call = atomic_exchange(&cpu->calls, NULL);

	while (call) {
		struct smp_call *next = call->next; /* the caller's stack: gone once none is left */

		call->function(call->argument);
		atomic_fetch_sub(call->left, 1);
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

#define AT_ONCE 16 /* calls on the stack */

/* On CPUs `first` to `end` - 1, at most AT_ONCE, where there are so many. */
static void call_some(unsigned first, unsigned end, void (*function)(void *argument),
		      void *argument)
{
	struct smp_call calls[AT_ONCE], *call = calls;
	uint64_t flags = interrupts_save();
	struct cpu *self = this_cpu();
	atomic_uint left = 0;

	for (unsigned i = first; i < end && i < cpu_count(); i++, call++) {
		struct cpu *target = cpu_by_index(i);

		if (target == self || !atomic_load(&target->online))
			continue;
		atomic_fetch_add(&left, 1);
		*call = (struct smp_call){function, argument, &left, atomic_load(&target->calls)};
		while (!atomic_compare_exchange_weak(&target->calls, &call->next, call))
			;
		lapic_send_ipi(target->apic_id, VECTOR_CALL);
	}
	if (self->index >= first && self->index < end)
		function(argument);
	while (atomic_load(&left)) {
		TRACE_PAUSED_WHILE(atomic_load(&left) && !atomic_load(&self->calls));
		serve(self);
	}
	interrupts_restore(flags);
}

void smp_call(unsigned index, void (*function)(void *argument), void *argument)
{
	call_some(index, index + 1, function, argument);
}

void smp_call_all(void (*function)(void *argument), void *argument)
{
	for (unsigned i = 0; i < cpu_count(); i += AT_ONCE)
		call_some(i, i + AT_ONCE, function, argument);
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

#define MOST_WAIT     1000000 /* microseconds: the host of */
#define MOST_TAKEOVER 5000000 /* a virtual processor may be busy */

static _Atomic(struct cpu *) stopper; /* the one that goes on */
static atomic_uint stopped;

static atomic_bool boot_cpu_waits;
static void (*_Atomic handed_over)(void); /* what the boot CPU does at its next NMI */

static bool stop(struct trap_frame *frame)
{
	struct cpu *goes_on = atomic_load(&stopper), *self = this_cpu();
	void (*function)(void);

	(void)frame;
	if (!goes_on || goes_on == self)
		return false;
	function = self->index ? NULL : atomic_exchange(&handed_over, NULL);
	if (function) {
		atomic_store(&stopper, self);
		function();
	}
	trace_stop_cpu();
	if (self->index || !atomic_exchange(&boot_cpu_waits, true))
		atomic_fetch_add(&stopped, 1);
	if (!self->index)
		nmi_unblock();
	machine_halt();
}

void smp_hand_over(void (*function)(void))
{
	uint64_t end = clock_us() + MOST_TAKEOVER;

	if (!this_cpu()->index)
		function();
	if (!atomic_load(&boot_cpu_waits))
		return;
	atomic_store(&handed_over, function);
	lapic_send_nmi(cpu_by_index(0)->apic_id);
	while (atomic_load(&handed_over) && clock_us() < end)
		__asm__ volatile("pause");
	if (atomic_exchange(&handed_over, NULL)) /* taken back: it never will */
		return;
	machine_halt();
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
