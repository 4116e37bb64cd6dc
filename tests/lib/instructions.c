// SPDX-License-Identifier: MIT
#include "tests/lib/instructions.h"

#include "kernel/lock.h"
#include "kernel/trap/trap.h"
#include "tests/lib/own_idt.h"

/* PUSHFQ, ANDQ and the POPFQ that clears TF. */
#define STEPS_TO_END 3

static uint64_t instructions_taken __attribute__((used));

__asm__(".pushsection .text\n\t.balign 16\ninstructions_entry:\n\t"
	"incq instructions_taken(%rip)\n\tiretq\n\t.popsection");
extern const char instructions_entry[];

uint64_t instructions_of(void (*function)(void *argument), void *argument)
{
	uint64_t flags = interrupts_save();

	instructions_taken = 0;
	own_idt_copy();
	own_idt_set(VECTOR_DB, instructions_entry, false);
	own_idt_load();
	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
			 "call *%[function]\n\t"
			 "pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq"
			 : "+D"(argument)
			 : [function] "r"(function)
			 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	own_idt_unload();
	__asm__ volatile("mov %0, %%dr6" : : "r"(DR6_RESET));
	interrupts_restore(flags);
	return instructions_taken - STEPS_TO_END;
}
