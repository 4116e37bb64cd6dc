// SPDX-License-Identifier: MIT
#include "kernel/time.h"

#include "drivers/apic/lapic.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/trace/cpu.h"
#include "kernel/trap/trap.h"

/*
 * The local APIC's timer fires for the first of the list or sooner. One that fires too soon is
 * cheaper than a write of its register at every switch of tasks, which a hypervisor intercepts.
 */
static void program(struct cpu *cpu)
{
	const struct timer *first = cpu->timers;
	uint64_t now;

	if (!first || first->deadline >= cpu->timer_due)
		return;
	cpu->timer_due = first->deadline;
	now = clock_us();
	/* A count of 0 would stop it. */
	lapic_timer_start_us(first->deadline > now ? first->deadline - now : 1);
}

void timer_start(struct timer *timer, uint64_t microseconds)
{
	uint64_t flags = interrupts_save();
	struct cpu *cpu = this_cpu();
	struct timer **at = &cpu->timers;

	timer_stop(timer);
	spin_acquire(&cpu->timer_lock);
	timer->cpu = cpu;
	timer->deadline = clock_us() + microseconds;
	timer->running = true;
	while (*at && (*at)->deadline <= timer->deadline)
		at = &(*at)->next;
	timer->next = *at;
	*at = timer;
	program(cpu);
	spin_unlock(&cpu->timer_lock, flags);
}

/* The LAPIC timer may still fire for it; that finds nothing to do. */
void timer_stop(struct timer *timer)
{
	struct cpu *cpu = timer->cpu;
	uint64_t flags;

	if (!cpu)
		return;
	flags = spin_lock(&cpu->timer_lock);
	if (timer->running)
		LIST_REMOVE(cpu->timers, timer, next);
	timer->running = false;
	spin_unlock(&cpu->timer_lock, flags);
	if (cpu != this_cpu() && atomic_load(&cpu->expiring) == timer)
		TRACE_PAUSED_WHILE(atomic_load(&cpu->expiring) == timer);
}

/* The first timer that is due, out of the list; NULL if none is. */
static struct timer *take_due(struct cpu *cpu)
{
	SPIN_GUARD(&cpu->timer_lock);
	struct timer *timer = cpu->timers;

	if (timer && timer->deadline <= clock_us()) {
		cpu->timers = timer->next;
		timer->running = false;
	} else {
		program(cpu);
		timer = NULL;
	}
	atomic_store(&cpu->expiring, timer);
	return timer;
}

void time_interrupt_work(struct cpu *cpu)
{
	struct timer *timer;

	cpu->timer_fired = false;
	cpu->timer_due = UINT64_MAX;
	lapic_eoi();
	while ((timer = take_due(cpu)))
		timer->expired(timer);
}

/* As short as can be: the scheduler stops the trace of the task first and does the work then. */
static void interrupt(struct trap_frame *frame)
{
	struct cpu *cpu = this_cpu();

	cpu->timer_fired = true;
	cpu->reschedule = true;
	cpu->interrupted = frame;
	if (cpu->preemption_off)
		time_interrupt_work(cpu);
}

const char *time_init(void)
{
	const char *error = clock_init();

	if (error)
		return error;
	interrupt_set_handler(VECTOR_TIMER, interrupt);
	time_init_cpu();
	return NULL;
}

void time_init_cpu(void)
{
	lapic_timer_set_vector(VECTOR_TIMER);
	this_cpu()->timer_due = UINT64_MAX;
	program(this_cpu());
}
