// SPDX-License-Identifier: MIT
#include "tests/lib/own_tables.h"

#include "drivers/apic/lapic.h"
#include "drivers/pmu/registers.h"
#include "kernel/cpu.h"
#include "kernel/time.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"

#include <stdint.h>

enum { ENTRIES = OWN_DATA_DOWN / 8 + 1 };

static uint64_t segments[ENTRIES] __attribute__((aligned(16)));
static struct table_pointer kernel_gdt;

/*
 * The selectors that are loaded keep their places. An interrupt of ring 3 leaves SS null, and IRET
 * to code of 32 or 16 bits refuses such an SS (SDM Vol 2, IRET).
 */
void own_gdt_load(void)
{
	struct table_pointer own = {sizeof(segments) - 1, (uint64_t)segments};

	__asm__ volatile("sgdt %0" : "=m"(kernel_gdt));
	if (kernel_gdt.limit >= OWN_CODE_32)
		test_error("the kernel's GDT ends at %x", kernel_gdt.limit);
	memset(segments, 0, sizeof(segments));
	memcpy(segments, (const void *)kernel_gdt.base, kernel_gdt.limit + 1ul);
	segments[OWN_CODE_32 / 8] = 0x00cf9b000000ffff;
	segments[OWN_DATA_32 / 8] = 0x00cf93000000ffff;
	segments[OWN_CODE_16 / 8] = 0x00009b000000ffff;
	segments[OWN_DATA_16 / 8] = 0x000093000000ffff;
	segments[OWN_CODE_64 / 8] = 0x00af9b000000ffff;
	segments[OWN_USER_CODE_32 / 8] = 0x00cffb000000ffff;
	segments[OWN_USER_DATA_32 / 8] = 0x00cff3000000ffff;
	segments[OWN_USER_CODE_16 / 8] = 0x0000fb000000ffff;
	segments[OWN_USER_DATA_16 / 8] = 0x0000f3000000ffff;
	segments[OWN_FAST / 8] = 0x00af9b000000ffff;
	segments[OWN_FAST / 8 + 1] = 0x00cf93000000ffff;
	segments[OWN_FAST_USER / 8] = 0x00cffb000000ffff;
	segments[OWN_FAST_USER / 8 + 1] = 0x00cff3000000ffff;
	segments[OWN_FAST_USER_64 / 8] = 0x00affb000000ffff;
	segments[OWN_FAST_USER_64 / 8 + 1] = 0x00cff3000000ffff;
	segments[OWN_CODE_32_BASED / 8] = 0xf0cf9b000000ffff;
	segments[OWN_RING_1 / 8] = 0x00af9f000000ffff;
	segments[OWN_RING_1 / 8 + 1] = 0x00cfb3000000ffff;
	segments[OWN_RING_2 / 8] = 0x00afdb000000ffff;
	segments[OWN_RING_2 / 8 + 1] = 0x00cfd3000000ffff;
	segments[OWN_DATA_DOWN / 8] = 0x00cf97000000ffff;
	__asm__ volatile("lgdt %0\n\tmovl %1, %%ss" : : "m"(own), "r"(KERNEL_DATA));
}

void own_gdt_unload(void)
{
	__asm__ volatile("lgdt %0" : : "m"(kernel_gdt));
}

#define TSS_BUSY (1ul << 41)

/* LTR takes one that is not busy, and makes it so. */
uint16_t own_tss_limit(uint16_t limit)
{
	uint64_t *descriptor = &this_cpu()->gdt[TASK_STATE / 8];
	uint16_t before = (uint16_t)*descriptor;

	*descriptor = (*descriptor & ~(TSS_BUSY | 0xffff)) | limit;
	__asm__ volatile("ltr %w0" : : "r"(TASK_STATE) : "memory");
	return before;
}

void own_gdt_copy(void *to, size_t bytes)
{
	memset(to, 0, bytes);
	memcpy(to, segments, bytes < sizeof(segments) ? bytes : sizeof(segments));
}

#define PRESENT_INTERRUPT_GATE 0x8e
#define GATE_PRESENT	       0x80
#define TRAP_GATE	       0x01 /* besides: IF stays as it is */
#define DPL_3		       0x60

/* SDM Vol 3, figure 6-8. */
struct gate {
	uint16_t offset_low, selector;
	uint8_t ist, type;
	uint16_t offset_middle;
	uint32_t offset_high, reserved;
};
_Static_assert(sizeof(struct gate) == 16, "64-bit IDT gate descriptor");

static struct gate gates[256] __attribute__((aligned(16)));
static struct table_pointer kernel_idt;

void own_idt_copy(void)
{
	__asm__ volatile("sidt %0" : "=m"(kernel_idt));
	memcpy(gates, (const void *)kernel_idt.base, sizeof(gates));
}

void own_idt_set(unsigned vector, const void *handler, bool user)
{
	uint64_t entry = (uint64_t)handler;
	struct gate *gate = &gates[vector];

	gate->offset_low = (uint16_t)entry;
	gate->offset_middle = (uint16_t)(entry >> 16);
	gate->offset_high = (uint32_t)(entry >> 32);
	gate->type = PRESENT_INTERRUPT_GATE | (user ? DPL_3 : 0);
}

void own_idt_begin(unsigned vector, const void *handler, bool user)
{
	own_idt_copy();
	own_idt_set(vector, handler, user);
}

void own_idt_make_trap(unsigned vector)
{
	gates[vector].type |= TRAP_GATE;
}

void own_idt_set_stack(unsigned vector, uint8_t ist)
{
	gates[vector].ist = ist;
}

void own_idt_break(unsigned vector)
{
	gates[vector].selector = KERNEL_DATA;
}

void own_idt_make_absent(unsigned vector)
{
	gates[vector].type &= (uint8_t)~GATE_PRESENT;
}

void own_idt_load(void)
{
	struct table_pointer own = {sizeof(gates) - 1, (uint64_t)gates};

	__asm__ volatile("lidt %0" : : "m"(own) : "memory");
}

void own_idt_unload(void)
{
	__asm__ volatile("lidt %0" : : "m"(kernel_idt) : "memory");
}

const struct table_pointer *own_idt_kernel(void)
{
	return &kernel_idt;
}

__asm__(".pushsection .text\n"
	".globl own_handler_return, own_handler_resume, own_handler_resume_iret\n"
	".globl own_handler_resume_error, own_handler_resume_error_iret\n"
	"own_handler_return: iretq\n"
	"own_handler_resume: movq %rbx, (%rsp)\n"
	"own_handler_resume_iret: iretq\n"
	"own_handler_resume_error: addq $8, %rsp\n\t"
	"movq %rbx, (%rsp)\n"
	"own_handler_resume_error_iret: iretq\n"
	".popsection");

/*
 * The gate of #MC has a stack by IST: that of RSP0 is the task's, which is in use. The handler
 * goes back as own_ring_run() left it, and loads SS, which is null then.
 */
uint64_t own_ring_rsp, own_ring_off;
uint32_t own_ring_msr, own_ring_refused;
extern const char own_ring_back[], own_ring_gp[], own_ring_inside[];
__asm__(".pushsection .text\n"
	".globl own_ring_jumps, own_ring_back, own_ring_gp, own_ring_rdpmc, own_ring_rdmsr\n\t"
	".globl own_ring_wrmsr, own_ring_lret, own_ring_iretq, own_ring_int, own_ring_inside\n"
	"own_ring_jumps: .rept 16\n\tjmp 1f\n1:\n\t.endr\n\tint $18\n\tud2\n"
	"own_ring_rdpmc: xorl %ecx, %ecx\n\trdpmc\n\tint $18\n\tud2\n"
	"own_ring_rdmsr: movl $0x600, %ecx\n\trdmsr\n\tint $18\n\tud2\n"
	"own_ring_wrmsr: movl $0x1d9, %ecx\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\t"
	"int $18\n\tud2\n"
	"own_ring_lret: pushq $8\n\tleaq 1f(%rip), %rcx\n\tpushq %rcx\n\tlretq\n"
	"1:\tint $18\n\tud2\n"
	"own_ring_iretq: movl %ss, %eax\n\tmovl %cs, %ecx\n\tmovq %rsp, %rdx\n\tpushq %rax\n\t"
	"pushq %rdx\n\tpushq $0x3002\n\tpushq %rcx\n\tleaq 1f(%rip), %rdx\n\tpushq %rdx\n\tiretq\n"
	"1:\tcli\n\tint $18\n\tud2\n"
	"own_ring_int: int $0x30\n\tud2\n"
	"own_ring_inside: movl %cs, %eax\n\ttestb $3, %al\n\tjz 1f\n\tcli\n1:\tint $18\n\tud2\n"
	"own_ring_gp: incl own_ring_refused(%rip)\n"
	"own_ring_back: movl own_ring_msr(%rip), %ecx\n\tmovl own_ring_off(%rip), %eax\n\t"
	"movl own_ring_off + 4(%rip), %edx\n\twrmsr\n\tmovl $0x10, %eax\n\tmovl %eax, %ss\n\t"
	"movq own_ring_rsp(%rip), %rsp\n\tret\n"
	".popsection");
_Static_assert(KERNEL_CODE == 8 && KERNEL_DATA == 0x10 && VECTOR_MC == 18 && VECTOR_TEST == 0x30,
	       "own_ring_back counts on it");

static void run_ring(unsigned ring, const char *at, uint32_t msr, uint64_t value, uint64_t off)
{
	uint64_t code = (ring == 1 ? OWN_RING_1 : OWN_RING_2) | ring, data = code + 8;
	uint32_t low = (uint32_t)value, high = (uint32_t)(value >> 32);

	own_ring_msr = msr;
	own_ring_off = off;
	own_idt_begin(VECTOR_MC, own_ring_back, true);
	gates[VECTOR_GP].ist = gates[VECTOR_MC].ist;
	own_idt_set(VECTOR_GP, own_ring_gp, false);
	own_idt_set(VECTOR_TEST, own_ring_inside, true);
	gates[VECTOR_TEST].selector = OWN_RING_1; /* conforming */
	own_idt_load();
	__asm__ volatile("pushfq\n\tcli\n\tleaq 1f(%%rip), %%rbx\n\tpushq %%rbx\n\t"
			 "movq %%rsp, own_ring_rsp(%%rip)\n\tmovq %%rsp, %%rbx\n\t"
			 "pushq %[data]\n\tpushq %%rbx\n\tpushq $2\n\tpushq %[code]\n\t"
			 "pushq %[at]\n\twrmsr\n\tiretq\n1:\tpopfq"
			 : "+a"(low), "+d"(high), "+c"(msr)
			 : [data] "r"(data), [code] "r"(code), [at] "r"(at)
			 : "rbx", "memory", "cc");
	own_idt_unload();
}

void own_ring_run(unsigned ring, uint32_t msr, uint64_t value, uint64_t off)
{
	run_ring(ring, own_ring_jumps, msr, value, off);
}

bool own_ring_refuses(const char *at, unsigned ring, uint32_t msr, uint64_t value)
{
	own_ring_refused = 0;
	run_ring(ring, at, msr, value, 0);
	return own_ring_refused;
}

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

void own_raise_interrupt(void)
{
	lapic_self_ipi(VECTOR_TEST);
	while (!(apic_read(APIC_IRR + VECTOR_TEST / 32 * 16) >> VECTOR_TEST % 32 & 1))
		__asm__ volatile("pause");
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
	for (start = clock_us(); clock_us() < start + SETTLE;)
		__asm__ volatile("pause");
	/* Without it the timer, which the task priority holds back, has to end a HLT. */
	if (!EXPECT(apic_read(APIC_IRR + VECTOR_TEST / 32 * 16) >> VECTOR_TEST % 32 & 1))
		lapic_set_task_priority(0);
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
	rig_expect(rig, slot, (void *)pending->rip, (void *)trap_entry(VECTOR_TEST));
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
