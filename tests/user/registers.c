// SPDX-License-Identifier: MIT
// Keeps its argument in every register and looks whether it stays, until the time is over.
#include "tests/user/lib/user.h"

#define ALL(f)                                                                                     \
	f("rbx") f("rdx") f("rsi") f("rdi") f("r8") f("r9") f("r10") f("r12") f("r13") f("r14")    \
		f("r15")
#define SET(register)	 "mov %%rax, %%" register "\n\t"
#define SAME(register)	 "cmp %%rax, %%" register "\n\tjne 9f\n\t"
#define ALL_XMM(f)	 f("1") f("2") f("3") f("4") f("5") f("6") f("7") f("8") f("15")
#define SET_XMM(number)	 "movq %%rax, %%xmm" number "\n\t"
#define SAME_XMM(number) "movq %%xmm" number ", %%rcx\n\tcmp %%rax, %%rcx\n\tjne 9f\n\t"

/* False as soon as a register differs; a few thousand rounds. */
static int hold(uint64_t value)
{
	uint64_t same = value;

	__asm__ volatile(ALL(SET) ALL_XMM(SET_XMM) "mov $20000, %%r11d\n"
						   "1:\t" ALL(SAME)
							   ALL_XMM(SAME_XMM) "dec %%r11d\n\t"
									     "jnz 1b\n\t"
									     "jmp 8f\n"
									     "9:\tnot %%rax\n"
									     "8:\n\t"
			 : "+a"(same)
			 :
			 : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
			   "r13", "r14", "r15", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
			   "xmm7", "xmm8", "xmm15", "cc");
	return same == value;
}

int main(uint64_t argument)
{
	int64_t end = now_us() + (int64_t)(argument & 0xffff) * 1000;
	uint16_t control = (uint16_t)(0x37f & ~(argument >> 16 & 0xc00)), now;
	uint32_t mxcsr = 0x1f80 | (argument >> 16 & 0x6000), mxcsr_now;

	__asm__ volatile("fldcw %0\n\tldmxcsr %1" : : "m"(control), "m"(mxcsr));
	do {
		CHECK(hold(argument * 0x9e3779b97f4a7c15));
		__asm__ volatile("fnstcw %0\n\tstmxcsr %1" : "=m"(now), "=m"(mxcsr_now));
		CHECK(now == control && mxcsr_now == mxcsr);
	} while (now_us() < end);
	return 0;
}
