// SPDX-License-Identifier: MIT
#include "kernel/mm/page.h"
#include "lib/string.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/rig.h"

extern const char goes_first[], goes_first_to[], goes_cr3[], goes_cr3_to[], goes_invlpg[],
	goes_invlpg_to[], goes_cpuid[], goes_cpuid_to[], goes_rep[], goes_rep_to[], goes_rdmsr[],
	goes_rdmsr_to[];

/* Each instruction in question is between two jumps. */
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
			    OPERANDS("+&S"(from), "+&D"(to)), OPERANDS([words] "r"(words)), "rbx");
	EXPECT_EQ(rig_count(&rig), 6);
	rig_expect(&rig, 0, goes_first, goes_first_to, "jmp");
	rig_expect(&rig, 1, goes_cr3, goes_cr3_to, "jmp after MOV CR3");
	rig_expect(&rig, 2, goes_invlpg, goes_invlpg_to, "jmp after INVLPG");
	rig_expect(&rig, 3, goes_cpuid, goes_cpuid_to, "jmp after CPUID");
	rig_expect(&rig, 4, goes_rep, goes_rep_to, "jmp after REP MOVS");
	rig_expect(&rig, 5, goes_rdmsr, goes_rdmsr_to, "jmp after RDMSR");
	rig_close(&rig);
}

#define CR0_TS (1ul << 3)
#define CR4_DE (1ul << 3)

extern const char control_ts[], control_ts_to[], control_de[], control_de_to[], control_idt[],
	control_idt_to[];

/* Each register really changes, since only a change can have a consequence. */
TEST(bts_goes_on_controls, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim = "changes of CR0, CR4 and IDTR leave recording on",
     .source = "SDM Vol 3, 17.4.4 and 17.4.5: taken branch, interrupt, or exception")
{
	struct rig rig;
	uint64_t cr0, cr4;

	__asm__ volatile("movq %%cr0, %0\n\tmovq %%cr4, %1" : "=r"(cr0), "=r"(cr4));
	rig_open(&rig, 16);
	own_idt_copy();
	EXACTLY (&rig) {
		own_idt_load();
		TRACED_WITH(rig_all(),
			    "movq %[cr0], %%rax\n\txorq %[ts], %%rax\n\tmovq %%rax, %%cr0\n"
			    "control_ts: jmp control_ts_to\n\tud2\n"
			    "control_ts_to: movq %[cr0], %%cr0\n\t"
			    "movq %[cr4], %%rax\n\txorq %[de], %%rax\n\tmovq %%rax, %%cr4\n"
			    "control_de: jmp control_de_to\n\tud2\n"
			    "control_de_to: movq %[cr4], %%cr4\n\tlidt %[idt]\n"
			    "control_idt: jmp control_idt_to\n\tud2\n"
			    "control_idt_to:\n\t",
			    ,
			    OPERANDS([cr0] "r"(cr0), [cr4] "r"(cr4), [ts] "i"(CR0_TS),
				     [de] "i"(CR4_DE), [idt] "m"(*own_idt_kernel())));
		own_idt_unload();
	}
	EXPECT_EQ(rig_count(&rig), 3);
	rig_expect(&rig, 0, control_ts, control_ts_to, "jmp after a change of CR0.TS");
	rig_expect(&rig, 1, control_de, control_de_to, "jmp after a change of CR4.DE");
	rig_expect(&rig, 2, control_idt, control_idt_to, "jmp after LIDT");
	rig_close(&rig);
}

/* The records that show that the bracket records. */
extern const char after_all[], after_all_to[], after_strings[], after_strings_to[];

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
			    "leaq (%%rsp), %%rax\n\tbswapq %%rax\n\tnop\n"
			    "after_all: jmp after_all_to\n\tud2\nafter_all_to:\n\t",
			    , OPERANDS([word] "r"(&word)), "rbx");
	EXPECT_EQ(rig_count(&rig), 1);
	rig_expect(&rig, 0, after_all, after_all_to, "jmp after all that is no branch");
	rig_close(&rig);
}

// REP MOVS returns to itself until RCX is 0, and an interrupt can come between two iterations: to
// an interpreter that looks like a branch. Passing means: it leaves no record, however many
// iterations.

TEST(bts_string_instructions, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim = "the iterations of REP MOVS, STOS, CMPS and SCAS leave no records",
     .source = "SDM Vol 3, 17.4.4: taken branches; SDM Vol 2, REP")
{
	uint8_t *from = test_area(1), *to = test_area(1);
	uint64_t compared = 0, scanned = 0;
	struct rig rig;

	for (size_t i = 0; i < PAGE_SIZE; i++)
		from[i] = (uint8_t)(i * 5 + i / 256);
	rig_open(&rig, 16);
	EXACTLY (&rig) {
		const uint8_t *source = from;
		uint8_t *target = to;

		TRACED_WITH(rig_all(),
			    "movl $4096, %%ecx\n\trep movsb\n\t"
			    "subq $4096, %%rsi\n\tsubq $4096, %%rdi\n\t"
			    "movl $512, %%ecx\n\trepe cmpsq\n\tmovq %%rcx, %[compared]\n\t"
			    "subq $4096, %%rdi\n\tmovb 77(%%rdi), %%al\n\tmovl $4096, %%ecx\n\t"
			    "repne scasb\n\tmovq %%rcx, %[scanned]\n\t"
			    "movl $0x11223344, %%eax\n\tmovl $16, %%ecx\n\trep stosl\n"
			    "after_strings: jmp after_strings_to\n\tud2\nafter_strings_to:\n\t",
			    OPERANDS([compared] "=&r"(compared), [scanned] "=&r"(scanned),
				     "+&S"(source), "+&D"(target)), );
	}
	EXPECT_EQ(rig_count(&rig), 1);
	rig_expect(&rig, 0, after_strings, after_strings_to, "jmp after the string instructions");
	EXPECT_EQ(compared, 0);
	EXPECT_EQ(scanned, PAGE_SIZE - 78);
	EXPECT(!memcmp(&to[78], "\x44\x33\x22\x11", 4));
	EXPECT_EQ(to[PAGE_SIZE - 1], from[PAGE_SIZE - 1]);
	rig_close(&rig);
}
