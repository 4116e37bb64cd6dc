// SPDX-License-Identifier: MIT
#include "drivers/cpuid.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/extable.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"

#define AT 0x00005a0000003000ul

#define CR4_UMIP (1u << 11)
#define CR4_SMEP (1u << 20)
#define CR4_SMAP (1u << 21)

static const uint8_t smsw_eax[] = {0x0f, 0x01, 0xe0, 0x0f, 0x0b}; /* smsw eax; ud2; byte 1 is 1 */

static bool kernel_reads(uint64_t address)
{
	bool done = false;

	__asm__ volatile("1:\ttestb $0, (%1)\n\t"
			 "movb $1, %0\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+q"(done)
			 : "r"(address)
			 : "cc", "memory");
	return done;
}

static bool kernel_writes(uint64_t address)
{
	bool done = false;

	__asm__ volatile("1:\tmovb $1, (%1)\n\t"
			 "movb $1, %0\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+q"(done)
			 : "r"(address)
			 : "memory");
	return done;
}

TEST(user_protections, .group = "process", .ids = "",
     .claim = "SMEP, SMAP and UMIP are on where the processor has them, and constants are constant",
     .source = "SDM Vol 3, 2.5 and 4.6")
{
	struct cpuid_result features = {0};
	struct trap_frame frame = {.rip = AT};
	uint8_t *page = test_area(1);
	uint64_t cr4;

	if (cpuid(0, 0).eax >= 7)
		features = cpuid(7, 0);
	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	EXPECT_EQ(!!(cr4 & CR4_SMEP), features.ebx >> 7 & 1);
	EXPECT_EQ(!!(cr4 & CR4_SMAP), features.ebx >> 20 & 1);
	EXPECT_EQ(!!(cr4 & CR4_UMIP), features.ecx >> 2 & 1);
	EXPECT(!kernel_writes((uint64_t)&smsw_eax[1]));

	memcpy(page, smsw_eax, sizeof(smsw_eax));
	code_map(AT, page, VM_USER);
	EXPECT_EQ(kernel_reads(AT), !(cr4 & CR4_SMAP));
	REQUIRE(user_run(&frame));
	EXPECT_EQ(frame.vector, cr4 & CR4_UMIP ? VECTOR_GP : VECTOR_UD);
	code_unmap(AT);
}
