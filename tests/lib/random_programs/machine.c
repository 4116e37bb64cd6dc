// SPDX-License-Identifier: MIT
#include "tests/lib/random_programs/machine.h"

#include "lib/string.h"
#include "tests/framework/random.h"
#include "tests/framework/test.h"

#define CR0_EM	    (1ul << 2)
#define CR0_TS	    (1ul << 3)
#define CR4_OSFXSR  (1ul << 9)
#define FLAGS	    0xcd5u /* CF PF AF ZF SF DF OF */
#define FCW_RESET   0x037f
#define MXCSR_RESET 0x1f80

static uint64_t old_cr0, old_cr4;
static uint8_t old_fxsave[512] __attribute__((aligned(16)));

void machine_open(void)
{
	__asm__ volatile("mov %%cr0, %0" : "=r"(old_cr0));
	__asm__ volatile("mov %%cr4, %0" : "=r"(old_cr4));
	__asm__ volatile("mov %0, %%cr0" : : "r"(old_cr0 & ~(CR0_EM | CR0_TS)));
	__asm__ volatile("mov %0, %%cr4" : : "r"(old_cr4 | CR4_OSFXSR));
	__asm__ volatile("fxsave64 %0" : "=m"(old_fxsave));
}

void machine_close(void)
{
	__asm__ volatile("fxrstor64 %0" : : "m"(old_fxsave));
	__asm__ volatile("mov %0, %%cr4" : : "r"(old_cr4));
	__asm__ volatile("mov %0, %%cr0" : : "r"(old_cr0));
}

void machine_randomize(struct machine *machine, uint64_t *random)
{
	*machine = (struct machine){0};
	for (unsigned i = 0; i < 16; i++)
		machine->registers[i] = random_next(random);
	for (size_t at = FXSAVE_XMM; at < FXSAVE_XMM + 256; at++)
		machine->fxsave[at] = (uint8_t)random_next(random);
	memcpy(machine->fxsave, &(uint16_t){FCW_RESET}, 2);
	memcpy(machine->fxsave + FXSAVE_MXCSR, &(uint32_t){MXCSR_RESET}, 4);
}

/*
 * RDI: the machine, RSI: the code, RDX: IA32_DEBUGCTL. The code's address goes to the stack below
 * the machine's; neither is an operand that the code could see changed.
 */
__asm__(".pushsection .text\n"
	".globl machine_run, machine_call, machine_back, machine_return\n"
	"machine_run:\n\t"
	"pushq %rbx\n\tpushq %rbp\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
	"pushfq\n\tcli\n\tpushq %rdi\n\tpushq %rsi\n\t"
	"movl %edx, %eax\n\tshrq $32, %rdx\n\tmovl $0x1d9, %ecx\n\twrmsr\n\t"
	"fxrstor64 144(%rdi)\n\tpushq 128(%rdi)\n\tpopfq\n\t"
	"movq (%rdi), %rax\n\tmovq 8(%rdi), %rcx\n\tmovq 16(%rdi), %rdx\n\tmovq 24(%rdi), %rbx\n\t"
	"movq 40(%rdi), %rbp\n\tmovq 48(%rdi), %rsi\n\tmovq 64(%rdi), %r8\n\tmovq 72(%rdi), %r9\n\t"
	"movq 80(%rdi), %r10\n\tmovq 88(%rdi), %r11\n\tmovq 96(%rdi), %r12\n\t"
	"movq 104(%rdi), %r13\n\tmovq 112(%rdi), %r14\n\tmovq 120(%rdi), %r15\n\t"
	"movq 56(%rdi), %rdi\n"
	"machine_call: call *(%rsp)\n"
	"machine_back: xchgq %rdi, 8(%rsp)\n\t"
	"movq %rax, (%rdi)\n\tmovq %rcx, 8(%rdi)\n\tmovq %rdx, 16(%rdi)\n\tmovq %rbx, 24(%rdi)\n\t"
	"movq %rbp, 40(%rdi)\n\tmovq %rsi, 48(%rdi)\n\tmovq %r8, 64(%rdi)\n\tmovq %r9, 72(%rdi)\n\t"
	"movq %r10, 80(%rdi)\n\tmovq %r11, 88(%rdi)\n\tmovq %r12, 96(%rdi)\n\t"
	"movq %r13, 104(%rdi)\n\tmovq %r14, 112(%rdi)\n\tmovq %r15, 120(%rdi)\n\t"
	"pushfq\n\tpopq 128(%rdi)\n\tfxsave64 144(%rdi)\n\tpopq %rsi\n\tpopq 56(%rdi)\n\t"
	"movl $0x1d9, %ecx\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\tcld\n\tpopfq\n\t"
	"popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbp\n\tpopq %rbx\n"
	"machine_return: ret\n"
	".popsection");

static bool same(const char *what, unsigned number, uint64_t a, uint64_t b)
{
	if (a == b)
		return true;
	test_note("%s %u: %lx and %lx", what, number, a, b);
	return false;
}

bool machine_same(const struct machine *a, const struct machine *b)
{
	bool all = same("flags", 0, a->flags & FLAGS, b->flags & FLAGS);
	uint64_t left, right;

	for (unsigned i = 0; i < 16; i++)
		if (i != RSP)
			all &= same("register", i, a->registers[i], b->registers[i]);
	for (unsigned i = 0; i < 32; i++) {
		memcpy(&left, a->fxsave + FXSAVE_XMM + i * 8, 8);
		memcpy(&right, b->fxsave + FXSAVE_XMM + i * 8, 8);
		all &= same(i % 2 ? "high half of XMM" : "low half of XMM", i / 2, left, right);
	}
	left = right = 0;
	memcpy(&left, a->fxsave + FXSAVE_MXCSR, 4);
	memcpy(&right, b->fxsave + FXSAVE_MXCSR, 4);
	return same("MXCSR", 0, left, right) && all;
}
