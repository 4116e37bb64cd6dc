// SPDX-License-Identifier: MIT
// Recursion, calls by pointer, tail calls, and longjmp() through many frames.
#include "tests/user/lib/user.h"
#include "tools/view/tests/corpus/calls.h"

/* RBX, RBP, R12 to R15, RSP after the return, where it returns to. */
typedef uint64_t jmp_buf[8];

int setjmp(jmp_buf place) __attribute__((returns_twice));
_Noreturn void longjmp(jmp_buf place, int value);

__asm__(".type setjmp, @function\n"
	"setjmp:\n"
	"	mov %rbx, (%rdi)\n	mov %rbp, 8(%rdi)\n	mov %r12, 16(%rdi)\n"
	"	mov %r13, 24(%rdi)\n	mov %r14, 32(%rdi)\n	mov %r15, 40(%rdi)\n"
	"	lea 8(%rsp), %rax\n	mov %rax, 48(%rdi)\n	mov (%rsp), %rax\n"
	"	mov %rax, 56(%rdi)\n	xor %eax, %eax\n	ret\n"
	".size setjmp, . - setjmp\n"
	".type longjmp, @function\n"
	"longjmp:\n"
	"	mov (%rdi), %rbx\n	mov 8(%rdi), %rbp\n	mov 16(%rdi), %r12\n"
	"	mov 24(%rdi), %r13\n	mov 32(%rdi), %r14\n	mov 40(%rdi), %r15\n"
	"	mov 48(%rdi), %rsp\n	mov %esi, %eax\n	jmp *56(%rdi)\n"
	".size longjmp, . - longjmp\n");

static jmp_buf place;

__attribute__((noinline)) static unsigned ackermann(unsigned m, unsigned n)
{
	if (!m)
		return n + 1;
	return ackermann(m - 1, n ? ackermann(m, n - 1) : 1);
}

/* The jump goes back over the activations of the same function. */
__attribute__((noinline)) static unsigned descend(unsigned level, unsigned most)
{
	if (level == 0 && setjmp(place))
		return 1;
	if (level == most)
		longjmp(place, 1);
	sink += level;
	return descend(level + 1, most) + 1;
}

int main(uint64_t argument)
{
	(void)argument;
	for (unsigned turn = 0; turn < 100; turn++) {
		sink += first(turn) + descend(0, turn % 30);
		if (turn % 10 == 0)
			sink += ackermann(2, turn / 10);
	}
	return 0;
}
