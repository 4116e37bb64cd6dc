// SPDX-License-Identifier: MIT
#include "kernel/lock.h"

#include "kernel/trace/cpu.h"

void spin_wait(struct spinlock *lock)
{
	TRACE_PAUSED_WHILE(atomic_load_explicit(&lock->held, memory_order_relaxed) ||
			   atomic_exchange_explicit(&lock->held, true, memory_order_acquire));
}
