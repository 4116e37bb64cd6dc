// SPDX-License-Identifier: MIT
#include "tests/lib/user_visits.h"

#include "drivers/apic/lapic.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/rig.h"

#define HIGHEST_PRIORITY 0xf0 /* of tasks: all fixed interrupts wait */
#define CODE_END	 (VISITS_AT + sizeof(code))
#define JNZ_AT		 (CODE_END - 4)
#define DEC_AT		 (CODE_END - 6)

/* MOV ECX, 20; DEC ECX; JNZ to the DEC; SYSCALL */
static const uint8_t code[] = {0xb9, VISIT_BRANCHES + 1, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0x0f,
			       0x05};

void user_visits_open(void)
{
	uint8_t *page = test_area(1);

	memcpy(page, code, sizeof(code));
	code_map(VISITS_AT, page, VM_USER);
}

void user_visits_close(void)
{
	code_unmap(VISITS_AT);
}

_Static_assert(VISITS_SYSCALL_AT == CODE_END - 2, "the last instruction");

static bool is_kernel(uint64_t address)
{
	return address >> 63;
}

static void sort(struct user_visits *visits, const struct bts_struct *record)
{
	uint64_t from = record->from, to = record->to;

	if (to == VISITS_AT) {
		visits->to_user++;
		visits->wrong_from += !text_is_iretq(from);
	} else if (to == (uint64_t)syscall_entry) {
		visits->to_kernel++;
		visits->wrong_from += from != VISITS_SYSCALL_AT;
	} else if (from == JNZ_AT && to == DEC_AT) {
		visits->user++;
	} else if (is_kernel(from) && is_kernel(to)) {
		visits->kernel++;
		visits->kernel_sum = visits->kernel_sum * 31 + from;
		visits->kernel_sum = visits->kernel_sum * 31 + to;
	} else {
		visits->wrong++;
	}
}

static inline __attribute__((always_inline)) bool visit(void)
{
	bool whole = true;

	for (unsigned n = 0; n < VISITS; n++) {
		struct trap_frame frame = {.rip = VISITS_AT};

		user_run(&frame);
		whole &= frame.vector == VECTOR_SYSCALL && frame.rip == CODE_END;
	}
	return whole;
}

void user_visits_run(void)
{
	bool whole;

	lapic_set_task_priority(HIGHEST_PRIORITY);
	whole = visit();
	lapic_set_task_priority(0);
	EXPECT(whole);
}

static uint64_t trace(uint64_t debugctl)
{
	bool whole;

	lapic_set_task_priority(HIGHEST_PRIORITY);
	wrmsr(IA32_DEBUGCTL, debugctl);
	whole = visit();
	debugctl = rdmsr(IA32_DEBUGCTL);
	wrmsr(IA32_DEBUGCTL, 0);
	lapic_set_task_priority(0);
	EXPECT(whole);
	return debugctl;
}

struct user_visits user_visits_trace(struct rig *rig, uint64_t debugctl)
{
	struct user_visits visits = {0};

	EXACTLY (rig)
		visits.debugctl = trace(debugctl);
	visits.count = rig_count(rig);
	EXPECT(visits.count < rig->slots - 1);
	for (size_t slot = 0; slot < visits.count; slot++) {
		struct bts_struct record = rig_record(rig, slot);

		sort(&visits, &record);
	}
	return visits;
}
