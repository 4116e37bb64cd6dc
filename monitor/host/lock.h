/* SPDX-License-Identifier: MIT */
/* A lock between processors. The monitor runs with IF = 0 and takes none in its NMI entry. */
#pragma once

#include <stdbool.h>

struct lock {
	bool taken;
};

static inline bool lock_try(struct lock *lock)
{
	return !__atomic_exchange_n(&lock->taken, true, __ATOMIC_ACQUIRE);
}

static inline void lock_take(struct lock *lock)
{
	while (!lock_try(lock))
		__asm__ volatile("pause");
}

static inline void lock_release(struct lock *lock)
{
	__atomic_store_n(&lock->taken, false, __ATOMIC_RELEASE);
}
