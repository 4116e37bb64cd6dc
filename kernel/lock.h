/* SPDX-License-Identifier: MIT */
/* Spinlocks that keep interrupts off while held. Not for NMI context. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct spinlock {
	atomic_bool held;
};

static inline uint64_t interrupts_save(void)
{
	uint64_t flags;
	__asm__ volatile("pushfq; popq %0; cli" : "=r"(flags) : : "memory");
	return flags;
}

static inline void interrupts_restore(uint64_t flags)
{
	if (flags & 0x200)
		__asm__ volatile("sti" : : : "memory");
}

/* lock.c: waits for it, and takes it. IF = 0. */
void spin_wait(struct spinlock *lock);

/* Take and release it where interrupts are off, and stay so. A call would be a branch in traces. */
static inline __attribute__((always_inline)) void spin_acquire(struct spinlock *lock)
{
	if (__builtin_expect(atomic_exchange_explicit(&lock->held, true, memory_order_acquire), 0))
		spin_wait(lock);
}

static inline void spin_release(struct spinlock *lock)
{
	atomic_store_explicit(&lock->held, false, memory_order_release);
}

/* Returns what spin_unlock() needs to restore the caller's interrupt flag. */
static inline uint64_t spin_lock(struct spinlock *lock)
{
	uint64_t flags = interrupts_save();

	spin_acquire(lock);
	return flags;
}

static inline void spin_unlock(struct spinlock *lock, uint64_t flags)
{
	spin_release(lock);
	interrupts_restore(flags);
}

struct spin_guard {
	struct spinlock *lock;
	uint64_t flags;
};

static inline __attribute__((always_inline)) void spin_guard_end(const struct spin_guard *guard)
{
	spin_unlock(guard->lock, guard->flags);
}

/* Holds the lock from here to the end of the block. */
#define SPIN_GUARD(lock)                                                                           \
	const struct spin_guard guard                                                              \
		__attribute__((cleanup(spin_guard_end), unused)) = {(lock), spin_lock(lock)}

/*
 * Under a lock: takes `item` out of the list that `first` begins and its members `next` go on, if
 * it is there.
 */
#define LIST_REMOVE(first, item, next)                                                             \
	do {                                                                                       \
		__typeof__(first) *at_ = &(first);                                                 \
                                                                                                   \
		while (*at_ && *at_ != (item))                                                     \
			at_ = &(*at_)->next;                                                       \
		if (*at_)                                                                          \
			*at_ = (*at_)->next;                                                       \
	} while (0)
