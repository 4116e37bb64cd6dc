// SPDX-License-Identifier: MIT
#include "tests/lib/caught.h"

#include "tests/framework/test.h"
#include "tests/lib/own_idt.h"

#define STUB_BYTES 16

static struct faulted caught __attribute__((used));

extern const char caught_stubs[], caught_stubs_error[];
void caught_enter(const void *code, const uint64_t registers[3], uint64_t flags, uint64_t debugctl);

/*
 * For vectors 0 to 19 twice, as they have an error code or not: the vector goes below it. Offsets
 * in `caught`: vector 0, error 8, CR2 16, RIP 24, RCX 32, RDI 40, RSI 48.
 */
__asm__(".pushsection .text\n\t.set caught_n, 0\n\t.balign 16\ncaught_stubs:\n"
	".rept 20\n\t.balign 16\n\tpushq $0\n\tpushq $caught_n\n\tjmp caught_common\n"
	"\t.set caught_n, caught_n + 1\n\t.endr\n\t.set caught_n, 0\n\t.balign 16\ncaught_stubs_error:\n"
	".rept 20\n\t.balign 16\n\tpushq $caught_n\n\tjmp caught_common\n"
	"\t.set caught_n, caught_n + 1\n\t.endr\n"
	"caught_common: movq %rcx, caught+32(%rip)\n\tmovq %rdi, caught+40(%rip)\n\t"
	"movq %rsi, caught+48(%rip)\n\tmovq %cr2, %rax\n\tmovq %rax, caught+16(%rip)\n\t"
	"popq %rax\n\tmovq %rax, caught(%rip)\n\tpopq %rax\n\tmovq %rax, caught+8(%rip)\n\t"
	"movq (%rsp), %rax\n\tmovq %rax, caught+24(%rip)\n\tmovq %rbx, (%rsp)\n\tiretq\n"
	/* RDI: code, RSI: RDI RSI RCX, RDX: flags, RCX: debugctl */
	"caught_enter: pushq %rbx\n\tpushq %rbp\n\tpushfq\n\tmovq %rsp, %rbp\n\tmovq %rdi, %r8\n\t"
	"movq %rsi, %r9\n\tmovq %rdx, %r10\n\tmovl %ecx, %eax\n\txorl %edx, %edx\n\t"
	"movl $0x1d9, %ecx\n\tcli\n\twrmsr\n\tleaq 1f(%rip), %rbx\n\tpushq %r10\n\tpopfq\n\t"
	"movq (%r9), %rdi\n\tmovq 8(%r9), %rsi\n\tmovq 16(%r9), %rcx\n\tmovl $0, %eax\n\tjmp *%r8\n"
	"1:\tmovq %rbp, %rsp\n\tpushq $2\n\tpopfq\n\tmovq %rcx, %r8\n\tmovl $0x1d9, %ecx\n\t"
	"xorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\tcmpq $256, caught(%rip)\n\tjne 2f\n\t"
	"movq %r8, caught+32(%rip)\n\tmovq %rdi, caught+40(%rip)\n\tmovq %rsi, caught+48(%rip)\n"
	"2:\tpopfq\n\tpopq %rbp\n\tpopq %rbx\n\tret\n"
	".popsection");

void caught_open(void)
{
	static const uint8_t with_error[] = {10, 11, 12, 13, 14, 17},
			     without[] = {0, 3, 4, 6, 16, 19};

	own_idt_copy();
	for (unsigned n = 0; n < sizeof(with_error); n++)
		own_idt_set(with_error[n], caught_stubs_error + with_error[n] * STUB_BYTES, false);
	for (unsigned n = 0; n < sizeof(without); n++)
		own_idt_set(without[n], caught_stubs + without[n] * STUB_BYTES, false);
	own_idt_load();
}

void caught_close(void)
{
	own_idt_unload();
}

struct faulted caught_run(const void *code, uint64_t rdi, uint64_t rsi, uint64_t rcx, bool ac,
			  uint64_t debugctl)
{
	const uint64_t registers[3] = {rdi, rsi, rcx};

	caught = (struct faulted){.vector = CAUGHT_NONE};
	__asm__ volatile("mov %0, %%cr2" : : "r"(0ul));
	caught_enter(code, registers, 2 | (ac ? 1u << 18 : 0), debugctl);
	return caught;
}

bool caught_same(const struct faulted *a, const struct faulted *b)
{
	bool same = a->vector == b->vector && a->error == b->error && a->cr2 == b->cr2 &&
		    a->rip == b->rip && a->rcx == b->rcx && a->rdi == b->rdi && a->rsi == b->rsi;

	if (!same)
		test_note("vector %lu error %lx cr2 %lx rip %lx rcx %lx rdi %lx, then vector %lu "
			  "error %lx cr2 %lx rip %lx rcx %lx rdi %lx",
			  a->vector, a->error, a->cr2, a->rip, a->rcx, a->rdi, b->vector, b->error,
			  b->cr2, b->rip, b->rcx, b->rdi);
	return same;
}
