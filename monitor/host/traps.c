// SPDX-License-Identifier: MIT
#include "monitor/host/traps.h"

#include "lib/string.h"
#include "monitor/console.h"
#include "monitor/host/cpu.h"
#include "monitor/host/deviations.h"

#include <stddef.h>

enum { CODE_SELECTOR = 8 };

/* As traps.asm pushes it. */
struct trap_frame {
	uint64_t rbp, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax;
	uint64_t vector, error;
	uint64_t rip, cs, rflags, rsp, ss;
};
_Static_assert(sizeof(struct trap_frame) == 17 * 8, "10 registers, vector, error, frame");

/* APM Vol 2, 8.9.1 "Gate descriptors", long mode. */
struct gate {
	uint16_t offset_15_0, selector;
	uint8_t stack_table, type;
	uint16_t offset_31_16;
	uint32_t offset_63_32, reserved;
};
_Static_assert(sizeof(struct gate) == 16, "long mode gate descriptor");
enum { INTERRUPT_GATE_PRESENT = 0x8e };

/* An instruction that may raise an exception, and where execution then goes on. */
struct fixup {
	uint64_t rip, target;
};

extern const char trap_stubs[256][16];
extern const struct fixup fixups_start[], fixups_end[];
extern const char halt_window_end[];
void interrupt_window(void);
void halt_window(bool interruptible, const volatile bool *nmi);
struct trap_frame *trap(struct trap_frame *frame);

/* Of one processor: at the lower end of its stack, which any trap runs on. */
struct taken {
	bool nmi;
	volatile bool *announced;
	int vector;
};

static struct gate idt[256];
static volatile bool stopping;
static uint64_t left_start, left_end, left_target;

static volatile struct taken *taken(void)
{
	uint64_t stack;

	__asm__ volatile("movq %%rsp, %0" : "=r"(stack));
	return (volatile struct taken *)(stack & ~(uint64_t)(STACK_BYTES - 1));
}

void traps_load(void)
{
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) const pointer = {sizeof(idt) - 1, (uint64_t)idt};

	*taken() = (struct taken){0};
	__asm__ volatile("lidt %0" : : "m"(pointer));
}

void traps_init(void)
{
	for (unsigned i = 0; i < 256; i++) {
		uint64_t stub = (uint64_t)trap_stubs[i];

		idt[i] = (struct gate){
			.offset_15_0 = (uint16_t)stub,
			.selector = CODE_SELECTOR,
			.type = INTERRUPT_GATE_PRESENT,
			.offset_31_16 = (uint16_t)(stub >> 16),
			.offset_63_32 = (uint32_t)(stub >> 32),
		};
	}
	traps_load();
}

void traps_stop_at_nmi(void)
{
	stopping = true;
}

static void take_nmi(struct trap_frame *frame)
{
	while (stopping)
		__asm__ volatile("cli; hlt");
	taken()->nmi = true;
	if (taken()->announced)
		*taken()->announced = true;
	if (frame->rip >= (uint64_t)halt_window && frame->rip < (uint64_t)halt_window_end)
		frame->rip = (uint64_t)halt_window_end;
	if (frame->rip >= left_start && frame->rip < left_end)
		frame->rip = left_target;
}

static void take_external(struct trap_frame *frame)
{
	taken()->vector = (int)frame->vector;
	frame->rflags &= ~RFLAGS_IF;
}

static void take_exception(struct trap_frame *frame)
{
	uint64_t cr2;

	/* A step of deviations.c, or the guest's trap: Bochs 2.7 lets it through after VMEXIT. */
	if (frame->vector == VECTOR_DB) {
		deviations_trap(frame->rip, frame->rcx, frame->rflags);
		return;
	}
	for (const struct fixup *fixup = fixups_start; fixup < fixups_end; fixup++) {
		if (fixup->rip == frame->rip) {
			frame->rip = fixup->target;
			return;
		}
	}
	__asm__ volatile("mov %%cr2, %0" : "=r"(cr2));
	end_run(VERDICT_PANIC,
		"exception %llu in the monitor itself: rip=0x%016llx error=0x%llx cr2=0x%016llx",
		(unsigned long long)frame->vector, (unsigned long long)frame->rip,
		(unsigned long long)frame->error, (unsigned long long)cr2);
}

static bool is_in_window(uint64_t rip)
{
	return rip >= (uint64_t)interrupt_window && rip <= (uint64_t)halt_window_end;
}

/*
 * Below FIRST_EXTERNAL it is an interrupt of the 8259 where IF is 1, in whose instructions nothing
 * faults. Where an exception would have an error code its entry took RIP for one: the frame lies a
 * quadword too high then.
 */
static struct trap_frame *external_frame(struct trap_frame *frame)
{
	struct trap_frame *moved = (struct trap_frame *)((uint64_t *)frame - 1);

	if (frame->vector >= FIRST_EXTERNAL || is_in_window(frame->rip))
		return frame;
	if (!is_in_window(frame->error))
		return NULL;
	memmove(moved, frame, offsetof(struct trap_frame, error));
	moved->error = 0;
	return moved;
}

struct trap_frame *trap(struct trap_frame *frame)
{
	struct trap_frame *external = NULL;

	if (frame->vector == VECTOR_NMI) {
		take_nmi(frame);
		return frame;
	}
	if (frame->vector != VECTOR_DB)
		external = external_frame(frame);
	if (!external) {
		take_exception(frame);
		return frame;
	}
	take_external(external);
	return external;
}

int take_interrupt(void)
{
	taken()->vector = NO_VECTOR;
	interrupt_window();
	return taken()->vector;
}

int wait_for_interrupt(bool interruptible)
{
	taken()->vector = NO_VECTOR;
	halt_window(interruptible, &taken()->nmi);
	return taken()->vector;
}

void nmi_announce(volatile bool *flag)
{
	taken()->announced = flag;
}

void nmi_leaves(const char *start, const char *end, const char *target)
{
	left_start = (uint64_t)start;
	left_end = (uint64_t)end;
	left_target = (uint64_t)target;
}

const volatile bool *nmi_flag(void)
{
	return &taken()->nmi;
}

bool nmi_take(void)
{
	return __atomic_exchange_n(&taken()->nmi, false, __ATOMIC_RELAXED);
}

/* After a fault at 1 execution goes on at 2, with `ok` still 0. */
#define FIXUP ".pushsection .fixups, \"a\"; .quad 1b, 2b; .popsection"

bool read_msr_safe(uint32_t index, uint64_t *value)
{
	uint32_t low = 0, high = 0, ok = 0;

	__asm__ volatile("1: rdmsr; mov $1, %2; 2: " FIXUP
			 : "+a"(low), "+d"(high), "+r"(ok)
			 : "c"(index));
	*value = (uint64_t)high << 32 | low;
	return ok;
}

bool write_msr_safe(uint32_t index, uint64_t value)
{
	uint32_t ok = 0;

	__asm__ volatile("1: wrmsr; mov $1, %0; 2: " FIXUP
			 : "+r"(ok)
			 : "c"(index), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
			 : "memory");
	return ok;
}
