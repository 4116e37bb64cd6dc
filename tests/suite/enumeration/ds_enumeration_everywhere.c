/* SPDX-License-Identifier: MIT */
/* A program looks at CPUID when it likes: while somebody traces it, and in ring 3. */
#include "drivers/cpuid.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/rig.h"

#define AT  0x00005a0000001000ul
#define ECX (1u << 2 | 1u << 4) /* DTES64, DS-CPL */
#define EDX (1u << 21)		/* DS */

TEST(ds_enumeration_while_recording, .group = "E", .ids = "E1 E3", .needs = NEED_BTS,
     .claim = "CPUID and IA32_MISC_ENABLE tell the same of DS while TR and BTS are set",
     .source = "SDM Vol 3, 17.4.9 and table 35-2: 1A0H; SDM Vol 2, CPUID")
{
	struct cpuid_result one = cpuid(1, 0);
	uint64_t before = rdmsr(IA32_MISC_ENABLE), enable = 0;
	uint32_t ecx = 0, edx = 0;
	struct rig rig;

	rig_open(&rig, 16);
	TRACED_WITH(rig_all(),
		    "movl $1, %%eax\n\txorl %%ecx, %%ecx\n\tcpuid\n\t"
		    "movl %%ecx, %[ecx]\n\tmovl %%edx, %[edx]\n\t"
		    "movl $0x1a0, %%ecx\n\trdmsr\n\tshlq $32, %%rdx\n\torq %%rax, %%rdx\n\t"
		    "movq %%rdx, %[enable]\n\t",
		    AND([ecx] "=&r"(ecx), [edx] "=&r"(edx), [enable] "=&r"(enable)), , "rbx");
	EXPECT_EQ(ecx & ECX, one.ecx & ECX);
	EXPECT_EQ(edx & EDX, one.edx & EDX);
	EXPECT_EQ(enable, before);
	rig_close(&rig);
}

TEST(ds_enumeration_in_ring_3, .group = "E", .ids = "E1", .needs = NEED_DS,
     .claim = "CPUID tells ring 3 the same of DS as the kernel",
     .source = "SDM Vol 3, 17.4.9; SDM Vol 2, CPUID: at any privilege level")
{
	static const uint8_t code[] = {0x0f, 0xa2, 0x0f, 0x0b}; /* cpuid; ud2 */
	struct cpuid_result one = cpuid(1, 0);
	struct trap_frame frame = {.rip = AT, .rax = 1};
	uint8_t *page = test_area(1);

	memcpy(page, code, sizeof(code));
	code_map(AT, page, VM_USER);
	EXPECT(user_run(&frame));
	code_unmap(AT);
	EXPECT_EQ(frame.vector, VECTOR_UD);
	EXPECT_EQ(frame.rcx & ECX, one.ecx & ECX);
	EXPECT_EQ(frame.rdx & EDX, one.edx & EDX);
}
