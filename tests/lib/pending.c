// SPDX-License-Identifier: MIT
#include "tests/lib/pending.h"

#include "drivers/apic/lapic.h"
#include "kernel/time.h"
#include "kernel/trap/trap.h"
#include "tests/lib/code.h"

#define BELOW_TEST_VECTORS ((VECTOR_TEST & 0xf0) - 0x10)
#define SETTLE		   50 /* microseconds: more than an IPI to oneself takes */
_Static_assert(VECTOR_TIMER < (VECTOR_TEST & 0xf0), "the task priority can part them");

static struct pending *waiting;

static void came(struct trap_frame *frame)
{
	waiting->count++;
	waiting->rip = frame->rip;
	lapic_eoi();
}

void pending_raise(struct pending *pending)
{
	uint64_t start;

	*pending = (struct pending){0};
	__asm__ volatile("cli");
	waiting = pending;
	interrupt_set_handler(VECTOR_TEST, came);
	lapic_set_task_priority(BELOW_TEST_VECTORS);
	lapic_self_ipi(VECTOR_TEST);
	for (start = time_now(); time_now() < start + SETTLE;)
		__asm__ volatile("pause");
}

void pending_settle(void)
{
	lapic_set_task_priority(0);
	__asm__ volatile("sti\n\tnop");
	interrupt_set_handler(VECTOR_TEST, NULL);
}

void pending_expect(const struct rig *rig, size_t slot, const struct pending *pending)
{
	pending_expect_way(rig, slot, pending);
	rig_expect(rig, slot, (void *)pending->rip, (void *)trap_entry(VECTOR_TEST), "interrupt");
}

void pending_expect_way(const struct rig *rig, size_t slot, const struct pending *pending)
{
	struct bts_struct last;

	EXPECT_EQ(pending->count, 1);
	REQUIRE(rig_count(rig) > slot + 1);
	EXPECT_EQ(rig_record(rig, slot).to, trap_entry(VECTOR_TEST));
	last = rig_record(rig, rig_count(rig) - 1);
	EXPECT_EQ(last.to, pending->rip);
	EXPECT(text_is_iretq(last.from));
}
