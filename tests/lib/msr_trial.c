// SPDX-License-Identifier: MIT
#include "tests/lib/msr_trial.h"

#include "kernel/trap/trap.h"

struct msr_trial msr_try(uint32_t index, uint64_t value, uint64_t restore)
{
	uint32_t low = (uint32_t)value, high = (uint32_t)(value >> 32), read_low, read_high;
	bool refused = true;

	__asm__ volatile("pushfq\n\t"
			 "cli\n"
			 "1:\twrmsr\n\t"
			 "movb $0, %[refused]\n"
			 "2:\txorl %%eax, %%eax\n\t"
			 "xorl %%edx, %%edx\n"
			 "3:\trdmsr\n"
			 "4:\tmovl %%eax, %[read_low]\n\t"
			 "movl %%edx, %[read_high]\n\t"
			 "movl %[restore_low], %%eax\n\t"
			 "movl %[restore_high], %%edx\n"
			 "5:\twrmsr\n"
			 "6:\tpopfq\n\t" EXCEPTION_TABLE("1b", "2b") EXCEPTION_TABLE("3b", "4b")
				 EXCEPTION_TABLE("5b", "6b")
			 : "+&a"(low), "+&d"(high), [refused] "+&q"(refused),
			   [read_low] "=&r"(read_low), [read_high] "=&r"(read_high)
			 : "c"(index), [restore_low] "r"((uint32_t)restore),
			   [restore_high] "r"((uint32_t)(restore >> 32))
			 : "memory", "cc");
	return (struct msr_trial){refused, (uint64_t)read_high << 32 | read_low};
}

const char *msr_trial_word(const struct msr_trial *trial, uint64_t bits)
{
	if (trial->refused)
		return "gp";
	return trial->read_back & bits ? "kept" : "ignored";
}
