// SPDX-License-Identifier: MIT
#include "kernel/trap/trap.h"

#include "drivers/apic/lapic.h"
#include "drivers/lbr/lbr.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/sched/sched.h"
#include "kernel/sched/task.h"
#include "kernel/trace/cpu.h"
#include "kernel/trace/freeze.h"
#include "kernel/trap/user.h"

#include <stdatomic.h>

/* SDM Vol 3, figure 6-8. */
struct gate {
	uint16_t offset_low, selector;
	uint8_t ist, type;
	uint16_t offset_middle;
	uint32_t offset_high, reserved;
};
_Static_assert(sizeof(struct gate) == 16, "64-bit IDT gate descriptor");

#define GATE_INTERRUPT	    0x8e
#define GATE_INTERRUPT_USER 0xee
#define STUB_SIZE	    16
#define NMI_HANDLERS	    5
#define MOST_PENDING	    10000 /* turns; 240 vectors, and what a level keeps asserted */

static struct gate idt[256] __attribute__((aligned(16)));
static interrupt_handler handlers[256];
static _Atomic(nmi_handler) nmi_handlers[NMI_HANDLERS];
static atomic_uint_fast64_t nmi_unknown, unknown_count;
static atomic_uint unknown_vector;

bool (*exception_unexpected)(struct trap_frame *frame);

static const uint8_t ist_of[32] = {
	[VECTOR_NMI] = IST_NMI, [VECTOR_DF] = IST_DF, [VECTOR_MC] = IST_MC, [VECTOR_DB] = IST_DB};

static void set_gate(unsigned vector)
{
	uint64_t entry = (uint64_t)trap_stubs + vector * STUB_SIZE;

	idt[vector] = (struct gate){
		.offset_low = (uint16_t)entry,
		.selector = KERNEL_CODE,
		.ist = vector < 32 ? ist_of[vector] : 0,
		.type = vector == VECTOR_BP || vector == VECTOR_INT80 ? GATE_INTERRUPT_USER
								      : GATE_INTERRUPT,
		.offset_middle = (uint16_t)(entry >> 16),
		.offset_high = (uint32_t)(entry >> 32),
	};
}

/* An interrupt that was withdrawn as it was being delivered; no EOI. SDM Vol 3, 10.9. */
static void spurious(struct trap_frame *frame)
{
	(void)frame;
}

/* One that does not wait for its EOI is INT n, or came by the 8259. */
static void unknown(struct trap_frame *frame)
{
	if (lapic_in_service((uint8_t)frame->vector))
		lapic_eoi();
	atomic_store(&unknown_vector, (unsigned)frame->vector);
	atomic_fetch_add(&unknown_count, 1);
}

/* INT 80H of ring 3 ends its stay there; an interrupt of a device has no business here. */
static void int80(struct trap_frame *frame)
{
	if (!trap_from_user(frame) || lapic_in_service(VECTOR_INT80)) {
		unknown(frame);
		return;
	}
	this_cpu()->interrupts--;
	user_return(frame);
}

uint64_t interrupt_unknown_count(unsigned *newest)
{
	uint64_t count = atomic_load(&unknown_count);

	if (count)
		*newest = atomic_load(&unknown_vector);
	return count;
}

void interrupt_take_pending(void)
{
	for (unsigned i = 0; i < MOST_PENDING && lapic_requested(); i++)
		__asm__ volatile("sti; nop; cli" : : : "memory");
}

void trap_init(void)
{
	for (unsigned vector = 0; vector < 256; vector++)
		set_gate(vector);
	interrupt_set_handler(LAPIC_SPURIOUS_VECTOR, spurious);
	interrupt_set_handler(VECTOR_INT80, int80);
	trap_load();
}

void trap_load(void)
{
	struct table_pointer pointer = {sizeof(idt) - 1, (uint64_t)idt};

	__asm__ volatile("lidt %0" : : "m"(pointer));
}

uint64_t trap_entry(unsigned vector)
{
	const struct gate *gate = &idt[vector];

	return gate->offset_low | (uint64_t)gate->offset_middle << 16 |
	       (uint64_t)gate->offset_high << 32;
}

void interrupt_set_handler(unsigned vector, interrupt_handler handler)
{
	handlers[vector] = handler;
}

void interrupt_dispatch(struct trap_frame *frame)
{
	interrupt_handler handler = handlers[frame->vector];
	struct cpu *cpu = this_cpu();

	if (__builtin_expect(!handler, false))
		handler = unknown;
	cpu->interrupts++;
	handler(frame);
	cpu->interrupts--;
	if (cpu->reschedule && !cpu->preemption_off) {
		if (cpu->current->killed)
			task_exit();
		schedule();
	}
	if (__builtin_expect(trap_from_user(frame), false) && current_task()->user_break)
		user_return(frame);
}

struct caught trap_caught(void)
{
	return current_task()->caught;
}

static uint64_t read_cr2(void)
{
	uint64_t value;
	__asm__ volatile("mov %%cr2, %0" : "=r"(value));
	return value;
}

struct fixup {
	uint64_t at, go_on;
};

extern const struct fixup exception_table_start[], exception_table_end[];

/* Where to go on from an exception at `rip`; 0 if it was not expected. */
static uint64_t find_fixup(uint64_t rip)
{
	for (const struct fixup *entry = exception_table_start; entry < exception_table_end;
	     entry++)
		if (entry->at == rip)
			return entry->go_on;
	return 0;
}

void exception_dispatch(struct trap_frame *frame)
{
	struct task *task = current_task();
	uint64_t go_on, held;

	if (frame->vector == VECTOR_DB)
		lbr_after_debug(&this_cpu()->debugctl);
	if (trap_from_user(frame) && task->user) {
		if (frame->vector != VECTOR_DB && frame->vector != VECTOR_BP)
			freeze_on(PTRACE_FREEZE_FAULT, frame);
		freeze_say_all();
		task->caught = (struct caught){frame->vector, frame->error, read_cr2()};
		if (frame->rip >> 63 && this_cpu()->recording)
			trace_user_fault(this_cpu(), frame->rip);
		user_return(frame);
	}
	held = debugctl_hold(&this_cpu()->debugctl); /* the search is longer than the stack */
	go_on = trap_from_user(frame) ? 0 : find_fixup(frame->rip);
	if (!go_on) {
		if (trap_from_user(frame) || !exception_unexpected || !exception_unexpected(frame))
			panic_trap(frame, NULL);
	} else {
		if (task)
			task->caught = (struct caught){frame->vector, frame->error, read_cr2()};
		frame->rip = go_on;
	}
	debugctl_go_on(&this_cpu()->debugctl, held);
}

void nmi_add_handler(nmi_handler handler)
{
	for (unsigned i = 0; i < NMI_HANDLERS; i++) {
		nmi_handler none = NULL;

		if (atomic_compare_exchange_strong(&nmi_handlers[i], &none, handler))
			return;
	}
	panic("more than %d NMI handlers", NMI_HANDLERS);
}

void nmi_remove_handler(nmi_handler handler)
{
	for (unsigned i = 0; i < NMI_HANDLERS; i++) {
		nmi_handler expected = handler;

		atomic_compare_exchange_strong(&nmi_handlers[i], &expected, NULL);
	}
}

uint64_t nmi_unknown_count(void)
{
	return nmi_unknown;
}

/* Two causes can share one NMI, so all are asked. */
void nmi_dispatch(struct trap_frame *frame)
{
	bool known = false;

	for (unsigned i = 0; i < NMI_HANDLERS; i++) {
		nmi_handler handler = nmi_handlers[i];

		if (handler && handler(frame))
			known = true;
	}
	if (!known)
		nmi_unknown++;
}

/* --- drivers/processor.h --- */

bool rdmsr_safe(uint32_t index, uint64_t *value)
{
	uint32_t low, high;
	bool done = false;

	__asm__ volatile("1:\trdmsr\n\t"
			 "movb $1, %0\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+q"(done), "=a"(low), "=d"(high)
			 : "c"(index), "1"(0), "2"(0));
	if (done)
		*value = (uint64_t)high << 32 | low;
	return done;
}

bool wrmsr_safe(uint32_t index, uint64_t value)
{
	bool done = false;

	__asm__ volatile("1:\twrmsr\n\t"
			 "movb $1, %0\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+q"(done)
			 : "c"(index), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
			 : "memory");
	return done;
}
