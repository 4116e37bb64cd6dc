// SPDX-License-Identifier: MIT
#include "kernel/mm/page.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"

#define CF (1u << 0)
#define PF (1u << 2)
#define ZF (1u << 6)
#define SF (1u << 7)
#define OF (1u << 11)

#define SHORT_SIZE 3 /* Jcc rel8 and the NOP that it jumps over */
#define NEAR_SIZE  7 /* Jcc rel32 and the NOP */

extern const char conditional_short[], conditional_near[];

/* SDM Vol 1, appendix B: odd conditions negate the even ones before them. */
static bool holds(unsigned condition, uint32_t flags)
{
	bool sign_not_overflow = !(flags & SF) != !(flags & OF);
	bool even[] = {flags & OF, flags & CF, flags & ZF,	  flags & (CF | ZF),
		       flags & SF, flags & PF, sign_not_overflow, sign_not_overflow || flags & ZF};

	return even[condition / 2] != (condition & 1);
}

static void trace(uint64_t flags)
{
	TRACED_WITH(rig_all(),
		    "pushq %[flags]\n\tpopfq\n"
		    "conditional_short:\n\t"
		    ".irp c, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
		    ".byte 0x70 + \\c, 1\n\tnop\n\t.endr\n"
		    "conditional_near:\n\t"
		    ".irp c, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
		    ".byte 0x0f, 0x80 + \\c\n\t.long 1\n\tnop\n\t.endr\n\t",
		    , OPERANDS([flags] "r"(flags)));
}

/* The records from `slot` on of the 16 branches at `first`; returns the slot after them. */
static size_t expect(const struct rig *rig, size_t slot, const char *first, size_t size,
		     uint32_t flags)
{
	for (unsigned condition = 0; condition < 16; condition++, first += size)
		if (holds(condition, flags))
			rig_expect(rig, slot++, first, first + size);
	return slot;
}

TEST(bts_conditional_branches, .group = "K", .ids = "K1", .needs = NEED_BTS,
     .claim = "a conditional branch is recorded if it is taken, even over one byte, and else not",
     .source = "SDM Vol 3, 17.4.4: taken branches; SDM Vol 1, appendix B")
{
	RIG(rig, 64);
	for (unsigned choice = 0; choice < 32; choice++) {
		uint32_t flags = (choice & 1 ? CF : 0) | (choice & 2 ? PF : 0) |
				 (choice & 4 ? ZF : 0) | (choice & 8 ? SF : 0) |
				 (choice & 16 ? OF : 0);
		size_t slot;

		EXACTLY (&rig)
			trace(flags | 2);
		slot = expect(&rig, 0, conditional_short, SHORT_SIZE, flags);
		slot = expect(&rig, slot, conditional_near, NEAR_SIZE, flags);
		EXPECT_EQ(rig_count(&rig), slot);
	}
}

extern const char count_rcxz[], count_ecxz[], count_loop[], count_loope[], count_loopne[];
extern const char count_rcxz_to[], count_ecxz_to[], count_loop_to[], count_loope_to[],
	count_loopne_to[];

TEST(bts_count_branches, .group = "K", .ids = "K1", .needs = NEED_BTS,
     .claim = "JRCXZ, JECXZ, LOOP, LOOPE and LOOPNE are recorded if taken, and else not",
     .source = "SDM Vol 3, 17.4.4: taken branches; SDM Vol 2, Jcc and LOOP")
{
	RIG(rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(),
		       "movl $1, %%ecx\n\tjrcxz 1f\n\tjecxz 1f\n\tnop\n1:\t"
		       "xorl %%ecx, %%ecx\n"
		       "count_rcxz: jrcxz count_rcxz_to\n\tud2\n"
		       "count_rcxz_to: movabsq $0x100000000, %%rcx\n\tjrcxz 1f\n\tnop\n1:\n"
		       "count_ecxz: jecxz count_ecxz_to\n\tud2\n"
		       "count_ecxz_to: movl $1, %%ecx\n\tloop 1f\n\tnop\n1:\tmovl $2, %%ecx\n"
		       "count_loop: loop count_loop_to\n\tud2\n"
		       "count_loop_to: movl $5, %%ecx\n\ttestl %%ecx, %%ecx\n\tloope 1f\n\tnop\n"
		       "1:\tcmpl %%ecx, %%ecx\n"
		       "count_loope: loope count_loope_to\n\tud2\n"
		       "count_loope_to: movl $5, %%ecx\n\tcmpl %%ecx, %%ecx\n\tloopne 1f\n\tnop\n"
		       "1:\ttestl %%ecx, %%ecx\n"
		       "count_loopne: loopne count_loopne_to\n\tud2\n"
		       "count_loopne_to:\n\t");
	EXPECT_RECORDS(&rig, {count_rcxz, count_rcxz_to}, {count_ecxz, count_ecxz_to},
		       {count_loop, count_loop_to}, {count_loope, count_loope_to},
		       {count_loopne, count_loopne_to});
}

extern const char form_short[], form_near[], form_register[], form_memory[], form_next[],
	form_short_to[], form_near_to[], form_register_to[], form_memory_to[], form_next_to[];

TEST(bts_jump_forms, .group = "K", .ids = "K1", .needs = NEED_BTS,
     .claim =
	     "JMP is recorded in each form: rel8, rel32, register, memory, to the next instruction",
     .source = "SDM Vol 3, 17.4.4; SDM Vol 2, JMP")
{
	const char *target = form_memory_to;

	RIG(rig, 16);
	EXACTLY (&rig)
		TRACED_WITH(rig_all(),
			    "form_short: jmp form_short_to\n\tud2\n"
			    "form_short_to: nop\n"
			    "form_near: jmp form_near_to\n\t.fill 200, 1, 0xcc\n"
			    "form_near_to: leaq form_register_to(%%rip), %%rax\n"
			    "form_register: jmp *%%rax\n\tud2\n"
			    "form_register_to: nop\n"
			    "form_memory: jmp *(%[target])\n\tud2\n"
			    "form_memory_to: nop\n"
			    "form_next: .byte 0xeb, 0\n"
			    "form_next_to:\n\t",
			    , OPERANDS([target] "r"(&target)));
	EXPECT_RECORDS(&rig, {form_short, form_short_to}, {form_near, form_near_to},
		       {form_register, form_register_to}, {form_memory, form_memory_to},
		       {form_next, form_next_to});
}

extern const char call_near[], call_near_back[], call_register[], call_register_back[],
	call_memory[], call_memory_back[], call_next[], call_next_to[], call_function[], call_ret[],
	call_pop_function[], call_ret_pop[];

__asm__(".pushsection .text\n"
	"call_function: nop\n"
	"call_ret: ret\n"
	"call_pop_function: nop\n"
	"call_ret_pop: ret $16\n"
	".popsection");

TEST(bts_calls_and_returns, .group = "K", .ids = "K2", .needs = NEED_BTS,
     .claim = "CALL in each form, RET and RET n leave one record each; RET's from is the RET",
     .source = "SDM Vol 3, 17.4.4; SDM Vol 2, CALL and RET")
{
	const char *target = call_pop_function;
	uint64_t before = 0, after = 1;

	RIG(rig, 16);
	EXACTLY (&rig)
		TRACED_WITH(rig_all(),
			    "movq %%rsp, %[before]\n"
			    "call_near: call call_function\n"
			    "call_near_back: leaq call_function(%%rip), %%rax\n"
			    "call_register: call *%%rax\n"
			    "call_register_back: pushq $1\n\tpushq $2\n"
			    "call_memory: call *(%[target])\n"
			    "call_memory_back: nop\n"
			    "call_next: call call_next_to\n"
			    "call_next_to: popq %%rax\n\tmovq %%rsp, %[after]\n\t",
			    OPERANDS([before] "=&r"(before), [after] "=&r"(after)),
			    OPERANDS([target] "r"(&target)));
	EXPECT_EQ(after, before);
	EXPECT_RECORDS(&rig, {call_near, call_function}, {call_ret, call_near_back},
		       {call_register, call_function}, {call_ret, call_register_back},
		       {call_memory, call_pop_function}, {call_ret_pop, call_memory_back},
		       {call_next, call_next_to});
}

struct far_pointer {
	uint64_t offset;
	uint16_t selector;
} __attribute__((packed));

/* As bytes: of a 64-bit far pointer, GNU as and clang know different spellings. */
#define LJMP_RAX  ".byte 0x48, 0xff, 0x28"
#define LCALL_RAX ".byte 0x48, 0xff, 0x18"

extern const char far_jump[], far_jumped[], far_call[], far_callee[], far_callee_ret[],
	far_called[], far_return[], far_returned[];

TEST(bts_far_transfers, .group = "K", .ids = "K3", .needs = NEED_BTS,
     .claim =
	     "far JMP, CALL and RET within 64-bit mode leave one record each, from and to as written",
     .source = "SDM Vol 3, 17.4.4 and 17.4.9")
{
	struct far_pointer jump = {(uint64_t)far_jumped, 0}, call = {(uint64_t)far_callee, 0};

	__asm__("mov %%cs, %0" : "=r"(jump.selector));
	call.selector = jump.selector;
	RIG(rig, 16);
	EXACTLY (&rig)
		TRACED_WITH(rig_all(),
			    "leaq %[jump], %%rax\n"
			    "far_jump: " LJMP_RAX "\n\tnop\n"
			    "far_jumped: nop\n"
			    "leaq %[call], %%rax\n"
			    "far_call: " LCALL_RAX "\n"
			    "far_called: movl %%cs, %%eax\n\tpushq %%rax\n\t"
			    "leaq far_returned(%%rip), %%rax\n\tpushq %%rax\n"
			    "far_return: lretq\n"
			    "far_callee: nop\n"
			    "far_callee_ret: lretq\n"
			    "far_returned:\n\t",
			    , OPERANDS([jump] "m"(jump), [call] "m"(call)));
	EXPECT_RECORDS(&rig, {far_jump, far_jumped}, {far_call, far_callee},
		       {far_callee_ret, far_called}, {far_return, far_returned});
}

static struct code_branches branches;

/* False with a note if the records are not those of the branches. */
static bool holds_each(const struct rig *rig)
{
	for (size_t n = 0; n < branches.count; n++) {
		const struct code_branch *branch = &branches.branch[n];
		struct bts_struct record = rig_record(rig, n);

		if (record.from == branch->from && record.to == branch->to)
			continue;
		test_note("form %u, branch %zu: %lx -> %lx; the record: %lx -> %lx", branch->form,
			  n, branch->from, branch->to, record.from, record.to);
		return false;
	}
	return rig_count(rig) == branches.count;
}

/* Not while code is made: an interpreter is slow where each instruction is counted. */
static void count_by(uint64_t counters)
{
	if (counters)
		wrmsr(IA32_PERF_GLOBAL_CTRL, counters);
}

static void end_count(uint64_t counters)
{
	if (!counters)
		return;
	EXPECT_EQ(rdmsr(IA32_PERF_GLOBAL_CTRL), counters);
	wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
}

/* While `counters` count, up to the first batch of them that is wrong. */
static void expect_every_encoding(struct rig *rig, uint64_t counters)
{
	unsigned form = 0;
	bool right;

	do {
		form = code_branches_build(&branches, form, BRANCHES_MOST);
		EXACTLY (rig) {
			count_by(counters);
			code_branches_run(rig_all());
			end_count(counters);
		}
		right = holds_each(rig);
	} while (form && right);
	EXPECT(right);
}

TEST(bts_every_encoding, .group = "K", .ids = "K1 K2 K3 K6", .needs = NEED_BTS,
     .claim = "each encoding of a near or far branch leaves its record: each register, each form "
	      "of ModRM and SIB, each condition, forwards and backwards, with each prefix",
     .source = "SDM Vol 3, 17.4.4: taken branches; SDM Vol 2, JMP, CALL, Jcc, LOOP and RET")
{
	struct rig rig;

	code_branches_open(&branches);
	rig_open(&rig, BRANCHES_MOST + 2);
	expect_every_encoding(&rig, 0);
	rig_close(&rig);
	code_branches_close();
}

extern const char counted_ud[], counted_out[];

static void expect_fault(struct rig *rig)
{
	EXACTLY (rig) {
		own_idt_load();
		TRACED_WITH(rig_all(),
			    "leaq counted_out(%%rip), %%rbx\ncounted_ud: ud2\ncounted_out:\n\t", , ,
			    "rbx");
		own_idt_unload();
	}
	EXPECT_EQ(rig_count(rig), 2);
	rig_expect(rig, 0, counted_ud, own_handler_resume);
	rig_expect(rig, 1, own_handler_resume_iret, counted_out);
}

TEST(bts_beside_counters, .group = "B", .ids = "B4", .needs = NEED_BTS,
     .claim = "while every counter counts, each encoding of a branch and an exception leave their "
	      "records",
     .source = "SDM Vol 3, 17.4.4 and 18.2.2")
{
	COUNTERS(all, 0);
	struct rig rig;

	code_branches_open(&branches);
	own_idt_begin(VECTOR_UD, own_handler_resume, false);
	rig_open(&rig, BRANCHES_MOST + 2);
	EACH_COUNTER (n, all)
		pmu_rig_control(n, pmu_rig_counting(n, PMU_OS | PMU_USR, false));
	expect_every_encoding(&rig, all);
	count_by(all);
	expect_fault(&rig);
	end_count(all);
	rig_close(&rig);
	code_branches_close();
}

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

	RIG(rig, 16);
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
	EXPECT_RECORDS(&rig, {goes_first, goes_first_to}, {goes_cr3, goes_cr3_to},
		       {goes_invlpg, goes_invlpg_to}, {goes_cpuid, goes_cpuid_to},
		       {goes_rep, goes_rep_to}, {goes_rdmsr, goes_rdmsr_to});
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
	uint64_t cr0, cr4;

	__asm__ volatile("movq %%cr0, %0\n\tmovq %%cr4, %1" : "=r"(cr0), "=r"(cr4));
	RIG(rig, 16);
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
	EXPECT_RECORDS(&rig, {control_ts, control_ts_to}, {control_de, control_de_to},
		       {control_idt, control_idt_to});
}

/* The records that show that the bracket records. */
extern const char after_all[], after_all_to[], after_strings[], after_strings_to[];

TEST(bts_no_branch_no_record, .group = "K", .ids = "K11 K12", .needs = NEED_BTS,
     .claim = "what is not a branch leaves no record, and does its work: CPUID, MOV CR3, PAUSE and "
	      "others; CMOV that moves nothing clears the upper half",
     .source = "SDM Vol 3, 17.4.4: taken branch, interrupt, or exception; SDM Vol 2, CMOVcc")
{
	uint64_t word[2] = {41, 0};

	RIG(rig, 16);
	EXACTLY (&rig)
		TRACED_WITH(rig_all(),
			    "xorl %%eax, %%eax\n\tcpuid\n\t"
			    "movl $1, %%eax\n\tcpuid\n\t"
			    "movq %%cr3, %%rax\n\tmovq %%rax, %%cr3\n\t"
			    "movq %%cr0, %%rax\n\tmovq %%rax, %%cr0\n\t"
			    "invlpg (%[word])\n\tpause\n\tlfence\n\trdtsc\n\t"
			    "movl $0x10, %%ecx\n\trdmsr\n\t"
			    "inb $0x80, %%al\n\toutb %%al, $0x80\n\t"
			    "movq $-1, %%rcx\n\txorl %%eax, %%eax\n\t"
			    "cmovnzl %%edx, %%ecx\n\tsete %%al\n\tmovq %%rcx, 8(%[word])\n\t"
			    "lock addq $1, (%[word])\n\txchgq %%rax, (%[word])\n\t"
			    "enter $8, $1\n\tleave\n\t"
			    "pushfq\n\tpopfq\n\tmovl %%ss, %%eax\n\tmovl %%eax, %%ss\n\tnop\n\t"
			    "leaq (%%rsp), %%rax\n\tbswapq %%rax\n\tnop\n"
			    "after_all: jmp after_all_to\n\tud2\nafter_all_to:\n\t",
			    , OPERANDS([word] "r"(word)), "rbx");
	EXPECT_RECORDS(&rig, {after_all, after_all_to});
	EXPECT_EQ(word[0], 1);
	EXPECT_EQ(word[1], UINT32_MAX);
}

// REP MOVS returns to itself until RCX is 0, and an interrupt can come between two iterations: to
// an interpreter that looks like a branch. Passing means: it leaves no record, however many
// iterations, nor does one without any.

TEST(bts_string_instructions, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim = "the iterations of REP MOVS, STOS, CMPS and SCAS, and of SCAS backwards, leave no "
	      "records",
     .source = "SDM Vol 3, 17.4.4: taken branches; SDM Vol 2, REP")
{
	uint8_t *from = test_area(1), *to = test_area(1);
	uint64_t compared = 0, scanned = 0, backwards = 0;

	for (size_t i = 0; i < PAGE_SIZE; i++)
		from[i] = (uint8_t)(i * 5 + i / 256);
	RIG(rig, 16);
	EXACTLY (&rig) {
		const uint8_t *source = from;
		uint8_t *target = to;

		TRACED_WITH(rig_all(),
			    "movl $4096, %%ecx\n\trep movsb\n\t"
			    "subq $4096, %%rsi\n\tsubq $4096, %%rdi\n\t"
			    "movl $512, %%ecx\n\trepe cmpsq\n\tmovq %%rcx, %[compared]\n\t"
			    "subq $4096, %%rdi\n\tmovb 77(%%rdi), %%al\n\tmovl $4096, %%ecx\n\t"
			    "repne scasb\n\tmovq %%rcx, %[scanned]\n\t"
			    "movl $0x11223344, %%eax\n\tmovl $16, %%ecx\n\trep stosl\n\t"
			    "std\n\tmovl $16, %%ecx\n\trepne scasb\n\tcld\n\t"
			    "movq %%rcx, %[backwards]\n\txorl %%ecx, %%ecx\n\t"
			    "rep movsb\n\trepe cmpsq\n\trepne scasb\n\trep lodsb\n"
			    "after_strings: jmp after_strings_to\n\tud2\nafter_strings_to:\n\t",
			    OPERANDS([compared] "=&r"(compared), [scanned] "=&r"(scanned),
				     [backwards] "=&r"(backwards), "+&S"(source), "+&D"(target)), );
	}
	EXPECT_RECORDS(&rig, {after_strings, after_strings_to});
	EXPECT_EQ(compared, 0);
	EXPECT_EQ(scanned, PAGE_SIZE - 78);
	EXPECT_EQ(backwards, 16 - 5); /* 4 bytes of EAX after one that is another */
	EXPECT(!memcmp(&to[78], "\x44\x33\x22\x11", 4));
	EXPECT_EQ(to[PAGE_SIZE - 1], from[PAGE_SIZE - 1]);
}
