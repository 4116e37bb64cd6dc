// SPDX-License-Identifier: MIT
#include "kernel/lock.h"
#include "kernel/time.h"
#include "kernel/trap/trap.h"
#include "tests/lib/rig.h"
#include "tests/lib/text.h"

#define SLOTS 4096
#define DELAY 2000 /* microseconds */
#define ENDS  100000000

extern const char timer_top[], timer_jump[];

static volatile uint32_t expired;

static void expire(struct timer *timer)
{
	(void)timer;
	expired = 1;
}

/* A loop of two instructions, of which only the jump is a branch; it ends without the timer too. */
static void trace(void)
{
	TRACED_WITH(rig_all(),
		    "movl %[ends], %%ecx\n\tsti\n"
		    "timer_top: decl %%ecx\n\tjz 1f\n\tcmpl $0, %[expired]\n"
		    "timer_jump: je timer_top\n"
		    "1:\tcli\n\t",
		    , AND([expired] "m"(expired), [ends] "i"(ENDS)));
}

/* The buffer went round: the slot behind, past one at the end that some processors leave out. */
static size_t behind(const struct rig *rig, size_t slot)
{
	size_t next = (slot + 1) % SLOTS;

	return next == SLOTS - 1 && !rig_record(rig, next).from ? 0 : next;
}

/* From the interrupt's record on to the IRETQ that leads back to where it came from. */
static bool returns(const struct rig *rig, size_t slot, uint64_t rip)
{
	for (size_t steps = 0; steps < SLOTS; steps++) {
		struct bts_struct record;

		slot = behind(rig, slot);
		record = rig_record(rig, slot);
		if (record.to == rip)
			return text_is_iretq(record.from);
		if (record.from == (uint64_t)timer_jump)
			return false;
	}
	return false;
}

TEST(bts_timer_interrupt, .group = "K", .ids = "K8 K6", .needs = NEED_BTS,
     .claim = "a timer interrupt in a loop is recorded from the interrupted instruction, and so is "
	      "the way back to it",
     .source = "SDM Vol 3, 17.4.4 and 17.11.2")
{
	struct timer timer = {.expired = expire};
	unsigned interrupts = 0;
	struct rig rig;
	uint64_t flags;
	size_t slot;

	rig_open(&rig, SLOTS);
	expired = 0;
	flags = interrupts_save(); /* not taken before the trace, however late that begins */
	timer_start(&timer, DELAY);
	trace();
	interrupts_restore(flags);
	timer_stop(&timer);
	REQUIRE(expired);
	for (slot = 0; slot < SLOTS; slot++) {
		struct bts_struct record = rig_record(&rig, slot);

		if (record.to != trap_entry(VECTOR_TIMER))
			continue;
		interrupts++;
		EXPECT(record.from >= (uint64_t)timer_top && record.from <= (uint64_t)timer_jump);
		EXPECT(returns(&rig, slot, record.from));
	}
	EXPECT(interrupts >= 1);
	rig_close(&rig);
}
