// SPDX-License-Identifier: MIT
// Does what ring 3 may not, one thing by argument; tests/suite/process/user_faults.c has the list.
#include "tests/user/lib/user.h"

static volatile int zero;
static uint64_t stack_page;

#define TRY(number, ...)                                                                           \
	case number:                                                                               \
		__asm__ volatile(__VA_ARGS__);                                                     \
		break

/* Down the stack and out of it. */
static void push_without_end(void)
{
	__asm__ volatile("1: push %rax; jmp 1b");
}

int main(uint64_t argument)
{
	switch (argument) {
		TRY(0, "movl 0, %eax");
		TRY(1, "movl $0, main(%rip)");
		TRY(2, "jmp *%0" : : "r"(&stack_page));
		TRY(3, "mov (%0), %%eax" : : "r"(0xffffffff80101000ul));
		TRY(4, "mov %%eax, (%0)" : : "r"(0xffff800000100000ul));
		TRY(5, "jmp *%0" : : "r"(0xffffffff80101000ul));
		TRY(6, "mov (%0), %%eax" : : "r"(0x0000800000000000ul));
		TRY(7, "jmp *%0" : : "r"(0x0000800000000000ul));
		TRY(8, "mov %0, %%rsp; push %%rax" : : "r"(0x0000900000000000ul));
		TRY(9, "ud2");
		TRY(10, "int3");
		TRY(11, "int $0x80");
		TRY(12, "int $1");
		TRY(13, "cli");
		TRY(14, "hlt");
		TRY(15, "in $0x60, %al");
		TRY(16, "mov $0x1d9, %ecx; rdmsr");
		TRY(17, "mov %%cr3, %%rax" : : : "rax");
		TRY(18, "pushq $0x302; popfq; nop");
		TRY(19, "int $0x20");
		TRY(20, "pushq $0x7202; popfq; cli");
		TRY(21, "swapgs");
		TRY(22, "int $2");
		TRY(23, "mov $-1, %ecx; xgetbv");
		TRY(24, "fninit; movw $0x37b, -8(%rsp); fldcw -8(%rsp); fld1; fldz; fdivrp; fwait");
	case 25:
		return 7 / zero;
	case 26:
		push_without_end();
	}
	return 0;
}
