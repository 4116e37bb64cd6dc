// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

extern const char goes_first[], goes_first_to[], goes_cr3[], goes_cr3_to[], goes_invlpg[],
	goes_invlpg_to[], goes_cpuid[], goes_cpuid_to[], goes_rep[], goes_rep_to[], goes_rdmsr[],
	goes_rdmsr_to[];

/* Each instruction in question stands between two jumps. */
TEST(bts_goes_on, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim = "what is not a branch leaves recording on: MOV CR3, INVLPG, CPUID, REP, RDMSR",
     .source = "SDM Vol 3, 17.4.4 and 17.4.5: taken branch, interrupt, or exception")
{
	uint64_t words[8] = {0};
	uint64_t *from = words, *to = words + 4;
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED_WITH(rig_all(),
			    "goes_first: jmp goes_first_to\n\tud2\n"
			    "goes_first_to: movq %%cr3, %%rax\n\tmovq %%rax, %%cr3\n"
			    "goes_cr3: jmp goes_cr3_to\n\tud2\n"
			    "goes_cr3_to: invlpg (%[words])\n"
			    "goes_invlpg: jmp goes_invlpg_to\n\tud2\n"
			    "goes_invlpg_to: xorl %%eax, %%eax\n\tcpuid\n"
			    "goes_cpuid: jmp goes_cpuid_to\n\tud2\n"
			    "goes_cpuid_to: movl $4, %%ecx\n\trep movsq\n"
			    "goes_rep: jmp goes_rep_to\n\tud2\n"
			    "goes_rep_to: movl $0x1d9, %%ecx\n\trdmsr\n"
			    "goes_rdmsr: jmp goes_rdmsr_to\n\tud2\n"
			    "goes_rdmsr_to:\n\t",
			    AND("+&S"(from), "+&D"(to)), AND([words] "r"(words)), "rbx");
	EXPECT_EQ(rig_count(&rig), 6);
	rig_expect(&rig, 0, goes_first, goes_first_to, "jmp");
	rig_expect(&rig, 1, goes_cr3, goes_cr3_to, "jmp behind MOV CR3");
	rig_expect(&rig, 2, goes_invlpg, goes_invlpg_to, "jmp behind INVLPG");
	rig_expect(&rig, 3, goes_cpuid, goes_cpuid_to, "jmp behind CPUID");
	rig_expect(&rig, 4, goes_rep, goes_rep_to, "jmp behind REP MOVS");
	rig_expect(&rig, 5, goes_rdmsr, goes_rdmsr_to, "jmp behind RDMSR");
	rig_close(&rig);
}
