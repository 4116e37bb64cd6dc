// SPDX-License-Identifier: MIT
#include "tests/lib/own_idt.h"

#include "lib/string.h"

#define PRESENT_INTERRUPT_GATE 0x8e
#define TRAP_GATE	       0x01 /* besides: IF stays as it is */
#define DPL_3		       0x60
#define DATA_SELECTOR	       0x10

/* SDM Vol 3, figure 6-8. */
struct gate {
	uint16_t offset_low, selector;
	uint8_t ist, type;
	uint16_t offset_middle;
	uint32_t offset_high, reserved;
};
_Static_assert(sizeof(struct gate) == 16, "64-bit IDT gate descriptor");

static struct gate gates[256] __attribute__((aligned(16)));
static struct idt_pointer kernel;

void own_idt_copy(void)
{
	__asm__ volatile("sidt %0" : "=m"(kernel));
	memcpy(gates, (const void *)kernel.base, sizeof(gates));
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

void own_idt_make_trap(unsigned vector)
{
	gates[vector].type |= TRAP_GATE;
}

void own_idt_break(unsigned vector)
{
	gates[vector].selector = DATA_SELECTOR;
}

void own_idt_load(void)
{
	struct idt_pointer own = {sizeof(gates) - 1, (uint64_t)gates};

	__asm__ volatile("lidt %0" : : "m"(own) : "memory");
}

void own_idt_unload(void)
{
	__asm__ volatile("lidt %0" : : "m"(kernel) : "memory");
}

const struct idt_pointer *own_idt_kernel(void)
{
	return &kernel;
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
