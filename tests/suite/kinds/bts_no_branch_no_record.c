// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

TEST(bts_no_branch_no_record, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim = "what is not a branch leaves no record: CPUID, MOV CR3, PAUSE and others",
     .source = "SDM Vol 3, 17.4.4: taken branch, interrupt, or exception")
{
	uint64_t word = 0;
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED_WITH(rig_all(),
			    "xorl %%eax, %%eax\n\tcpuid\n\t"
			    "movl $1, %%eax\n\tcpuid\n\t"
			    "movq %%cr3, %%rax\n\tmovq %%rax, %%cr3\n\t"
			    "movq %%cr0, %%rax\n\tmovq %%rax, %%cr0\n\t"
			    "invlpg (%[word])\n\tpause\n\tlfence\n\trdtsc\n\t"
			    "movl $0x10, %%ecx\n\trdmsr\n\t"
			    "inb $0x80, %%al\n\toutb %%al, $0x80\n\t"
			    "xorl %%eax, %%eax\n\tcmovzl %%edx, %%ecx\n\tsete %%al\n\t"
			    "lock addq $1, (%[word])\n\txchgq %%rax, (%[word])\n\t"
			    "pushfq\n\tpopfq\n\tmovl %%ss, %%eax\n\tmovl %%eax, %%ss\n\tnop\n\t"
			    "leaq (%%rsp), %%rax\n\tbswapq %%rax\n\tnop\n\t",
			    , AND([word] "r"(&word)), "rbx");
	EXPECT_EQ(rig_count(&rig), 0);
	EXPECT_EQ(rig_record(&rig, 0).from, 0);
	rig_close(&rig);
}
