/* SPDX-License-Identifier: MIT */
/*
 * One external interrupt, of VECTOR_TEST, that waits for IF = 1 while all the kernel's own wait
 * for the task priority. For code that is to be interrupted at a place of its choice.
 *
 *	struct pending pending;
 *	EXACTLY (&rig) {
 *		pending_raise(&pending);
 *		TRACED(rig_all(), "sti\n\tnop\n\t");
 *		pending_settle();
 *	}
 */
#ifndef SPOOR_TESTS_LIB_PENDING_H
#define SPOOR_TESTS_LIB_PENDING_H

#include "tests/lib/rig.h"

struct pending {
	unsigned count; /* interrupts that came */
	uint64_t rip;	/* the RIP that the newest one saved */
};

/* Leaves IF = 0 and the interrupt pending in the local APIC. Preemption off. */
void pending_raise(struct pending *pending);

/* Task priority and IF as usual again; an interrupt that did not come yet comes now. */
void pending_settle(void);

/*
 * Fails the test unless slot `slot` is the interrupt, from its saved RIP to the kernel's entry,
 * and the newest record is an IRETQ back to there.
 */
void pending_expect(const struct rig *rig, size_t slot, const struct pending *pending);

#endif
