// SPDX-License-Identifier: MIT
#include "kernel/lock.h"

#include "drivers/ds/ds.h"

/*
 * Where nothing is recorded: the turns of this loop would be more than a trace has room for while
 * interrupts are off, and are nobody's.
 */
void spin_wait(struct spinlock *lock)
{
	uint64_t saved = ds_pause();

	while (atomic_exchange_explicit(&lock->held, true, memory_order_acquire))
		while (atomic_load_explicit(&lock->held, memory_order_relaxed))
			__asm__ volatile("pause");
	ds_resume(saved);
}
