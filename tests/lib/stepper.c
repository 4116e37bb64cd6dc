// SPDX-License-Identifier: MIT
#include "tests/lib/stepper.h"

#include "drivers/clock/tsc.h"
#include "drivers/ds/registers.h"
#include "drivers/msr.h"
#include "kernel/lock.h"
#include "kernel/trap/trap.h"
#include "tests/lib/own_idt.h"

/* The loop is one piece of code for all three: void loop_run(uint64_t n). */
__asm__(".pushsection .text\n\t.globl loop_start, loop_branch\n\t.balign 16\nloop_run:\nloop_start:\n\t"
	"addq $3, %rax\n\txorq %rax, %rdx\n\tleaq 5(%rdx), %rdx\n\t"
	"decq %rdi\nloop_branch:\n\tjnz loop_start\n\tret\n\t.popsection");
void loop_run(uint64_t n);

/* As the hardware would keep them: where the next record goes, where it wraps. */
static struct {
	uint64_t previous; /* the instruction that has just been executed */
	struct stepped_branch *next, *base, *end;
	uint64_t stored;
} stepper __attribute__((used));

/*
 * Offsets: previous 0, next 8, base 16, end 24, stored 32. Instructions in sequence, four of five
 * here, take the straight way: RCX is where it was less where it goes on, -15 to -1.
 */
__asm__(".pushsection .text\n\t.balign 16\nstepper_entry:\n\t"
	"pushq %rax\n\tpushq %rcx\n\tmovq 16(%rsp), %rax\n\t"
	"movq stepper(%rip), %rcx\n\tmovq %rax, stepper(%rip)\n\t"
	"subq %rax, %rcx\n\tcmpq $-15, %rcx\n\tjb 1f\n\t"
	"popq %rcx\n\tpopq %rax\n\tiretq\n"
	"1:\tpushq %rdx\n\taddq %rax, %rcx\n\tmovq stepper+8(%rip), %rdx\n\t"
	"movq %rcx, (%rdx)\n\tmovq %rax, 8(%rdx)\n\tmovq $0, 16(%rdx)\n\t"
	"addq $24, %rdx\n\tcmpq stepper+24(%rip), %rdx\n\tjne 2f\n\t"
	"movq stepper+16(%rip), %rdx\n"
	"2:\tmovq %rdx, stepper+8(%rip)\n\tincq stepper+32(%rip)\n\t"
	"popq %rdx\n\tpopq %rcx\n\tpopq %rax\n\tiretq\n\t.popsection");
extern const char stepper_entry[];
_Static_assert(sizeof(struct stepped_branch) == 24, "the handler counts on it");

void loop_untraced(uint64_t n, uint64_t *cycles)
{
	uint64_t flags = interrupts_save(), start = tsc_read();

	loop_run(n);
	*cycles = tsc_read() - start;
	interrupts_restore(flags);
}

void loop_recorded(uint64_t debugctl, uint64_t n, uint64_t *cycles)
{
	uint64_t flags = interrupts_save(), start = tsc_read();

	wrmsr(IA32_DEBUGCTL, debugctl);
	loop_run(n);
	wrmsr(IA32_DEBUGCTL, 0);
	*cycles = tsc_read() - start;
	interrupts_restore(flags);
}

/* TF acts from the instruction behind POPF on, and once more on the POPF that clears it. */
static void step(uint64_t n)
{
	uint64_t rax = 0, rdx = 0;

	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\t"
			 "leaq 1f(%%rip), %%rax\n\tmovq %%rax, stepper(%%rip)\n\t"
			 "popfq\n"
			 "1:\tcall loop_run\n\t"
			 "pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq"
			 : "+a"(rax), "+d"(rdx), "+D"(n)
			 :
			 : "memory", "cc");
}

uint64_t loop_stepped(struct stepped_branch *ring, size_t size, uint64_t n, uint64_t *cycles)
{
	uint64_t flags = interrupts_save(), start;

	stepper.base = stepper.next = ring;
	stepper.end = ring + size;
	stepper.stored = 0;
	own_idt_copy();
	own_idt_set(VECTOR_DB, stepper_entry, false);
	own_idt_load();
	start = tsc_read();
	step(n);
	*cycles = tsc_read() - start;
	own_idt_unload();
	__asm__ volatile("mov %0, %%dr6" : : "r"(DR6_RESET));
	interrupts_restore(flags);
	return stepper.stored;
}
