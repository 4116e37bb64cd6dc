// SPDX-License-Identifier: MIT
#include "kernel/time.h"

#include "drivers/apic/lapic.h"
#include "drivers/clock/clock.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/trap/trap.h"

uint64_t time_now(void)
{
	return clock_us();
}

/* A count of 0 would stop the timer. */
static void program(const struct timer *first)
{
	uint64_t now = time_now();

	if (first)
		lapic_timer_start_us(first->deadline > now ? first->deadline - now : 1);
	else
		lapic_timer_stop();
}

static void unlink_timer(struct cpu *cpu, struct timer *timer)
{
	struct timer **at = &cpu->timers;

	while (*at && *at != timer)
		at = &(*at)->next;
	if (*at)
		*at = timer->next;
	timer->running = false;
}

void timer_start(struct timer *timer, uint64_t microseconds)
{
	uint64_t flags = interrupts_save();
	struct cpu *cpu = this_cpu();
	struct timer **at = &cpu->timers;

	if (timer->running)
		unlink_timer(cpu, timer);
	timer->deadline = time_now() + microseconds;
	timer->running = true;
	while (*at && (*at)->deadline <= timer->deadline)
		at = &(*at)->next;
	timer->next = *at;
	*at = timer;
	if (cpu->timers == timer)
		program(timer);
	interrupts_restore(flags);
}

/* The LAPIC timer may still fire for it; that finds nothing to do. */
void timer_stop(struct timer *timer)
{
	uint64_t flags = interrupts_save();

	if (timer->running)
		unlink_timer(this_cpu(), timer);
	interrupts_restore(flags);
}

void time_interrupt_work(struct cpu *cpu)
{
	cpu->timer_fired = false;
	lapic_eoi();
	while (cpu->timers && cpu->timers->deadline <= time_now()) {
		struct timer *timer = cpu->timers;

		cpu->timers = timer->next;
		timer->running = false;
		timer->expired(timer);
	}
	program(cpu->timers);
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
	lapic_timer_set_vector(VECTOR_TIMER);
	return NULL;
}
