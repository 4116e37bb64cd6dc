// SPDX-License-Identifier: MIT
// Interrupts and exceptions, privilege levels, address spaces, sizes of code; PSB within a CALL.
#include "drivers/apic/lapic.h"
#include "kernel/cpu.h"
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

/* Of a single step: the last one. */
extern const char pt_last_step[];
__asm__(".pushsection .text\n"
	"pt_last_step: andl $~0x100, 16(%rsp)\n\tiretq\n"
	".popsection");
enum { ANDL_BYTES = 8, VECTOR_DIVIDE = 0, VECTOR_STEP = 1 };

TEST(pt_event_packets, .group = "PT", .ids = "PT26 PT121", .needs = NEED_PT,
     .claim = "INT n, exceptions and interrupts, one that ends HLT too, emit where they come from "
	      "and their handler, and IRET where it goes",
     .source = "SDM Vol 3, 36.4.2")
{
	PT_RIG(rig, 1, false);
	own_idt_copy();
	own_idt_set(SOFTWARE_VECTOR, own_handler_return, false);
	own_idt_set(VECTOR_BP, own_handler_return, false);
	own_idt_set(VECTOR_UD, own_handler_resume, false);
	own_idt_set(VECTOR_PF, own_handler_resume_error, false);
	own_idt_set(VECTOR_TEST, own_handler_return, false);
	own_idt_set(VECTOR_STEP, pt_last_step, false);
	own_idt_set(VECTOR_DIVIDE, own_handler_resume, false);
	own_idt_load();
	pt_again(&rig, PT_PLAIN | RTIT_CTL_USER);
	pt_add_branch(&rig, FLOW_FAR, pt_last_step + ANDL_BYTES, IRETQ_BYTES);
	pt_add_branch(&rig, FLOW_FAR, own_handler_return, IRETQ_BYTES);
	pt_add_branch(&rig, FLOW_FAR, own_handler_resume_iret, IRETQ_BYTES);
	pt_add_branch(&rig, FLOW_FAR, own_handler_resume_error_iret, IRETQ_BYTES);
	EXPECT_EVENT(&rig, "int $0x60", 0, own_handler_return, 2);
	EXPECT_EVENT(&rig, "int3", 0, own_handler_return, 1);
	EXPECT_EVENT(&rig, "pushfq\n\torl $0x100, (%%rsp)\n\tpopfq\n\tnop\n\tnop", 10, pt_last_step,
		     10);
	EXPECT_EVENT(&rig, "leaq 1f(%%rip), %%rbx\n\txorl %%ecx, %%ecx\n\tdivl %%ecx\n1:", 9,
		     own_handler_resume, 11);
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
	lapic_self_ipi(VECTOR_TEST);
	pmi_settle();
	EXPECT(lapic_requested());
	EXPECT_EVENT(&rig, "sti\n\thlt\n\tcli", 2, own_handler_return, 2);
	lapic_eoi();
	lapic_set_task_priority(0);
	own_idt_unload();
}

/* Two places of code that are not within 64 KiB: JMP to the other, the handler of UD2; UD2. */
const uint8_t *pt_jump, *pt_fault;

TEST(pt_event_far, .group = "PT", .ids = "PT20 PT26", .needs = NEED_PT,
     .claim = "a fault far from the last address has its own, and its handler's follows from that",
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
	memcpy(code + HANDLER, resume, sizeof(resume));
	code_seal(code, PAGES);
	pt_open(&rig, 1, false);
	own_idt_copy();
	own_idt_set(VECTOR_UD, pt_jump + HANDLER, false);
	own_idt_load();
	pt_add_branch(&rig, FLOW_JMP, pt_jump, sizeof(jump));
	rig.blocks[0].target = (uint64_t)pt_fault;
	pt_add_branch(&rig, FLOW_FAR, pt_jump + HANDLER + 4, IRETQ_BYTES);
	PT_TRACED(&rig, PT_PLAIN,
		  "leaq 771f(%%rip), %%rbx\n\tmovq pt_jump(%%rip), %%rax\n\t" PT_JMP_TO(
			  "%%rax") "771:");
	own_idt_unload();
	PT_EXPECT_BODY(
		&rig, {.seen = SEEN_TARGET, .to = (uint64_t)pt_jump},
		{.seen = SEEN_EVENT, .from = (uint64_t)pt_fault, .to = (uint64_t)pt_jump + HANDLER},
		{.seen = SEEN_TARGET, .to = pt_body_end(&rig)});
	pt_close(&rig);
	code_unseal(code, PAGES);
}

#define USER_AT	  0x00005a0000001000ul
#define USER_BACK (USER_AT + 6) /* where SYSRET leads */

/* JMP; UD2; SYSCALL; the same again */
static const uint8_t user_code[] = {0xeb, 0x02, 0x0f, 0x0b, 0x0f, 0x05,
				    0xeb, 0x02, 0x0f, 0x0b, 0x0f, 0x05};

static void note_user_code(struct pt_rig *rig)
{
	for (unsigned n = 0; n < 2; n++) {
		uint64_t at = n ? USER_BACK : USER_AT;

		pt_add_branch(rig, FLOW_JMP, (const void *)at, 2);
		rig->blocks[2 * n].target = at + 4;
		pt_add_branch(rig, FLOW_FAR, (const void *)(at + 4), 2);
	}
}

/* Two visits to ring 3: IRETQ to SYSCALL and SYSRET to SYSCALL, which no interrupt disturbs. */
static void visit(struct pt_rig *rig, uint64_t control)
{
	struct trap_frame frame = {.rip = USER_AT};
	uint8_t *page = test_area(1);

	memcpy(page, user_code, sizeof(user_code));
	code_map(USER_AT, page, VM_USER);
	pt_open(rig, 4, false);
	note_user_code(rig);
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
	struct packet_reader reader;
	struct packet packet;
	struct pt_rig rig;

	visit(&rig, RTIT_CTL_USER | RTIT_CTL_BRANCH_EN);
	pt_reader(&rig, &reader);
	while (packet_next(&reader, &packet))
		EXPECT(!(packet.has_ip && packet.value >> 47));
	PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = USER_AT}, {.seen = SEEN_LEAVE, .to = 0},
		       {.seen = SEEN_BEGIN, .to = USER_BACK}, {.seen = SEEN_LEAVE, .to = 0});
}

TEST(pt_kernel_only, .group = "PT", .ids = "PT28", .needs = NEED_PT,
     .claim = "without User the trace ends at IRET and SYSRET and begins at the kernel's entry, "
	      "and no address of ring 3 is in it",
     .source = "SDM Vol 3, 36.2.4")
{
	unsigned begun = 0, ended = 0, entries = 0;
	struct packet_reader reader;
	struct packet packet;
	struct pt_rig rig;

	visit(&rig, PT_PLAIN);
	pt_reader(&rig, &reader);
	while (packet_next(&reader, &packet)) {
		EXPECT(!(packet.has_ip && !(packet.value >> 47)));
		begun += packet.kind == PACKET_TIP_PGE;
		entries += packet.kind == PACKET_TIP_PGE && packet.value == (uint64_t)syscall_entry;
		ended += packet.kind == PACKET_TIP_PGD && !packet.has_ip;
	}
	EXPECT(!reader.error);
	EXPECT_EQ(begun, 3); /* the first by WRMSR */
	EXPECT_EQ(entries, 2);
	EXPECT_EQ(ended, 3);
}

TEST(pt_kernel_and_user, .group = "PT", .ids = "PT116", .needs = NEED_PT,
     .claim = "with OS and User IRET, SYSCALL and SYSRET have their targets, and packets go on",
     .source = "SDM Vol 3, 36.7")
{
	unsigned begun = 0, ended = 0, in = 0, back = 0, entries = 0;
	struct packet_reader reader;
	struct packet packet;
	struct pt_rig rig;

	visit(&rig, PT_PLAIN | RTIT_CTL_USER);
	pt_reader(&rig, &reader);
	while (packet_next(&reader, &packet)) {
		begun += packet.kind == PACKET_TIP_PGE;
		ended += packet.kind == PACKET_TIP_PGD;
		if (packet.kind != PACKET_TIP)
			continue;
		in += packet.value == USER_AT;
		back += packet.value == USER_BACK;
		entries += packet.value == (uint64_t)syscall_entry;
	}
	EXPECT(!reader.error);
	EXPECT(begun == 1 && ended == 1 && in == 1 && back == 1);
	EXPECT_EQ(entries, 2);
}

/* CR3 of the same address space by another PML4 table; its own; its own with PWT. */
uint64_t pt_cr3_other, pt_cr3_own, pt_cr3_flags;

/* 10 bytes, and 7. */
#define LOAD_CR3(name) "movq pt_cr3_" #name "(%%rip), %%rax\n\t" PT_CR3("movq %%rax, %%cr3")
#define THREE_BITS     "movl $3, %%ecx\n1:\t" PT_JCC("loop", "1b")
#define SEEN_THREE                                                                                 \
	{.seen = SEEN_TAKEN}, {.seen = SEEN_TAKEN},                                                \
	{                                                                                          \
		.seen = SEEN_NOT_TAKEN                                                             \
	}
#define PWT 8

/* PIP of MOV to CR3, which are of this address space, after the first end of the packets. */
static unsigned own_after_end(const struct pt_rig *rig, uint64_t own)
{
	struct packet_reader reader;
	struct packet packet;
	unsigned count = 0;
	bool ended = false;

	pt_reader(rig, &reader);
	while (packet_next(&reader, &packet)) {
		ended |= packet.kind == PACKET_TIP_PGD;
		if (packet.kind != PACKET_PIP || packet.role == ROLE_STATUS || !ended)
			continue;
		EXPECT_EQ(packet.value, own);
		count++;
	}
	return count;
}

TEST(pt_cr3_filter, .group = "PT", .ids = "PT29 PT146", .needs = NEED_PT,
     .claim = "with CR3Filter the trace ends and begins with MOV to CR3; bits 11:0 do not count",
     .source = "SDM Vol 3, 36.2.4")
{
	const uint64_t control = PT_PLAIN | RTIT_CTL_CR3_FILTER;
	uint8_t *other = test_area(1);
	uint64_t own;

	if (!pt_caps()->cr3_filter)
		test_skip("the processor has no CR3 filter (CPUID.14H:EBX[0])");
	__asm__ volatile("movq %%cr3, %0" : "=r"(pt_cr3_own));
	PT_RIG(rig, 1, false);
	memcpy(other, direct(pt_cr3_own & PTE_ADDRESS), PT_RIG_BYTES);
	own = pt_cr3_own & PTE_ADDRESS;
	pt_cr3_other = pt_physical(other);
	pt_cr3_flags = pt_cr3_own ^ PWT;
	rig.trace.configuration.cr3_match = pt_cr3_own;
	pt_again(&rig, control);
	PT_TRACED(&rig, control,
		  THREE_BITS LOAD_CR3(other) THREE_BITS LOAD_CR3(own) THREE_BITS LOAD_CR3(flags)
			  THREE_BITS LOAD_CR3(own));
	PT_EXPECT_BODY(&rig, SEEN_THREE, {.seen = SEEN_LEAVE, .to = 0},
		       {.seen = SEEN_BEGIN, .to = rig.first + 2 * (7 + 10)}, SEEN_THREE,
		       {.seen = SEEN_CR3, .to = own}, SEEN_THREE, {.seen = SEEN_CR3, .to = own});
	EXPECT_EQ(own_after_end(&rig, own), 3);
	pt_again(&rig, PT_PLAIN);
	PT_TRACED(&rig, PT_PLAIN, LOAD_CR3(other) LOAD_CR3(own));
	PT_EXPECT_BODY(&rig, {.seen = SEEN_CR3, .to = pt_cr3_other}, {.seen = SEEN_CR3, .to = own});
}

/* 32-bit code: NOP, far JMP to the instruction after it, which is 64-bit code: JMP to RBX. */
#define COMPATIBLE_AT 0x40100000u
#define COMPATIBLE_64 (COMPATIBLE_AT + 8)
static const uint8_t compatible_code[] = {0x90, 0xea, 0x08, 0x00, 0x10,
					  0x40, 0x08, 0x00, 0xff, 0xe3};

/* Three conditional branches, then to that code and back. */
static void visit_compatible(struct pt_rig *rig, uint64_t control)
{
	own_gdt_load();
	PT_TRACED(rig, control,
		  THREE_BITS "leaq 1f(%%rip), %%rbx\n\tpushq $0x80\n\tpushq $0x40100000\n\t" PT_FAR(
			  "lretq") "1:");
	own_gdt_unload();
}

/* MOV to EAX, JMP to it, UD2. */
static const uint8_t user_32[] = {0xb8, 0x08, 0x00, 0x10, 0x40, 0xff, 0xe0, 0x90, 0x0f, 0x0b};

TEST(pt_user_compatible, .group = "PT", .ids = "PT27 PT33", .needs = NEED_PT,
     .claim = "without OS 32-bit code of ring 3 is traced, up to the exception that leaves it",
     .source = "SDM Vol 3, 36.2.4")
{
	const uint64_t control = RTIT_CTL_USER | RTIT_CTL_BRANCH_EN, fault = COMPATIBLE_AT + 8;
	struct trap_frame frame = {.rip = COMPATIBLE_AT, .cs = USER_CODE_32};
	uint8_t *page = test_area(1);
	struct pt_rig rig;

	memcpy(page, user_32, sizeof(user_32));
	code_map(COMPATIBLE_AT, page, VM_USER);
	pt_open(&rig, 1, false);
	pt_add_branch(&rig, FLOW_JMP_INDIRECT, (const void *)(COMPATIBLE_AT + 5ul), 2);
	pt_again(&rig, control);
	lapic_set_task_priority(HIGHEST_PRIORITY);
	wrmsr(IA32_RTIT_CTL, pt_on(control));
	user_run(&frame);
	pt_stop(&rig.trace);
	lapic_set_task_priority(0);
	pt_close(&rig);
	code_unmap(COMPATIBLE_AT);
	EXPECT_EQ(frame.vector, VECTOR_UD);
	PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = COMPATIBLE_AT},
		       {.seen = SEEN_TARGET, .to = fault}, {.seen = SEEN_END, .from = fault});
}

TEST(pt_mode_packets, .group = "PT", .ids = "PT33 PT124 PT137", .needs = NEED_PT,
     .claim = "a far transfer to code of another size emits MODE.Exec before its target, after "
	      "the bits of branches before it, be it that packets begin there; a range filters "
	      "32-bit code too",
     .source = "SDM Vol 3, 36.4.2")
{
	uint8_t *page = test_area(1);
	struct packet_reader reader;
	struct packet packet;
	struct pt_rig rig;
	uint64_t mode = 0;

	memcpy(page, compatible_code, sizeof(compatible_code));
	code_map(COMPATIBLE_AT, page, 0);
	pt_open(&rig, 1, false);
	pt_add_branch(&rig, FLOW_FAR, (const void *)(COMPATIBLE_AT + 1ul), 7);
	pt_add_branch(&rig, FLOW_JMP_INDIRECT, (const void *)(COMPATIBLE_64 + 0ul), 2);
	visit_compatible(&rig, PT_PLAIN);
	PT_EXPECT_BODY(&rig, SEEN_THREE, {.seen = SEEN_MODE, .to = 2}, /* CS.D */
		       {.seen = SEEN_TARGET, .to = COMPATIBLE_AT},
		       {.seen = SEEN_MODE, .to = 1}, /* CS.L */
		       {.seen = SEEN_TARGET, .to = COMPATIBLE_64},
		       {.seen = SEEN_TARGET, .to = pt_body_end(&rig)});
	for (unsigned n = 0; n < 2 && pt_caps()->ranges; n++) {
		uint64_t first = n ? COMPATIBLE_64 : COMPATIBLE_AT;

		pt_again(&rig, PT_PLAIN);
		wrmsr(IA32_RTIT_ADDR0_A, first);
		wrmsr(IA32_RTIT_ADDR0_A + 1, first);
		visit_compatible(&rig, PT_PLAIN | RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER));
		pt_reader(&rig, &reader);
		while (packet_next(&reader, &packet)) {
			mode = packet.kind == PACKET_MODE_EXEC ? packet.value : mode;
			if (packet.kind == PACKET_TIP_PGE)
				EXPECT(packet.value == first && mode == (n ? 1 : 2));
		}
		EXPECT(!reader.error && reader.enabled == PACKETS_OFF);
	}
	pt_close(&rig);
	code_unmap(COMPATIBLE_AT);
}

/* NOP, INT3, far JMP to the instruction after it, which is 64-bit code: JMP to RBX. */
#define COMPATIBLE_16 0x9000u
static const uint8_t code_16[] = {0x90, 0xcc, 0xea, 0x07, 0x90, 0x08, 0x00, 0xff, 0xe3};
/* The same in 32-bit code whose segment has a base. */
#define BASED_AT 0x40100000u
static const uint8_t based_code[] = {0x90, 0xcc, 0xea, 0x09, 0x00, 0x10,
				     0x40, 0x08, 0x00, 0xff, 0xe3};

struct other_code {
	const uint8_t *bytes;
	size_t size;
	uint64_t linear, selector;
	unsigned mode; /* of MODE.Exec */
};
uint64_t pt_code_selector, pt_code_offset;

/* Runs it by a far return; its addresses in packets begin with `at`. */
static void expect_event_in(const struct other_code *code, uint64_t offset, uint64_t at)
{
	uint64_t jump = code->size - 2;
	uint8_t *page = test_area(1);
	struct pt_rig rig;

	memcpy(page, code->bytes, code->size);
	code_map(code->linear, page, 0);
	pt_code_selector = code->selector;
	pt_code_offset = offset;
	pt_open(&rig, 1, false);
	own_idt_copy();
	own_idt_set(VECTOR_BP, own_handler_return, false);
	pt_add_branch(&rig, FLOW_FAR, own_handler_return, IRETQ_BYTES);
	pt_add_branch(&rig, FLOW_FAR, (const void *)(at + 2), (unsigned)jump - 2);
	pt_add_branch(&rig, FLOW_JMP_INDIRECT, (const void *)(code->linear + jump), 2);
	own_gdt_load();
	own_idt_load();
	PT_TRACED(&rig, PT_PLAIN,
		  "leaq 1f(%%rip), %%rbx\n\tpushq pt_code_selector(%%rip)\n\t"
		  "pushq pt_code_offset(%%rip)\n\t" PT_FAR("lretq") "1:");
	own_idt_unload();
	own_gdt_unload();
	PT_EXPECT_BODY(&rig, {.seen = SEEN_MODE, .to = code->mode}, {.seen = SEEN_TARGET, .to = at},
		       {.seen = SEEN_MODE, .to = 1},
		       {.seen = SEEN_EVENT,
			.from = at + 1,
			.to = (uint64_t)own_handler_return,
			.next = at + 2},
		       {.seen = SEEN_MODE, .to = code->mode}, {.seen = SEEN_TARGET, .to = at + 2},
		       {.seen = SEEN_MODE, .to = 1},
		       {.seen = SEEN_TARGET, .to = code->linear + jump},
		       {.seen = SEEN_TARGET, .to = pt_body_end(&rig)});
	pt_close(&rig);
	code_unmap(code->linear);
}

TEST(pt_mode_events, .group = "PT", .ids = "PT136 PT138", .needs = NEED_PT,
     .claim = "MODE.Exec says 16-bit code, and the change by an event out of it and by its IRET",
     .source = "SDM Vol 3, 36.4.2")
{
	expect_event_in(
		&(struct other_code){code_16, sizeof(code_16), COMPATIBLE_16, OWN_CODE_16, 0},
		COMPATIBLE_16, COMPATIBLE_16);
}

TEST(pt_code_base, .group = "PT", .ids = "PT155", .needs = NEED_PT,
     .claim = "addresses are within the code segment, or linear, as CPUID.14H:ECX[31] says",
     .source = "SDM Vol 3, 36.3.1 and 36.4.2")
{
	const uint64_t offset = BASED_AT - OWN_BASE;

	expect_event_in(&(struct other_code){based_code, sizeof(based_code), BASED_AT,
					     OWN_CODE_32_BASED, 2},
			offset, cpuid(0x14, 0).ecx >> 31 ? BASED_AT : offset);
}

/* WRMSR, NOP, a far JMP to the instruction after it, which is 64-bit code: JMP to RBX. */
static const uint8_t begins_based[] = {0x0f, 0x30, 0x90, 0xea, 0x0a, 0x00,
				       0x10, 0x40, 0x08, 0x00, 0xff, 0xe3};

static void begin_based(uint64_t control)
{
	uint32_t low = (uint32_t)control, high = (uint32_t)(control >> 32), msr = IA32_RTIT_CTL;

	own_gdt_load();
	__asm__ volatile("leaq 1f(%%rip), %%rbx\n\tpushq pt_code_selector(%%rip)\n\t"
			 "pushq pt_code_offset(%%rip)\n\tlretq\n1:"
			 : "+a"(low), "+d"(high), "+c"(msr)
			 :
			 : "rbx", "memory", "cc");
	own_gdt_unload();
}

/* The next instruction where a PSB may be due. */
static bool is_next_in_base(uint64_t address, uint64_t at)
{
	return address == at + 2 || address == at + 3 || address == BASED_AT + 10;
}

/* Of a trace that begins there after `bytes` of the last period: PSB follows where that is over. */
static void expect_begin_in_base(struct pt_rig *rig, uint64_t bytes)
{
	uint64_t at = cpuid(0x14, 0).ecx >> 31 ? BASED_AT : BASED_AT - OWN_BASE;
	struct packet_reader reader;
	struct packet packet;
	unsigned begun = 0;

	pt_again(rig, PT_PLAIN);
	if (bytes)
		wrmsr(IA32_RTIT_STATUS, bytes << 32);
	begin_based(pt_on(PT_PLAIN));
	pt_stop(&rig->trace);
	pt_reader(rig, &reader);
	while (packet_next(&reader, &packet)) {
		if (packet.kind == PACKET_TIP_PGE && !begun++)
			EXPECT_EQ(packet.value, at + 2);
		if (packet.kind == PACKET_FUP && packet.role == ROLE_STATUS)
			EXPECT(is_next_in_base(packet.value, at));
		if (packet.kind == PACKET_MODE_EXEC && !begun)
			EXPECT_EQ(packet.value, 2);
	}
	EXPECT(!reader.error && begun == 1);
}

TEST(pt_begin_in_base, .group = "PT", .ids = "PT101 PT155", .needs = NEED_PT,
     .claim =
	     "where a trace begins in a code segment with a base its first addresses, and those of "
	     "a PSB+ there, are within it, or linear, as CPUID.14H:ECX[31] says, and MODE.Exec is "
	     "of 32-bit code",
     .source = "SDM Vol 3, 36.3.1 and 36.3.7")
{
	uint8_t *page = test_area(1);

	memcpy(page, begins_based, sizeof(begins_based));
	code_map(BASED_AT, page, 0);
	pt_code_selector = OWN_CODE_32_BASED;
	pt_code_offset = BASED_AT - OWN_BASE;
	PT_RIG(rig, 1, false);
	expect_begin_in_base(&rig, 0);
	if (pt_caps()->psb_cyc)
		expect_begin_in_base(&rig, 2048 - 8);
	code_unmap(BASED_AT);
}

/* A CALL, then turns of a jump to RBX and of a Jcc, and the RET. */
#define CALL_OF_JUMPS(turns)                                                                       \
	PT_CALL("3f")                                                                              \
	PT_JMP("4f")                                                                               \
	"3:\tmovl $" #turns                                                                        \
	", %%esi\n\tleaq 1f(%%rip), %%rbx\n1:\tdecl %%esi\n\t" PT_JCC("jz", "2f")                  \
		PT_JMP_TO("%%rbx") "2:\t" PT_RET "4:"
enum { CALL_BYTES = 5, RET_BYTES = 1 };

/* The RET of CALL_OF_JUMPS(), to after the CALL. */
static bool is_return(const struct pt_rig *rig, const struct flow_item *item)
{
	return item->what == FLOW_BRANCH && item->from == pt_body_end(rig) - RET_BYTES &&
	       item->to == rig->first + CALL_BYTES;
}

TEST(pt_psb_forgets_calls, .group = "PT", .ids = "PT25", .needs = NEED_PT,
     .claim = "after a PSB a RET of an older CALL has its target, and the next address is whole",
     .source = "SDM Vol 3, 36.3.7")
{
	unsigned syncs = 0, branches = 0, returned = 0;
	struct flow_item item;
	struct pt_rig rig;
	struct flow flow;
	bool stopped;

	pt_open(&rig, 4, false); /* 700 addresses of nine bytes, where it may */
	PT_TRACED(&rig, PT_PLAIN, CALL_OF_JUMPS(700));
	stopped = pt_state(&rig.trace).stopped;
	pt_flow(&rig, &flow);
	while (!stopped && flow_next(&flow, &item)) {
		branches += item.what == FLOW_BRANCH;
		syncs += item.what == FLOW_PACKET && item.packet.kind == PACKET_PSB && branches &&
			 !returned;
		returned += is_return(&rig, &item);
	}
	pt_close(&rig);
	if (stopped)
		test_skip("700 addresses do not fit into the chunks");
	pt_expect_end(&flow); /* it forgets the CALL at PSB, and the last address */
	if (!syncs)
		test_skip("no PSB between CALL and RET");
	EXPECT_EQ(returned, 1);
}

/* The FUPs after OVF have all of their address. */
static void expect_whole(const struct pt_rig *rig)
{
	struct packet_reader reader;
	struct packet packet;

	pt_reader(rig, &reader);
	while (packet_next(&reader, &packet))
		if (packet.kind == PACKET_FUP && packet.role == ROLE_RESUME)
			EXPECT(packet.count == 3 || packet.count == 6);
}

/* Whether an instruction of CALL_OF_JUMPS() or of what follows it in PT_TRACED() is at `ip`. */
static bool is_instruction(const struct pt_rig *rig, uint64_t ip)
{
	static const uint8_t bytes[] = {CALL_BYTES, 2, 5, 7, 2, 2, 2, RET_BYTES, 5, 3, 3};
	uint64_t at = rig->first;
	bool found = ip == at;

	for (size_t n = 0; n < sizeof(bytes); n++)
		found |= ip == (at += bytes[n]);
	REQUIRE_EQ(at, rig->last);
	return found;
}

TEST(pt_overflow, .group = "PT", .ids = "PT46", .needs = NEED_PT,
     .claim = "after an overflow the address of the next instruction is whole, and a RET of an "
	      "older CALL has its target",
     .source = "SDM Vol 3, 36.3.8")
{
	const uint64_t control = PT_PLAIN | RTIT_CTL_CYC_EN;
	unsigned overflows = 0;
	struct flow_item item;
	struct pt_rig rig;
	struct flow flow;

	if (!pt_caps()->psb_cyc)
		test_skip("the processor has no CYC packets (CPUID.14H:EBX[1])");
	pt_open(&rig, 4, false);
	pt_again(&rig, control);
	/* Below 2 KiB: a PSB would forget the CALL as well. */
	PT_TRACED(&rig, control, CALL_OF_JUMPS(150));
	pt_flow(&rig, &flow);
	while (flow_next(&flow, &item)) {
		overflows += item.what == FLOW_LOST;
		EXPECT(item.what != FLOW_EVENT || item.ends);
		if (item.what == FLOW_BEGINS && overflows)
			EXPECT(is_instruction(&rig, item.to));
	}
	EXPECT(!pt_state(&rig.trace).stopped);
	pt_expect_end(&flow); /* it forgets the CALL at OVF */
	expect_whole(&rig);
	pt_close(&rig);
	test_observe("overflows", "%u", overflows);
	if (!overflows)
		test_skip("the output did not overflow");
}

uint32_t pt_jumps_to_end;

TEST(pt_overflow_at_end, .group = "PT", .ids = "PT46", .needs = NEED_PT,
     .claim = "OVF follows an overflow too that the packets of clearing TraceEn begin",
     .source = "SDM Vol 3, 36.3.8")
{
	const uint64_t control = PT_PLAIN | RTIT_CTL_CYC_EN;
	unsigned overflows = 0;
	struct flow_item item;
	struct flow flow;

	if (!pt_caps()->psb_cyc)
		test_skip("the processor has no CYC packets (CPUID.14H:EBX[1])");
	PT_RIG(rig, 4, false);
	for (pt_jumps_to_end = 1; pt_jumps_to_end <= 128; pt_jumps_to_end++) {
		pt_again(&rig, control);
		PT_TRACED(&rig, control,
			  "movl pt_jumps_to_end(%%rip), %%esi\n\tleaq 1f(%%rip), %%rbx\n"
			  "1:\tdecl %%esi\n\t" PT_JCC("jz", "2f") PT_JMP_TO("%%rbx") "2:");
		pt_flow(&rig, &flow);
		while (flow_next(&flow, &item))
			overflows += item.what == FLOW_LOST;
		pt_expect_end(&flow);
	}
	test_observe("overflows", "%u", overflows);
	if (!overflows)
		test_skip("the output did not overflow");
}
