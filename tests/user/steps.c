// SPDX-License-Identifier: MIT
// For a tracer: stops, traps with the address of a cell in RAX, runs straight code, ends with the
// cell's value.
#include "tests/user/lib/user.h"

static volatile uint64_t cell = 5;

int main(uint64_t argument)
{
	uint64_t count = argument;

	kill(getpid(), SIGSTOP); /* until the tracer is there */
	__asm__ volatile("int3\n\t"
			 "inc %0\n\t"
			 "nop\n\t"
			 "inc %0\n\t"
			 "mov $39, %%eax\n\t" /* getpid: a step over a system call */
			 "syscall\n\t"
			 "inc %0\n\t"
			 "int3"
			 : "+b"(count)
			 : "a"(&cell)
			 : "rcx", "r11", "memory");
	return (int)(cell + count);
}
