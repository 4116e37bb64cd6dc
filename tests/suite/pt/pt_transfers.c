// SPDX-License-Identifier: MIT
// Interrupts and exceptions, privilege levels, address spaces, sizes of code; PSB within a CALL.
#include "drivers/apic/lapic.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/user.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmi.h"
#include "tests/lib/pt_rig.h"

#define SOFTWARE_VECTOR	 0x60
#define BELOW_VECTOR	 (VECTOR_TEST - 1) /* the kernel's own interrupts */
#define HIGHEST_PRIORITY 0xf0		   /* of tasks: all fixed interrupts wait */

/* An event and the IRETQ of its handler; INT n may have one more FUP, of the next instruction
   (table 36-50, case 12e). */
#define EXPECT_EVENT(rig, body, at, handler, back)                                                 \
	do {                                                                                       \
		PT_TRACED(rig, PT_PLAIN | RTIT_CTL_USER, body);                                    \
		PT_EXPECT_BODY(rig,                                                                \
			       {.seen = SEEN_EVENT,                                                \
				.from = (rig)->first + (at),                                       \
				.to = (uint64_t)(handler),                                         \
				.next = (rig)->first + (back)},                                    \
			       {.seen = SEEN_TARGET, .to = (rig)->first + (back)});                \
		pt_again(rig, PT_PLAIN | RTIT_CTL_USER);                                           \
	} while (0)

enum { IRETQ_BYTES = 2 };

TEST(pt_event_packets, .group = "PT", .ids = "PT26", .needs = NEED_PT,
     .claim = "INT n, exceptions and interrupts emit where they come from and their handler, and "
	      "IRET where it goes",
     .source = "SDM Vol 3, 36.4.2")
{
	struct pt_rig rig;

	pt_open(&rig, 1, false);
	own_idt_copy();
	own_idt_set(SOFTWARE_VECTOR, own_handler_return, false);
	own_idt_set(VECTOR_BP, own_handler_return, false);
	own_idt_set(VECTOR_UD, own_handler_resume, false);
	own_idt_set(VECTOR_PF, own_handler_resume_error, false);
	own_idt_set(VECTOR_TEST, own_handler_return, false);
	own_idt_load();
	pt_again(&rig, PT_PLAIN | RTIT_CTL_USER);
	pt_add_branch(&rig, FLOW_FAR, own_handler_return, IRETQ_BYTES);
	pt_add_branch(&rig, FLOW_FAR, own_handler_resume_iret, IRETQ_BYTES);
	pt_add_branch(&rig, FLOW_FAR, own_handler_resume_error_iret, IRETQ_BYTES);
	EXPECT_EVENT(&rig, "int $0x60", 0, own_handler_return, 2);
	EXPECT_EVENT(&rig, "int3", 0, own_handler_return, 1);
	EXPECT_EVENT(&rig, "leaq 1f(%%rip), %%rbx\n\tud2\n1:", 7, own_handler_resume, 9);
	EXPECT_EVENT(&rig,
		     "leaq 1f(%%rip), %%rbx\n\txorl %%eax, %%eax\n\tmovb (%%rax), %%al\n1:", 9,
		     own_handler_resume_error, 11);
	lapic_set_task_priority(BELOW_VECTOR);
	lapic_self_ipi(VECTOR_TEST);
	pmi_settle();
	EXPECT(lapic_requested());
	EXPECT_EVENT(&rig, "sti\n\tnop\n\tcli", 2, own_handler_return, 2);
	lapic_eoi();
	lapic_set_task_priority(0);
	own_idt_unload();
	pt_close(&rig);
}

/* Two places of code that are not within 64 KiB: JMP to the other; UD2, and its handler. */
const uint8_t *pt_jump, *pt_fault;

TEST(pt_event_far, .group = "PT", .ids = "PT20 PT26", .needs = NEED_PT,
     .claim = "a fault far from the last address has its own, and that of its handler beside it",
     .source = "SDM Vol 3, 36.4.2")
{
	static const uint8_t fault[] = {0x0f, 0x0b}; /* UD2 */
	static const uint8_t resume[] = {0x48, 0x89, 0x1c, 0x24, 0x48, 0xcf};
	enum { PAGES = 17, HANDLER = 16 };
	uint8_t *code = test_area(PAGES);
	uint8_t jump[5] = {0xe9};
	struct pt_rig rig;

	pt_jump = code;
	pt_fault = code + (PAGES - 1) * PT_RIG_BYTES;
	memcpy(jump + 1, &(uint32_t){(PAGES - 1) * PT_RIG_BYTES - sizeof(jump)}, 4);
	memcpy(code, jump, sizeof(jump));
	memcpy((uint8_t *)pt_fault, fault, sizeof(fault));
	memcpy((uint8_t *)pt_fault + HANDLER, resume, sizeof(resume));
	code_seal(code, PAGES);
	pt_open(&rig, 1, false);
	own_idt_copy();
	own_idt_set(VECTOR_UD, pt_fault + HANDLER, false);
	own_idt_load();
	pt_add_branch(&rig, FLOW_JMP, pt_jump, sizeof(jump));
	rig.blocks[0].target = (uint64_t)pt_fault;
	pt_add_branch(&rig, FLOW_FAR, pt_fault + HANDLER + 4, IRETQ_BYTES);
	PT_TRACED(&rig, PT_PLAIN,
		  "leaq 771f(%%rip), %%rbx\n\tmovq pt_jump(%%rip), %%rax\n\t" PT_JMP_TO(
			  "%%rax") "771:");
	own_idt_unload();
	PT_EXPECT_BODY(&rig, {.seen = SEEN_TARGET, .to = (uint64_t)pt_jump},
		       {.seen = SEEN_EVENT,
			.from = (uint64_t)pt_fault,
			.to = (uint64_t)pt_fault + HANDLER},
		       {.seen = SEEN_TARGET, .to = pt_body_end(&rig)});
	pt_close(&rig);
	code_unseal(code, PAGES);
}

#define USER_AT	  0x00005a0000001000ul
#define USER_BACK (USER_AT + 6) /* where SYSRET leads */

/* JMP; UD2; SYSCALL; the same again */
static const uint8_t user_code[] = {0xeb, 0x02, 0x0f, 0x0b, 0x0f, 0x05,
				    0xeb, 0x02, 0x0f, 0x0b, 0x0f, 0x05};

/* Two visits to ring 3: IRETQ to SYSCALL and SYSRET to SYSCALL, which no interrupt disturbs. */
static void visit(struct pt_rig *rig, uint64_t control)
{
	struct trap_frame frame = {.rip = USER_AT};
	uint8_t *page = test_area(1);

	memcpy(page, user_code, sizeof(user_code));
	code_map(USER_AT, page, VM_USER);
	pt_open(rig, 4, false);
	pt_again(rig, control);
	lapic_set_task_priority(HIGHEST_PRIORITY);
	wrmsr(IA32_RTIT_CTL, pt_on(control));
	user_run(&frame);
	user_run(&frame);
	pt_stop(&rig->trace);
	lapic_set_task_priority(0);
	pt_close(rig);
	code_unmap(USER_AT);
	EXPECT_EQ(frame.vector, VECTOR_SYSCALL);
	EXPECT_EQ(frame.rip, USER_AT + sizeof(user_code));
	EXPECT(!pt_state(&rig->trace).stopped && !pt_state(&rig->trace).table_error);
}

TEST(pt_user_only, .group = "PT", .ids = "PT27", .needs = NEED_PT,
     .claim = "without OS the trace ends at SYSCALL and begins after SYSRET, and no address of the "
	      "kernel is in it",
     .source = "SDM Vol 3, 36.2.4")
{
	uint64_t begins[2] = {0};
	struct pt_walk walk = {0};
	unsigned begun = 0, ended = 0, others = 0;
	struct pt_rig rig;

	visit(&rig, RTIT_CTL_USER | RTIT_CTL_BRANCH_EN);
	while (pt_next(&rig, &walk)) {
		EXPECT(!(walk.with_ip && walk.ip >> 47));
		if (walk.packet == PT_PGE && begun < 2)
			begins[begun++] = walk.ip;
		else if (walk.packet == PT_PGD && !walk.with_ip && ended < begun)
			ended++;
		else
			others += walk.packet || walk.bits;
	}
	EXPECT_EQ(begun, 2);
	EXPECT_EQ(ended, 2);
	EXPECT_EQ(others, 0);
	EXPECT_EQ(begins[0], USER_AT);
	EXPECT_EQ(begins[1], USER_BACK);
}

TEST(pt_kernel_only, .group = "PT", .ids = "PT28", .needs = NEED_PT,
     .claim = "without User the trace ends at IRET and SYSRET and begins at the kernel's entry, "
	      "and no address of ring 3 is in it",
     .source = "SDM Vol 3, 36.2.4")
{
	struct pt_walk walk = {0};
	unsigned begun = 0, ended = 0, entries = 0;
	struct pt_rig rig;

	visit(&rig, PT_PLAIN);
	while (pt_next(&rig, &walk)) {
		EXPECT(!(walk.with_ip && !(walk.ip >> 47)));
		begun += walk.packet == PT_PGE;
		entries += walk.packet == PT_PGE && walk.ip == (uint64_t)syscall_entry;
		if (walk.packet == PT_PGD)
			EXPECT(!walk.with_ip);
		ended += walk.packet == PT_PGD;
	}
	EXPECT_EQ(begun, 3); /* the first by WRMSR */
	EXPECT_EQ(entries, 2);
	EXPECT_EQ(ended, 3);
}

/* CR3 of the same address space by another PML4 table; its own; its own with PWT. */
uint64_t pt_cr3_other, pt_cr3_own, pt_cr3_flags;

#define LOAD_CR3(name) "movq pt_cr3_" #name "(%%rip), %%rax\n\tmovq %%rax, %%cr3\n\t"
#define THREE_BITS     "movl $3, %%ecx\n1:\tloop 1b\n\t"
#define PWT	       8

TEST(pt_cr3_filter, .group = "PT", .ids = "PT29", .needs = NEED_PT,
     .claim = "with CR3Filter the trace ends and begins with MOV to CR3; bits 11:0 do not count",
     .source = "SDM Vol 3, 36.2.4")
{
	const uint64_t control = PT_PLAIN | RTIT_CTL_CR3_FILTER;
	uint8_t *other = test_area(1);
	struct pt_walk walk = {0};
	unsigned ended = 0, bits = 0, changes = 0, begun = 0;
	struct pt_rig rig;

	if (!pt_caps()->cr3_filter)
		test_skip("the processor has no CR3 filter (CPUID.14H:EBX[0])");
	__asm__ volatile("movq %%cr3, %0" : "=r"(pt_cr3_own));
	pt_open(&rig, 1, false);
	memcpy(other, direct(pt_cr3_own & PTE_ADDRESS), PT_RIG_BYTES);
	pt_cr3_other = pt_physical(other);
	pt_cr3_flags = pt_cr3_own ^ PWT;
	rig.trace.configuration.cr3_match = pt_cr3_own;
	pt_again(&rig, control);
	PT_TRACED(&rig, control,
		  THREE_BITS LOAD_CR3(other) THREE_BITS LOAD_CR3(own) THREE_BITS LOAD_CR3(flags)
			  THREE_BITS LOAD_CR3(own));
	while (pt_next(&rig, &walk)) {
		bool changed = walk.byte[0] == 0x02 && walk.byte[1] == 0x43;

		if (walk.packet == PT_PGD && !ended++)
			EXPECT(!walk.with_ip && bits == 3);
		bits += walk.bits;
		changes += changed && ended;
		if (changed)
			EXPECT(!memcmp(walk.byte + 2, &(uint64_t){pt_cr3_own >> 12 << 8}, 6));
		begun += walk.packet == PT_PGE;
	}
	EXPECT_EQ(ended, 2);
	EXPECT_EQ(begun, 2);
	EXPECT_EQ(bits, 9);
	EXPECT_EQ(changes, 3);
	pt_close(&rig);
}

/* 32-bit code: NOP, far JMP to the instruction after it, which is 64-bit code: JMP to RBX. */
#define COMPATIBLE_AT 0x40100000u
#define COMPATIBLE_64 (COMPATIBLE_AT + 8)
static const uint8_t compatible_code[] = {0x90, 0xea, 0x08, 0x00, 0x10,
					  0x40, 0x08, 0x00, 0xff, 0xe3};

TEST(pt_mode_packets, .group = "PT", .ids = "PT33", .needs = NEED_PT,
     .claim = "a far transfer to code of another size emits MODE.Exec before its target",
     .source = "SDM Vol 3, 36.4.2")
{
	uint8_t *page = test_area(1);
	struct pt_rig rig;

	memcpy(page, compatible_code, sizeof(compatible_code));
	code_map(COMPATIBLE_AT, page, 0);
	pt_open(&rig, 1, false);
	pt_add_branch(&rig, FLOW_FAR, (const void *)(COMPATIBLE_AT + 1ul), 7);
	pt_add_branch(&rig, FLOW_JMP_INDIRECT, (const void *)(COMPATIBLE_64 + 0ul), 2);
	own_gdt_load();
	PT_TRACED(&rig, PT_PLAIN,
		  "leaq 1f(%%rip), %%rbx\n\tpushq $0x80\n\tpushq $0x40100000\n\t" PT_FAR(
			  "lretq") "1:");
	own_gdt_unload();
	PT_EXPECT_BODY(&rig, {.seen = SEEN_MODE, .to = 2}, /* CS.D */
		       {.seen = SEEN_TARGET, .to = COMPATIBLE_AT},
		       {.seen = SEEN_MODE, .to = 1}, /* CS.L */
		       {.seen = SEEN_TARGET, .to = COMPATIBLE_64},
		       {.seen = SEEN_TARGET, .to = pt_body_end(&rig)});
	pt_close(&rig);
	code_unmap(COMPATIBLE_AT);
}

TEST(pt_psb_forgets_calls, .group = "PT", .ids = "PT25", .needs = NEED_PT,
     .claim = "after a PSB a RET of an older CALL has its target, and the next address is whole",
     .source = "SDM Vol 3, 36.3.7")
{
	struct pt_walk walk = {0};
	unsigned syncs = 0;
	uint64_t last_target = 0;
	bool whole = true, stopped;
	struct pt_rig rig;

	pt_open(&rig, 4, false); /* 700 addresses of eight bytes, where it may */
	PT_TRACED(&rig, PT_PLAIN,
		  "call 3f\n\tjmp 4f\n3:\tmovl $700, %%esi\n\tleaq 1f(%%rip), %%rbx\n1:\t"
		  "decl %%esi\n\tjz 2f\n\tjmp *%%rbx\n2:\tret\n4:");
	while (pt_next(&rig, &walk)) {
		bool sync = walk.byte[0] == 0x02 && walk.byte[1] == 0x82;

		if (walk.with_ip && !whole)
			EXPECT(walk.byte[0] >> 5 == 3 || walk.byte[0] >> 5 == 6);
		whole = (whole || walk.with_ip) && !sync;
		syncs += sync;
		last_target = walk.packet == PT_TIP ? walk.ip : last_target;
	}
	stopped = pt_state(&rig.trace).stopped;
	pt_close(&rig);
	if (stopped && !pt_caps()->topa_many)
		test_skip("700 addresses do not fit into the one chunk");
	EXPECT(!stopped);
	if (syncs < 2)
		test_skip("no PSB within 2800 bytes");
	EXPECT_EQ(last_target, rig.first + 5); /* after CALL */
}

TEST(pt_overflow, .group = "PT", .ids = "PT46", .needs = NEED_PT,
     .claim = "after an overflow the address of the next instruction is whole, and a RET of an "
	      "older CALL has its target",
     .source = "SDM Vol 3, 36.3.8")
{
	const uint64_t control = PT_PLAIN | RTIT_CTL_CYC_EN;
	struct pt_walk walk = {0};
	unsigned overflows = 0, calls = 0;
	uint64_t resumed = 0;
	bool overflown = false;
	struct pt_rig rig;

	if (!pt_caps()->psb_cyc)
		test_skip("the processor has no CYC packets (CPUID.14H:EBX[1])");
	pt_open(&rig, 4, false);
	pt_again(&rig, control);
	/* Below 2 KiB: a PSB would forget the CALL as well. */
	PT_TRACED(&rig, control,
		  "call 3f\n\tjmp 4f\n3:\tmovl $150, %%esi\n\tleaq 1f(%%rip), %%rbx\n1:\t"
		  "decl %%esi\n\tjz 2f\n\tjmp *%%rbx\n2:\tret\n4:");
	while (pt_next(&rig, &walk)) {
		bool overflow = walk.byte[0] == 0x02 && walk.byte[1] == 0xf3;

		if (overflown && (walk.packet || walk.bits)) {
			EXPECT(walk.packet == PT_FUP && walk.byte[0] >> 5 == 3);
			EXPECT(walk.ip >= rig.first && walk.ip <= rig.last);
			overflown = false;
			resumed = walk.ip;
		}
		overflows += overflow;
		overflown |= overflow;
		calls += walk.packet == PT_TIP && walk.ip == rig.first + 5;
	}
	EXPECT(!overflown && !pt_state(&rig.trace).stopped);
	pt_close(&rig);
	test_observe("overflows", "%u", overflows);
	if (!overflows)
		test_skip("the output did not overflow");
	/* It may be lost itself. */
	EXPECT(calls == 1 || resumed == rig.first + 5 || resumed >= pt_body_end(&rig));
}
