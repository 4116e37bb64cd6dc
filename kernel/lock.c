// SPDX-License-Identifier: MIT
#include "kernel/lock.h"

#include "kernel/trace/cpu.h"

/*
 * Pauses tracing while it spins: with interrupts off, the loop's branches would overflow the buffer
 * and hide real ones.
 */
void spin_wait(struct spinlock *lock)
{
	struct trace_paused paused = trace_pause_cpu();

	while (atomic_exchange_explicit(&lock->held, true, memory_order_acquire))
		while (atomic_load_explicit(&lock->held, memory_order_relaxed))
			__asm__ volatile("pause");
	trace_resume_cpu(paused);
}
