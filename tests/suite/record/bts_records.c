// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/framework/pages.h"
#include "tests/lib/chain.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pebs_rig.h"
#include "tests/lib/random_programs/machine.h"
#include "tests/lib/rig.h"

extern const char jump_from[], jump_to[];

TEST(bts_jump_addresses, .group = "R", .ids = "R1", .needs = NEED_BTS,
     .claim = "the record of a jump holds the address of the jump and that of its target",
     .source = "SDM Vol 3, 17.4.9 and figure 17-9")
{
	RIG(rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(), "jump_from: jmp jump_to\n\tud2\njump_to:\n\t");
	EXPECT_RECORDS(&rig, {jump_from, jump_to});
}

extern const char order_a[], order_b[], order_c[], order_to_a[], order_to_b[], order_to_c[];

/* Forward, backward and forward again, so that address order is not program order. */
TEST(bts_program_order, .group = "R", .ids = "R2", .needs = NEED_BTS,
     .claim = "records stand in program order, oldest at the base",
     .source = "SDM Vol 3, 17.4.9: BTS index")
{
	RIG(rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(), "order_a: jmp order_to_a\n"
				  "order_to_b: nop\n"
				  "order_c: jmp order_to_c\n\tud2\n"
				  "order_to_a: nop\n"
				  "order_b: jmp order_to_b\n\tud2\n"
				  "order_to_c:\n\t");
	EXPECT_RECORDS(&rig, {order_a, order_to_a}, {order_b, order_to_b}, {order_c, order_to_c});
}

extern const char iteration_top[], iteration_jump[];

TEST(bts_loop_every_iteration, .group = "R", .ids = "R3", .needs = NEED_BTS,
     .claim = "a loop of 1000 rounds leaves 999 equal records, none for the branch not taken",
     .source = "SDM Vol 3, 17.4.4: each taken branch")
{
	RIG(rig, 1024);
	EXACTLY (&rig)
		TRACED(rig_all(), "movl $1000, %%ecx\n"
				  "iteration_top: decl %%ecx\n"
				  "iteration_jump: jnz iteration_top\n\t");
	EXPECT_EQ(rig_count(&rig), 999);
	for (size_t slot = 0; slot < 999; slot++)
		rig_expect(&rig, slot, iteration_jump, iteration_top);
	EXPECT_EQ(rig_record(&rig, 999).from, 0);
}

#define BRANCHES 6

/* The flags of the records, stored over `filling`. */
static void trace(struct rig *rig, uint8_t filling, uint64_t flags[BRANCHES])
{
	EXACTLY (rig) {
		memset((void *)rig->base, filling, 2 * BRANCHES * rig->record);
		chain_trace(rig, rig_all(), &chain_a, BRANCHES);
	}
	EXPECT_EQ(rig_count(rig), BRANCHES);
	chain_expect(rig, 0, BRANCHES, &chain_a, BRANCHES, 0);
	for (size_t slot = 0; slot < BRANCHES; slot++)
		flags[slot] = rig_record(rig, slot).flags;
	for (const uint8_t *at = (uint8_t *)rig->base + BRANCHES * rig->record;
	     at < (uint8_t *)rig->base + 2 * BRANCHES * rig->record; at++)
		EXPECT_EQ(*at, filling);
}

/* True if a part of the flags, of so many ones, is among these bits, from whichever byte on. */
static bool remains(uint64_t bits, uint64_t part)
{
	for (; bits; bits >>= 8)
		if ((bits & part) == part)
			return true;
	return false;
}

/* The slot's former bytes must not remain. The predicted flag may differ between two runs, and so
   may the bits that are reserved: no two bytes of one record, nor one byte of all of them. */
TEST(bts_record_is_whole, .group = "R", .ids = "R1 L4", .needs = NEED_BTS,
     .claim = "a record overwrites all of its slot, in two pages too, and no byte of the next",
     .source = "SDM Vol 3, 17.4.9.1 and figure 17-9")
{
	uint64_t first[BRANCHES], second[BRANCHES];

	/* In one page; or one of them with its last 8 or 16 bytes in the next, which is not
	   adjacent in physical memory. */
	for (size_t before = 0; before <= 16; before += 8) {
		struct rig rig CLOSED_BY(rig_close);
		uint64_t all = UINT64_MAX;

		rig_open_at(&rig, 2 * BRANCHES, before ? PAGE_SIZE - 24 - before : 0);
		if (before)
			page_part(rig.pages);
		trace(&rig, 0xff, first);
		trace(&rig, 0x00, second);
		for (size_t i = 0; i < BRANCHES; i++) {
			first[i] &= ~second[i];
			EXPECT(!remains(first[i], 0xffff));
			all &= first[i];
		}
		EXPECT(!remains(all, 0xff));
	}
}

extern const char high_call[], high_back[];

/* A jump whose last byte is the page's last, over the boundary to a RET in the next. */
#define JUMP_AT (PAGE_SIZE - 5) /* in the first page */
#define RET_AT	4u		/* in the second */

static const uint8_t jump[] = {0xe9, RET_AT, 0, 0, 0};

/* `linear`: where the second page begins. */
static void check(struct rig *rig, uint8_t *pages, uint64_t linear)
{
	uint64_t from = linear - PAGE_SIZE + JUMP_AT, to = linear + RET_AT;

	code_map(linear - PAGE_SIZE, pages, VM_READ);
	code_map(linear, pages + PAGE_SIZE, VM_READ);
	EXACTLY (rig)
		TRACED_WITH(rig_all(), "high_call: call *%[from]\nhigh_back:\n\t", ,
			    OPERANDS([from] "r"(from)));
	code_unmap(linear);
	code_unmap(linear - PAGE_SIZE);
	EXPECT_EQ(rig_count(rig), 3);
	rig_expect(rig, 0, high_call, (void *)from);
	rig_expect(rig, 1, (void *)from, (void *)to);
	rig_expect(rig, 2, (void *)to, high_back);
}

TEST(bts_high_addresses, .group = "R", .ids = "R5", .needs = NEED_BTS,
     .claim = "from and to are whole 64-bit linear addresses, in either half and over any boundary",
     .source = "SDM Vol 3, 17.4.4, 17.4.9.1 and figure 17-9")
{
	static const uint64_t at[] = {0x0000000000201000, 0x0000000080000000, 0x0000000100000000,
				      0x00005a5aa5a50000, 0x00007fffffffe000, 0xffff900000000000,
				      0xffffc7ff00000000, 0xfffffffe00000000, 0xffffffffffe00000};
	uint8_t *pages = test_area(2);

	memset(pages, 0xcc, 2 * PAGE_SIZE);
	memcpy(pages + JUMP_AT, jump, sizeof(jump));
	pages[PAGE_SIZE + RET_AT] = 0xc3;
	RIG(rig, 16);
	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		check(&rig, pages, at[i]);
}

#define OFFSETS_AT 0x0000000040300000ul
#define OFFSETS	   2048 /* jumps of two bytes in a page */

extern const char offset_call[], offset_back[];

/* Jumps over nothing, or each to the one before it; RET at both ends. `odd`: 0 or 1. */
static void fill_jumps(uint8_t *pages, unsigned odd, bool back)
{
	uint8_t *first = pages + odd + 2;

	memset(pages, 0xc3, 2 * PAGE_SIZE);
	for (size_t n = 0; n < OFFSETS; n++) {
		first[2 * n] = 0xeb;
		first[2 * n + 1] = back ? 0xfc : 0;
	}
}

static bool expect_jumps(const struct rig *rig, unsigned odd, bool back)
{
	uint64_t first = OFFSETS_AT + odd + 2;

	EXPECT_EQ(rig_count(rig), OFFSETS + 2);
	for (size_t n = 0; n < OFFSETS; n++) {
		struct bts_struct record = rig_record(rig, n + 1);
		uint64_t from = first + 2 * (back ? OFFSETS - 1 - n : n);

		if (record.from == from && record.to == (back ? from - 2 : from + 2))
			continue;
		test_note("from %lx: %lx -> %lx", from, record.from, record.to);
		return false;
	}
	return true;
}

TEST(bts_every_offset, .group = "R", .ids = "L1 R1 R2 R3", .needs = NEED_BTS,
     .claim = "jumps at every offset of a page, to the next instruction and to the one before, "
	      "have their records in order, none missing",
     .source = "SDM Vol 3, 17.4.4, 17.4.9 and figure 17-9")
{
	uint8_t *pages = test_area(2);
	struct rig rig;

	code_map(OFFSETS_AT, pages, VM_READ);
	code_map(OFFSETS_AT + PAGE_SIZE, pages + PAGE_SIZE, VM_READ);
	rig_open(&rig, OFFSETS + 4);
	for (unsigned way = 0; way < 4; way++) {
		unsigned odd = way & 1, back = way >> 1;
		uint64_t entry = OFFSETS_AT + odd + (back ? 2 * OFFSETS : 2);

		fill_jumps(pages, odd, back);
		EXACTLY (&rig)
			TRACED_WITH(rig_all(), "offset_call: call *%[entry]\noffset_back:\n\t", ,
				    OPERANDS([entry] "r"(entry)));
		rig_expect(&rig, 0, offset_call, (void *)entry);
		EXPECT(expect_jumps(&rig, odd, back));
	}
	rig_close(&rig);
	code_unmap(OFFSETS_AT + PAGE_SIZE);
	code_unmap(OFFSETS_AT);
}

#define VECTOR_OF 4
#define VECTOR_BR 5
#define AT	  0x0000000040100000ul /* below 4 GiB, where no half of an address is 0 by chance */
#define STACK	  (AT + PAGE_SIZE)
#define LOOPS	  3

extern const uint8_t compat_start[], compat_in[], compat_32[], compat_again[], compat_call[],
	compat_callee[], compat_callee_ret[], compat_called[], compat_into[], compat_bound[],
	compat_overflow[], compat_overflow_iret[], compat_limit[], compat_after[], compat_narrow[],
	compat_short[], compat_jnz[], compat_more[], compat_out[], compat_back[], compat_ret[],
	compat_jcxz[], compat_jcxz_to[], compat_far[], compat_far_to[], compat_far_back[],
	compat_loop[], compat_jump[], compat_iret[], compat_iret_to[], compat_last[], compat_end[];

/*
 * Enters the 32-bit code segment RDX at ESI by a far return, counts EAX up there with a loop and a
 * near call on a 32-bit stack, whose RET pops, after a far one, and returns by a far jump. RDMSR
 * has a prefix before that. LOOP by CX ends though ECX is not 1, and keeps its upper half; JCXZ
 * jumps though it is not 0. INTO traps nothing, then #OF, whose handler adds to EAX where it
 * returns to. Then BOUND raises #BR, and a byte beyond the limit of DS #GP. A JMP and a JNZ of 16
 * bits lead to below 64 KiB, where no page is. All other handlers go on at EBX. RSP and DS are kept
 * in R8 and R9, which compatibility mode cannot reach. EAX has ID as well, which IRETD has set, and
 * DTES64.
 */
__asm__(".pushsection .rodata\n"
	"compat_start: movq %rsp, %r8\n\tmovl %ds, %r9d\n\tmovl $0x40102000, %esp\n\t"
	"pushq %rdx\n\tpushq %rsi\n"
	"compat_in: lretq\n\t.code32\n"
	"compat_32: movw $0x88, %cx\n\tmovw %cx, %ss\n\t"
	"movl $0x1d9, %ecx\n\t.byte 0x2e\n\trdmsr\n\t"
	"movl $0x10001, %ecx\n\t.byte 0x67, 0xe2, 0\n"
	"compat_jcxz: .byte 0x67, 0xe3, 2\n\tud2\n"
	"compat_jcxz_to: shrl $16, %ecx\n\taddl $2, %ecx\n\txorl %eax, %eax\n"
	"compat_jump: jmp compat_loop\n\tnop\n"
	"compat_loop: incl %eax\n\tdecl %ecx\n"
	"compat_again: jnz compat_loop\n"
	"compat_far: lcall $0x80, $0x40100000+compat_far_to-compat_start\n"
	"compat_far_back: pushl %eax\n"
	"compat_call: call compat_callee\n"
	"compat_called: into\n\tmovb $0x7f, %dl\n\tincb %dl\n"
	"compat_into: into\n"
	"compat_bound: bound %eax, %ss:0x40101000\n"
	"compat_more: addl $compat_after-compat_more, %ebx\n\tmovl $0x98, %edx\n\tmovl %edx, %ds\n"
	"compat_limit: movb 0x40101000, %dl\n"
	"compat_after: addl $compat_short-compat_after, %ebx\n"
	"compat_narrow: .byte 0x66, 0xe9\n\t.word compat_out-compat_short\n"
	"compat_short: addl $compat_out-compat_short, %ebx\n"
	"compat_jnz: .byte 0x66, 0x75, 0\n"
	"compat_out: pushfl\n\torl $0x200000, (%esp)\n\tpushl $0x80\n\t"
	"pushl $0x40100000+compat_iret_to-compat_start\n"
	"compat_iret: iretl\n"
	"compat_iret_to: pushfl\n\tpushl %eax\n\tmovl $1, %eax\n\tcpuid\n\tpopl %eax\n\t"
	"andl $4, %ecx\n\tpopl %edx\n\tandl $0x200000, %edx\n\taddl %edx, %eax\n\t"
	"addl %ecx, %eax\n"
	"compat_last: ljmpl $0x8, $0x40100000+compat_back-compat_start\n"
	"compat_far_to: lret\n"
	"compat_callee: addl $0x100, %eax\n"
	"compat_callee_ret: ret $4\n\t.code64\n"
	"compat_back: movq %r8, %rsp\n\tmovl $0x10, %ecx\n\tmovl %ecx, %ss\n\t"
	"movl %r9d, %ds\n"
	"compat_ret: ret\n"
	"compat_end: .popsection\n"
	".pushsection .text\n"
	"compat_overflow: addl (%rsp), %eax\n\tandl $~0x800, 16(%rsp)\n"
	"compat_overflow_iret: iretq\n"
	".popsection");

static const void *at(const uint8_t *label)
{
	return (const void *)(AT + (uint64_t)(label - compat_start));
}

#define FLAG_ID (1u << 21)

/* EAX of a run. */
static uint64_t sum(bool based)
{
	uint64_t behind_into = (uint64_t)at(compat_bound) - (based ? OWN_BASE : 0);

	return LOOPS + 0x100 + behind_into + FLAG_ID + (cpuid(1, 0).ecx & CPUID_1_ECX_DTES64);
}

static uint64_t counters; /* IA32_PERF_GLOBAL_CTRL meanwhile; 0: as it is */

static uint64_t run_compatible(uint64_t debugctl, bool based)
{
	static struct machine machine;
	uint64_t base = based ? OWN_BASE : 0;

	machine_randomize(&machine, &(uint64_t){1});
	machine.registers[RDX] = based ? OWN_CODE_32_BASED : OWN_CODE_32;
	machine.registers[RSI] = (uint64_t)at(compat_32) - base;
	machine.registers[RBX] = (uint64_t)at(compat_more) - base;
	own_gdt_load();
	own_idt_load();
	if (counters)
		wrmsr(IA32_PERF_GLOBAL_CTRL, counters);
	machine_run(&machine, (void *)AT, debugctl);
	if (counters)
		wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
	own_idt_unload();
	own_gdt_unload();
	return machine.registers[RAX];
}

static void map(void)
{
	uint8_t *page = test_area(2);

	memcpy(page, compat_start, (size_t)(compat_end - compat_start));
	code_map(AT, page, 0);
	if (!vm_map(STACK, *vm_entry((uint64_t)page + PAGE_SIZE) & PTE_ADDRESS, VM_WRITE))
		test_error("no memory for page tables");
	own_idt_begin(VECTOR_BR, own_handler_resume, false);
	own_idt_set(VECTOR_OF, compat_overflow, false);
	own_idt_set(VECTOR_GP, own_handler_resume_error, false);
	own_idt_set(VECTOR_PF, own_handler_resume_error, false);
}

/* The branches of a run: places of the page, the kernel's, or NULL for where those of 16 bits
   lead. How INTO is recorded is the processor's, if it is. */
enum { OVERFLOW = 10 };
static const void *const compatible[][2] = {
	{machine_call, compat_start},
	{compat_in, compat_32},
	{compat_jcxz, compat_jcxz_to},
	{compat_jump, compat_loop},
	{compat_again, compat_loop},
	{compat_again, compat_loop},
	{compat_far, compat_far_to},
	{compat_far_to, compat_far_back},
	{compat_call, compat_callee},
	{compat_callee_ret, compat_called},
	[OVERFLOW] = {compat_into, compat_overflow},
	{compat_overflow_iret, compat_bound},
	{compat_bound, own_handler_resume},
	{own_handler_resume_iret, compat_more},
	{compat_limit, own_handler_resume_error},
	{own_handler_resume_error_iret, compat_after},
	{compat_narrow, NULL},
	{NULL, own_handler_resume_error},
	{own_handler_resume_error_iret, compat_short},
	{compat_jnz, NULL},
	{NULL, own_handler_resume_error},
	{own_handler_resume_error_iret, compat_out},
	{compat_iret, compat_iret_to},
	{compat_last, compat_back},
	{compat_ret, machine_back},
};
enum { COMPATIBLE = sizeof(compatible) / sizeof(compatible[0]) };
_Static_assert(LOOPS == 3, "the loop is in it");

static const void *end_of(const void *end, const uint8_t *narrow)
{
	const uint8_t *label = end;

	if (!label)
		return narrow;
	return label >= compat_start && label < compat_end ? at(label) : label;
}

static void check_compatible(struct rig *rig, bool based)
{
	const uint8_t *narrow = (uint8_t *)at(compat_out) - AT + (uint32_t)(based ? OWN_BASE : 0);

	size_t slot = 0;

	EXACTLY (rig)
		EXPECT_EQ(run_compatible(rig_all(), based), sum(based));
	for (size_t n = 0; n < COMPATIBLE; n++)
		if (n != OVERFLOW)
			rig_expect(rig, slot++, end_of(compatible[n][0], narrow),
				   end_of(compatible[n][1], narrow));
		else if (rig_record(rig, slot).to == (uint64_t)compat_overflow)
			slot++;
	EXPECT_EQ(rig_count(rig), slot);
	rig_reset(rig);
	if (ds_caps()->filters)
		run_compatible(rig_all() | ds_configuration->off_os, based);
	EXPECT(!rig_count(rig));
}

TEST(bts_compatibility_mode, .group = "R", .ids = "R1 R6 E1 E5 K1 K2 K3 K5 K11 K12 P1",
     .needs = NEED_BTS,
     .claim =
	     "32-bit code in compatibility mode is recorded, by linear addresses with upper halves of 0",
     .source = "SDM Vol 3, 17.4.8.1 and 17.4.9.1")
{
	map();
	RIG(rig, 32);
	machine_open();
	EXPECT_EQ(run_compatible(0, true), sum(true));
	check_compatible(&rig, false);
	check_compatible(&rig, true);
	machine_close();
	code_unmap(STACK);
	code_unmap(AT);
}

TEST(pebs_compatibility_mode, .group = "PE", .ids = "PE18", .needs = NEED_PEBS,
     .claim = "32-bit code in compatibility mode is sampled with records of the layout that "
	      "64-bit code has",
     .source = "SDM Vol 3, 18.8.1.1 and 17.4.9.1")
{
	size_t within = 0;
	uint64_t flags, skid;

	map();
	PEBS(pebs, 28);
	skid = pebs_skid(&pebs);
	machine_open();
	pebs_arm(&pebs, 0, pebs.branches ? 1 : 4 - (skid < 3 ? skid : 3));
	counters = 1;
	flags = interrupts_save(); /* a handler's branches would fill the buffer */
	/* Between two samples with a skid there are nearly as many events as in a run. */
	for (unsigned run = 0; run < 3; run++)
		EXPECT_EQ(run_compatible(0, false), sum(false));
	interrupts_restore(flags);
	counters = 0;
	machine_close();
	code_unmap(STACK);
	code_unmap(AT);
	for (size_t slot = 0; slot < pebs_count(&pebs); slot++) {
		struct pebs_sample sample = pebs_sample(&pebs, slot);
		uint64_t ip = pebs_place(&sample);

		if (ip < (uint64_t)at(compat_jump) || ip >= (uint64_t)at(compat_out))
			continue;
		within++;
		EXPECT_EQ(sample.registers[RSP] >> 32, 0);
		EXPECT((uint32_t)sample.registers[RCX] <= LOOPS);
	}
	test_observe("samples", "%zu in 32-bit code", within);
	EXPECT(within >= 2);
}

#define ROUNDS	  1000
#define PREDICTED (1ull << 4)

extern const char predicted_top[], predicted_branch[], predicted_taken[], predicted_loop[];

/*
 * One branch a round goes where bit 0 of a byte of `choices` says; the loop's own branch follows
 * it. Returns how many records of the first branch have the flag set; `taken`: how many
 * there are; `others`: all further flags that were seen.
 */
static size_t run_choices(struct rig *rig, const uint8_t *choices, size_t *taken, uint64_t *others)
{
	size_t set = 0, expected = ROUNDS - 1;

	for (size_t i = 0; i < ROUNDS; i++)
		expected += choices[i] & 1;
	EXACTLY (rig)
		TRACED_WITH(rig_all(),
			    "xorl %%ecx, %%ecx\n"
			    "predicted_top: testb $1, (%[choices], %%rcx)\n"
			    "predicted_branch: jnz predicted_taken\n\tnop\n"
			    "predicted_taken: incl %%ecx\n\tcmpl %[rounds], %%ecx\n"
			    "predicted_loop: jb predicted_top\n\t",
			    , OPERANDS([choices] "r"(choices), [rounds] "i"(ROUNDS)));
	EXPECT_EQ(rig_count(rig), expected);
	*taken = 0;
	for (size_t slot = 0; slot < rig_count(rig); slot++) {
		struct bts_struct record = rig_record(rig, slot);

		*others |= record.flags & ~PREDICTED;
		if (record.from != (uint64_t)predicted_branch)
			continue;
		++*taken;
		set += (record.flags & PREDICTED) != 0;
	}
	EXPECT_EQ(*taken, expected - (ROUNDS - 1));
	return set;
}

/* Only NetBurst supports the flag; what others leave in it is worth comparing, no more. */
TEST(bts_predicted_flag, .group = "R", .ids = "R4", .needs = NEED_BTS,
     .claim = "NetBurst: the flag is set for predictable branches and mixed for random ones",
     .source = "SDM Vol 3, 17.4.9.1: branch predicted, which Core and Atom do not support")
{
	uint8_t *choices = test_area(1);
	size_t taken, predictable, set;
	uint64_t others = 0;

	RIG(rig, 2 * ROUNDS + 2);
	for (size_t i = 0; i < ROUNDS; i++)
		choices[i] = 1;
	predictable = run_choices(&rig, choices, &taken, &others);
	test_observe("predictable", "%zu_of_%zu", predictable, taken);
	for (size_t i = 0; i < ROUNDS; i++)
		choices[i] = (uint8_t)(test_random() >> 32);
	set = run_choices(&rig, choices, &taken, &others);
	test_observe("random", "%zu_of_%zu", set, taken);
	test_observe("other_flags", "%lx", others);
	if (ds_configuration->predicted) {
		EXPECT(predictable > ROUNDS * 9 / 10);
		EXPECT(set > 0 && set < taken);
	}
}
