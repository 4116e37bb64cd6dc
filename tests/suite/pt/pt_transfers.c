// SPDX-License-Identifier: MIT
// Interrupts and exceptions, privilege levels, address spaces, sizes of code.
#include "drivers/apic/lapic.h"
#include "drivers/clock/clock.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/silicon.h"
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
		expect_event(rig, at, handler, back);                                              \
	} while (0)

static void expect_event(struct pt_rig *rig, uint64_t at, const char *handler, uint64_t back)
{
	PT_EXPECT_BODY(rig,
		       {.seen = SEEN_EVENT,
			.from = rig->first + at,
			.to = (uint64_t)handler,
			.bytes = (unsigned)(back - at)},
		       {.seen = SEEN_TARGET, .to = rig->first + back});
	pt_again(rig, PT_PLAIN | RTIT_CTL_USER);
}

enum { IRETQ_BYTES = 2 };

/* Of a single step: the last one; where it returns to. */
uint64_t pt_stepped;
extern const char pt_last_step[];
__asm__(".pushsection .text\n"
	"pt_last_step: pushq (%rsp)\n\tpopq pt_stepped(%rip)\n\t"
	"andl $~0x100, 16(%rsp)\n\tiretq\n"
	".popsection");
enum { STEP_BYTES = 3 + 6 + 8, VECTOR_DIVIDE = 0, VECTOR_STEP = 1 };

TEST(pt_event_packets, .group = "PT", .ids = "PT26 PT121", .needs = NEED_PT,
     .claim = "INT n, exceptions and interrupts emit where they come from and their handler, and "
	      "IRET where it goes",
     .source = "SDM Vol 3, 36.4.2")
{
	PT_RIG(rig, 1, false);
	own_idt_begin(SOFTWARE_VECTOR, own_handler_return, false);
	own_idt_set(VECTOR_BP, own_handler_return, false);
	own_idt_set(VECTOR_UD, own_handler_resume, false);
	own_idt_set(VECTOR_PF, own_handler_resume_error, false);
	own_idt_set(VECTOR_TEST, own_handler_return, false);
	own_idt_set(VECTOR_STEP, pt_last_step, false);
	own_idt_set(VECTOR_DIVIDE, own_handler_resume, false);
	own_idt_set(VECTOR_GP, own_handler_resume_error, false);
	own_idt_load();
	pt_again(&rig, PT_PLAIN | RTIT_CTL_USER);
	pt_add_branch(&rig, FLOW_FAR, pt_last_step + STEP_BYTES, IRETQ_BYTES);
	pt_add_branch(&rig, FLOW_FAR, own_handler_return, IRETQ_BYTES);
	pt_add_branch(&rig, FLOW_FAR, own_handler_resume_iret, IRETQ_BYTES);
	pt_add_branch(&rig, FLOW_FAR, own_handler_resume_error_iret, IRETQ_BYTES);
	EXPECT_EVENT(&rig, "int $0x60", 0, own_handler_return, 2);
	EXPECT_EVENT(&rig, "int3", 0, own_handler_return, 1);
	EXPECT_EVENT(&rig, "pushfq\n\torl $0x100, (%%rsp)\n\tpopfq\n\t" PT_JMP("1f") "1:\tnop", 11,
		     pt_last_step, 11);
	/* Of two iterations the first one, or the whole instruction. */
	PT_TRACED(&rig, PT_PLAIN | RTIT_CTL_USER,
		  "movl $2, %%ecx\n\tleaq -8(%%rsp), %%rsi\n\tpushfq\n\torl $0x100, (%%rsp)\n\t"
		  "popfq\n\trep lodsb");
	expect_event(&rig, pt_stepped - rig.first, pt_last_step, pt_stepped - rig.first);
	EXPECT_EVENT(&rig, "leaq 1f(%%rip), %%rbx\n\txorl %%ecx, %%ecx\n\tdivl %%ecx\n1:", 9,
		     own_handler_resume, 11);
	EXPECT_EVENT(&rig, "leaq 1f(%%rip), %%rbx\n\tud2\n1:", 7, own_handler_resume, 9);
	EXPECT_EVENT(&rig,
		     "leaq 1f(%%rip), %%rbx\n\txorl %%eax, %%eax\n\tmovb (%%rax), %%al\n1:", 9,
		     own_handler_resume_error, 11);
	/* INT n that its gate refuses is a fault. */
	own_idt_break(SOFTWARE_VECTOR);
	EXPECT_EVENT(&rig, "leaq 1f(%%rip), %%rbx\n\tint $0x60\n1:", 7, own_handler_resume_error,
		     9);
	/* A branch to what is no code: the fault is of the next instruction. */
	pt_add_branch(&rig, FLOW_FAR, &pt_stepped, sizeof(pt_stepped));
	EXPECT_EVENT(&rig, "leaq 1f(%%rip), %%rbx\n\t" PT_JMP("pt_stepped") "1:",
		     (uint64_t)&pt_stepped - rig.first, own_handler_resume_error, 12);
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

#define USER_AT	    0x00005a0000001000ul
#define USER_FAR    (USER_AT + (1ul << 32))
#define USER_CALLED (USER_AT + 5) /* after its CALL */
#define USER_BACK   (USER_AT + 9) /* where SYSRET leads */
#define USER_STACK  (USER_AT + PT_RIG_BYTES)

/* CALL of what follows UD2; UD2; SYSCALL; RET */
static const uint8_t user_code[] = {0xe8, 0x02, 0, 0, 0, 0x0f, 0x0b, 0x0f, 0x05, 0xc3};

static void note_user_code(struct pt_rig *rig)
{
	pt_add_branch(rig, FLOW_CALL, (const void *)USER_AT, 5);
	rig->blocks[0].target = USER_BACK - 2;
	pt_add_branch(rig, FLOW_FAR, (const void *)(USER_BACK - 2), 2);
	pt_add_branch(rig, FLOW_RET, (const void *)USER_BACK, 1);
}

/* Bytes of PAD before the packets. */
static uint64_t skipped;

/* `left`: bytes until a PSB is due; 0: it is first. No interrupt disturbs what ring 3 does in
   between. */
static void begin_in_user(struct pt_rig *rig, uint64_t control, uint64_t left)
{
	pt_again(rig, (uint32_t)control); /* ranges are in the configuration */
	memset(rig->memory, 0, skipped);
	wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, RTIT_POINTERS(0, skipped));
	wrmsr(IA32_RTIT_STATUS, (left ? 2048 - left : 0) << 32);
	lapic_set_task_priority(HIGHEST_PRIORITY);
	wrmsr(IA32_RTIT_CTL, pt_on(control));
}

static void end_in_user(struct pt_rig *rig)
{
	pt_stop(&rig->trace);
	lapic_set_task_priority(0);
}

/* With OS each PSB+ of code that is traced has PIP, and without none; so it is with TSCEn and TSC.
   With CYCEn packets of ring 3 begin so long after the trace that CYC says so. */
static void expect_status(const struct pt_rig *rig, uint64_t control)
{
	const uint64_t told = control & (RTIT_CTL_OS | RTIT_CTL_TSC_EN);
	uint64_t sum = 0, found = 0;
	bool begun = false;

	EACH_PACKET (rig, reader, packet) {
		found = packet.kind == PACKET_PSB ? 0 : found;
		found |= packet.kind == PACKET_PIP ? RTIT_CTL_OS : 0;
		found |= packet.kind == PACKET_TSC ? RTIT_CTL_TSC_EN : 0;
		if (packet.kind == PACKET_PSBEND && reader.psb_fup)
			EXPECT_EQ(found, told);
		sum += packet.kind == PACKET_CYC && begun ? packet.value : 0;
		begun |= packet.kind == PACKET_CBR;
		if (packet.kind == PACKET_TIP_PGE && packet.value == USER_AT &&
		    control & RTIT_CTL_CYC_EN)
			EXPECT(sum >> 16);
	}
	EXPECT(!reader.error || reader.cut);
}

/* Two visits to ring 3: IRETQ to SYSCALL within a CALL, and SYSRET to the RET and UD2. The first
   time with CYC, long after the trace has begun. */
static void visit(struct pt_rig *rig, uint64_t control)
{
	enum { MOST_LEFT = 100 };
	struct trap_frame frame;
	uint8_t *page = test_area(2);
	unsigned left = pt_caps()->psb_cyc ? MOST_LEFT : 0;

	memcpy(page, user_code, sizeof(user_code));
	code_map(USER_AT, page, VM_USER);
	code_map_data(USER_STACK, page + PT_RIG_BYTES, VM_USER);
	pt_open(rig, 4, false);
	note_user_code(rig);
	do {
		uint64_t more = left == MOST_LEFT ? RTIT_CTL_CYC_EN : left % 2 * RTIT_CTL_TSC_EN;

		frame = (struct trap_frame){.rip = USER_AT, .rsp = USER_STACK + PT_RIG_BYTES};
		begin_in_user(rig, control | more, left);
		if (left == MOST_LEFT)
			delay_us(1000);
		user_run(&frame);
		user_run(&frame);
		end_in_user(rig);
		expect_status(rig, control | more);
	} while (left--);
	pt_close(rig);
	code_unmap(USER_AT);
	code_unmap(USER_STACK);
	EXPECT(frame.vector == VECTOR_UD && frame.rip == USER_CALLED);
	EXPECT(!pt_state(&rig->trace).stopped && !pt_state(&rig->trace).table_error);
}

TEST(pt_user_only, .group = "PT", .ids = "PT27 PT99 PT120 PT150", .needs = NEED_PT,
     .claim = "without OS the trace ends at SYSCALL and begins after SYSRET, and no address of the "
	      "kernel is in it",
     .source = "SDM Vol 3, 36.2.4")
{
	struct pt_rig rig;

	visit(&rig, RTIT_CTL_USER | RTIT_CTL_BRANCH_EN);
	EACH_PACKET (&rig, reader, packet)
		EXPECT(!(packet.has_ip && packet.value >> 47));
	PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = USER_AT}, {.seen = SEEN_LEAVE, .to = 0},
		       {.seen = SEEN_BEGIN, .to = USER_BACK},
		       {.seen = SEEN_TARGET, .to = USER_CALLED},
		       {.seen = SEEN_END, .from = USER_CALLED});
}

TEST(pt_kernel_only, .group = "PT", .ids = "PT28", .needs = NEED_PT,
     .claim = "without User the trace ends at IRET and SYSRET and begins at the kernel's entry, "
	      "and no address of ring 3 is in it",
     .source = "SDM Vol 3, 36.2.4")
{
	unsigned begun = 0, ended = 0, entries = 0;
	struct pt_rig rig;

	visit(&rig, PT_PLAIN);
	EACH_PACKET (&rig, reader, packet) {
		EXPECT(!(packet.has_ip && !(packet.value >> 47)));
		begun += packet.kind == PACKET_TIP_PGE;
		entries += packet.kind == PACKET_TIP_PGE && packet.value == (uint64_t)syscall_entry;
		ended += packet.kind == PACKET_TIP_PGD && !packet.has_ip;
	}
	EXPECT(!reader.error);
	EXPECT_EQ(begun, 3); /* the first by WRMSR */
	EXPECT_EQ(entries, 1);
	EXPECT_EQ(ended, 3);
}

TEST(pt_kernel_and_user, .group = "PT", .ids = "PT98 PT116", .needs = NEED_PT,
     .claim = "with OS and User IRET, SYSCALL and SYSRET have their targets, and packets go on",
     .source = "SDM Vol 3, 36.7")
{
	unsigned begun = 0, ended = 0, in = 0, back = 0, entries = 0;
	struct pt_rig rig;

	visit(&rig, PT_PLAIN | RTIT_CTL_USER);
	EACH_PACKET (&rig, reader, packet) {
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
	EXPECT_EQ(entries, 1);
}

/* CR3 of the same address space by another PML4 table; its own; its own with other low bits: SDM
   Vol 3, table 4-12. */
uint64_t pt_cr3_other, pt_cr3_own, pt_cr3_flags;

/* 10 bytes, and 7. */
#define LOAD_CR3(name) "movq pt_cr3_" #name "(%%rip), %%rax\n\t" PT_CR3("movq %%rax, %%cr3")
/* Bits that IA32_RTIT_STATUS had first and no longer has. */
uint32_t pt_status_lost;
#define READ_STATUS	  "movl $0x571, %%ecx\n\trdmsr\n\t"
#define READ_STATUS_FIRST READ_STATUS "movl %%eax, pt_status_lost(%%rip)\n\t"
#define READ_STATUS_AGAIN READ_STATUS "notl %%eax\n\tandl %%eax, pt_status_lost(%%rip)"
#define THREE_BITS	  "movl $3, %%ecx\n1:\t" PT_JCC("loop", "1b")
#define SEEN_THREE                                                                                 \
	{.seen = SEEN_TAKEN}, {.seen = SEEN_TAKEN},                                                \
	{                                                                                          \
		.seen = SEEN_NOT_TAKEN                                                             \
	}
#define PWT	  8ul
#define BITS_11_5 0xfe0ul

/* PIP of MOV to CR3, which are of this address space, after the first end of the packets. */
static unsigned own_after_end(const struct pt_rig *rig, uint64_t own)
{
	unsigned count = 0;
	bool ended = false;

	EACH_PACKET (rig, reader, packet) {
		ended |= packet.kind == PACKET_TIP_PGD;
		if (packet.kind != PACKET_PIP || packet.role == ROLE_STATUS || !ended)
			continue;
		EXPECT_EQ(packet.value, own);
		count++;
	}
	return count;
}

static void trace_spaces(struct pt_rig *rig, uint64_t control, uint64_t flags)
{
	pt_cr3_flags = pt_cr3_own ^ flags;
	pt_again(rig, control);
	PT_TRACED(rig, control,
		  THREE_BITS PT_CALL("2f") PT_JMP("3f") "2:\t" LOAD_CR3(other)
			  THREE_BITS LOAD_CR3(own) PT_RET "3:\t" THREE_BITS LOAD_CR3(flags)
				  THREE_BITS LOAD_CR3(own));
}

/* An erratum of early processors compares bits 11:5 of CR3 outside PAE paging too. */
TEST(pt_cr3_filter, .group = "PT", .ids = "PT29 PT73 PT120 PT137 PT146", .needs = NEED_PT,
     .claim = "with CR3Filter the trace ends and begins with MOV to CR3; bits 11:0 do not count",
     .source = "SDM Vol 3, 36.2.4")
{
	const uint64_t control = PT_PLAIN | RTIT_CTL_CR3_FILTER;
	uint64_t own = pt_own_cr3() & PTE_ADDRESS;
	bool ignored;

	pt_cr3_other = pt_other_cr3();
	pt_cr3_own = pt_own_cr3();
	PT_RIG(rig, 1, false);
	rig.trace.configuration.cr3_match = pt_cr3_own;
	trace_spaces(&rig, control, BITS_11_5);
	ignored = own_after_end(&rig, own) == 3;
	test_observe("cr3_bits_11_5_ignored", "%d", ignored);
	EXPECT(ignored || !silicon_is_virtual());
	trace_spaces(&rig, control, PWT);
	/* CALL and JMP: 5 and 2 bytes. */
	PT_EXPECT_BODY(&rig, SEEN_THREE, {.seen = SEEN_LEAVE, .to = 0},
		       {.seen = SEEN_BEGIN, .to = rig.first + 2 * (7 + 10) + 5 + 2},
		       {.seen = SEEN_TARGET, .to = rig.first + 7 + 5}, SEEN_THREE,
		       {.seen = SEEN_CR3, .to = own}, SEEN_THREE, {.seen = SEEN_CR3, .to = own});
	EXPECT_EQ(own_after_end(&rig, own), 3);
	/* No MODE.Exec is in the PSB+ of a trace that begins out of context. */
	rig.trace.configuration.cr3_match = pt_cr3_other;
	pt_again(&rig, control);
	PT_TRACED(&rig, control, LOAD_CR3(other) READ_STATUS_FIRST LOAD_CR3(own) READ_STATUS_AGAIN);
	EXPECT(pt_status_lost & RTIT_STATUS_CONTEXT_EN);
	PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = rig.first + 10}, {.seen = SEEN_LEAVE});
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

/* It is entered and left once, the kernel being traced too, with the size of its code. */
static void expect_entered(const struct pt_rig *rig)
{
	unsigned entered = 0;
	uint64_t mode = 0;

	EACH_PACKET (rig, reader, packet) {
		mode = packet.kind == PACKET_MODE_EXEC ? packet.value : mode;
		if (packet.kind == PACKET_TIP && packet.value == COMPATIBLE_AT && ++entered)
			EXPECT_EQ(mode, 2);
	}
	EXPECT(mode == 1 && entered == 1 && (!reader.error || reader.cut));
}

TEST(pt_user_compatible, .group = "PT", .ids = "PT20 PT27 PT33 PT122 PT130 PT136", .needs = NEED_PT,
     .claim = "without OS 32-bit code of ring 3 is traced, up to the exception that leaves it, the "
	      "range too, a handler in one that stops or not; with OS it has its MODE.Exec",
     .source = "SDM Vol 3, 36.2.4 and 36.4.2")
{
	enum { ALONE, IN_RANGE, KERNEL_STOPS, WITH_KERNEL, WAYS };
	static const uint64_t user = RTIT_CTL_USER | RTIT_CTL_BRANCH_EN;
	static const unsigned uses[] = {0, RTIT_ADDR_FILTER, RTIT_ADDR_TRACE_STOP, 0};
	const uint64_t fault = COMPATIBLE_AT + 8;
	uint8_t *page = test_area(1);

	memcpy(page, user_32, sizeof(user_32));
	code_map(COMPATIBLE_AT, page, VM_USER);
	for (unsigned n = ALONE; n < WAYS; n++) {
		struct trap_frame frame = {.rip = COMPATIBLE_AT, .cs = USER_CODE_32};
		uint64_t os = n == WITH_KERNEL ? RTIT_CTL_OS : 0;
		struct pt_rig rig;

		if (uses[n] && !pt_caps()->ranges)
			continue;
		pt_open(&rig, PT_RIG_CHUNKS, false);
		pt_add_branch(&rig, FLOW_JMP_INDIRECT, (const void *)(COMPATIBLE_AT + 5ul), 2);
		rig.trace.configuration.range[0].first = n == IN_RANGE ? COMPATIBLE_AT : ~0ul << 47;
		rig.trace.configuration.range[0].last = n == IN_RANGE ? fault : ~0ul;
		rig.trace.configuration.range[0].use = uses[n];
		/* The last address is the kernel's; where there is no PSB that is left, or 0. */
		pt_trace_nop(&rig, PT_PLAIN);
		rig.first = 0;
		begin_in_user(&rig, user | os | RTIT_CTL_ADDR_CFG(0, uses[n]),
			      pt_caps()->psb_cyc ? 1000 : 0);
		user_run(&frame);
		end_in_user(&rig);
		pt_close(&rig);
		EXPECT_EQ(frame.vector, VECTOR_UD);
		if (n == WITH_KERNEL)
			expect_entered(&rig);
		else
			PT_EXPECT_FLOW(&rig, {.seen = SEEN_BEGIN, .to = COMPATIBLE_AT},
				       {.seen = SEEN_TARGET, .to = fault},
				       {.seen = SEEN_END, .from = fault});
	}
	code_unmap(COMPATIBLE_AT);
}

/* In code of 64 and of 32 bits: CALL of the next; DECL, JZ over a RET; CALL of POP, CALL of the
   last RET, far RET (of 32 bits DEC and RET) by RSI to INT 3. POP, PUSH of RBX, which has the
   address after the next RET, RET 0; PUSH of what was popped, RET. */
static const uint8_t calls_code[] = {0xe8, 0,	 0,    0,    0,	   0xff, 0xc9, 0x74, 1,
				     0xc3, 0xe8, 13,   0,    0,	   0,	 0xe8, 14,   0,
				     0,	   0,	 0x8c, 0xc8, 0x50, 0x56, 0x48, 0xcb, 0xcd,
				     3,	   0x58, 0x53, 0xc2, 0,	   0,	 0x50, 0xc3};
enum { CALLS_FAR = 24, CALLS_INT = 26, CALLS_PUSH = 33 };
/* Its branches; and what packets say, in order. */
static const struct {
	uint8_t kind, at, next, target, seen, to;
} calls_rows[] = {{FLOW_CALL, 0, 5, 5, SEEN_BEGIN, 0},
		  {FLOW_JCC, 7, 9, 10, SEEN_NOT_TAKEN, 0},
		  {FLOW_RET, 9, 10, 0, SEEN_TARGET, 5},
		  {FLOW_CALL, 10, 15, 28, SEEN_TAKEN, 0},
		  {FLOW_CALL, 15, 20, 34, SEEN_TARGET, CALLS_PUSH},
		  {FLOW_RET, 30, 33, 0, SEEN_TARGET, 15},
		  {FLOW_RET, 34, 35, 0, SEEN_RETURN, 20},
		  {FLOW_FAR, CALLS_FAR, CALLS_INT, 0, SEEN_TARGET, CALLS_INT}};

TEST(pt_user_returns, .group = "PT", .ids = "PT18 PT22 PT23 PT24 PT112 PT114 PT115 PT121 PT147",
     .needs = NEED_PT,
     .claim = "in ring 3, in 32-bit code too, a RET has its target but to after its CALL, with "
	      "DisRETC there too; a far RET has its target, INT n its place",
     .source = "SDM Vol 3, 36.4.2")
{
	enum { ROWS = sizeof(calls_rows) / sizeof(calls_rows[0]) };
	const uint64_t stack = COMPATIBLE_AT + PT_RIG_BYTES;
	struct pt_expected all[ROWS + 1];
	uint8_t *page = test_area(2);
	struct pt_beside beside;
	struct pt_rig rig;

	memcpy(page, calls_code, sizeof(calls_code));
	code_map(COMPATIBLE_AT, page, VM_USER);
	code_map_data(stack, page + PT_RIG_BYTES, VM_USER);
	for (unsigned n = 0; n < 4; n++) {
		struct trap_frame frame = {.rip = COMPATIBLE_AT,
					   .cs = n / 2 ? USER_CODE_32 : 0,
					   .rbx = COMPATIBLE_AT + CALLS_PUSH,
					   .rcx = 2,
					   .rsi = COMPATIBLE_AT + CALLS_INT,
					   .rsp = stack + 64};

		pt_beside_open(&beside, pt_switch_beside);
		pt_open(&rig, 1, false);
		for (size_t i = 0; i < ROWS; i++) {
			rig.blocks[i] = (struct flow_block){calls_rows[i].kind,
							    COMPATIBLE_AT + calls_rows[i].at,
							    COMPATIBLE_AT + calls_rows[i].next,
							    COMPATIBLE_AT + calls_rows[i].target};
			all[i] = (struct pt_expected){.seen = calls_rows[i].seen,
						      .to = COMPATIBLE_AT + calls_rows[i].to};
		}
		rig.block_count = ROWS;
		rig.blocks[ROWS - 1].branch += n / 2;
		if (n % 2) /* DisRETC */
			all[ROWS - 2].seen = SEEN_TARGET;
		all[ROWS] =
			(struct pt_expected){.seen = SEEN_END, .from = COMPATIBLE_AT + CALLS_INT};
		begin_in_user(&rig, RTIT_CTL_USER | RTIT_CTL_BRANCH_EN | n % 2 * RTIT_CTL_DIS_RETC,
			      0);
		pt_beside_start(&beside);
		user_run(&frame);
		end_in_user(&rig);
		pt_close(&rig);
		pt_beside_close(&beside);
		pt_expect_flow(&rig, all, ROWS + 1);
	}
	code_unmap(COMPATIBLE_AT);
	code_unmap(stack);
}

/* CALL of what follows UD2; RET, UD2; ADD of RSI, 0 or 4 GiB, to where it returns; SHR of RDI, JC
   to what follows; RET. Before, 4 GiB away, JZ to what follows and JMP to RBX. The stack leads to
   the first RET and to UD2. */
enum { BITS = 7, STEP = 5, CALLED = 8, FIRST = 12, LAST = FIRST + STEP * BITS, RET_BYTES = 1 };
static void map_bits(void)
{
	static const uint8_t call[FIRST] = {0xe8, 3,	0,    0,    0,	  0xc3,
					    0x0f, 0x0b, 0x48, 0x01, 0x34, 0x24};
	static const uint8_t ret[] = {0xc3, 0x74, 0, 0xff, 0xe3};
	static const uint8_t step[STEP] = {0x48, 0xd1, 0xef, 0x72, 0};
	uint8_t *page = test_area(2), *stack = page + PT_RIG_BYTES;

	memcpy(page, call, sizeof(call));
	((uint64_t *)stack)[8] = USER_CALLED;
	((uint64_t *)stack)[9] = USER_CALLED + RET_BYTES;
	for (unsigned n = 0; n < BITS; n++)
		memcpy(page + FIRST + STEP * n, step, STEP);
	memcpy(page + LAST, ret, sizeof(ret));
	code_map(USER_AT, page, VM_USER);
	code_map(USER_FAR, page, VM_USER);
	code_map_data(USER_STACK, stack, VM_USER);
}

TEST(pt_user_patterns, .group = "PT", .ids = "PT18 PT20 PT22 PT25 PT83 PT113 PT118",
     .needs = NEED_PT,
     .claim =
	     "in ring 3 any pattern of taken and not taken is that of the bits, over packets; a RET "
	     "to 4 GiB beside that of its CALL has its target",
     .source = "SDM Vol 3, 36.3.7 and 36.4.2")
{
	const uint64_t patterns[] = {0, ~0ull, 1 << 6, test_random()};
	const uint64_t begin = USER_FAR + LAST + RET_BYTES, back = USER_CALLED;
	struct pt_expected all[BITS + 7] = {{.seen = SEEN_BEGIN, .to = begin},
					    {.seen = SEEN_NOT_TAKEN},
					    {.seen = SEEN_TARGET, .to = USER_AT},
					    [BITS + 4] = {.seen = SEEN_TARGET, .to = back},
					    {.seen = SEEN_TARGET, .to = back + RET_BYTES},
					    {.seen = SEEN_END, .from = back + RET_BYTES}};
	struct pt_rig rig;

	map_bits();
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		unsigned left = pt_caps()->psb_cyc ? 30 : 0;

		pt_open(&rig, 2, false);
		for (unsigned n = 0; n < BITS; n++) {
			uint64_t at = USER_AT + FIRST + STEP * n + 3;

			rig.blocks[n] = (struct flow_block){FLOW_JCC, at, at + 2, at + 2};
			all[n + 3].seen = patterns[i] >> n & 1 ? SEEN_TAKEN : SEEN_NOT_TAKEN;
		}
		rig.blocks[BITS] = (struct flow_block){FLOW_CALL, USER_AT, back, USER_AT + CALLED};
		rig.block_count = BITS + 1;
		rig.first = USER_AT;
		pt_add_branch(&rig, FLOW_RET, (const void *)(USER_AT + LAST), 1);
		pt_add_branch(&rig, FLOW_RET, (const void *)back, 1);
		pt_add_branch(&rig, FLOW_RET, (const void *)(back + (1ul << 32)), 1);
		pt_add_branch(&rig, FLOW_JMP_INDIRECT, (const void *)(begin + 2), 2);
		pt_add_branch(&rig, FLOW_JCC, (const void *)begin, 2);
		do {
			struct trap_frame frame = {.rip = begin,
						   .rbx = USER_AT,
						   .rsi = (left + i) % 2ul << 32,
						   .rdi = patterns[i],
						   .rsp = USER_STACK + 64};

			all[BITS + 3].seen = frame.rsi ? SEEN_TARGET : SEEN_RETURN;
			all[BITS + 3].to = back + frame.rsi;
			skipped = (pt_caps()->topa_many ? PT_RIG_BYTES - 51 : 0) + left;
			begin_in_user(&rig, RTIT_CTL_USER | RTIT_CTL_BRANCH_EN, left);
			user_run(&frame);
			end_in_user(&rig);
			EXPECT(!(rig.trace.output_mask_ptrs >> 44)); /* an offset in a page */
			pt_expect_flow(&rig, all, BITS + 7);
		} while (left--);
		pt_close(&rig);
	}
	skipped = 0;
	code_unmap(USER_AT);
	code_unmap(USER_FAR);
	code_unmap(USER_STACK);
}

TEST(pt_mode_packets, .group = "PT", .ids = "PT29 PT33 PT124 PT128 PT137", .needs = NEED_PT,
     .claim = "a far transfer to code of another size emits MODE.Exec before its target, after "
	      "earlier bits, where packets begin too; a range filters 32-bit code, or stops there",
     .source = "SDM Vol 3, 36.4.2")
{
	uint8_t *page = test_area(1);
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
	for (unsigned n = 0; n < 3 && pt_caps()->ranges; n++) {
		uint64_t first = n == 1 ? COMPATIBLE_64 : COMPATIBLE_AT;
		unsigned use = n == 2 ? RTIT_ADDR_TRACE_STOP : RTIT_ADDR_FILTER, begun = 0;

		pt_again(&rig, PT_PLAIN);
		wrmsr(IA32_RTIT_ADDR0_A, n ? first : 0);
		wrmsr(IA32_RTIT_ADDR0_A + 1, first);
		visit_compatible(&rig, PT_PLAIN | RTIT_CTL_ADDR_CFG(0, use));
		EACH_PACKET (&rig, reader, packet) {
			mode = packet.kind == PACKET_MODE_EXEC ? packet.value : mode;
			if (packet.kind == PACKET_TIP_PGE && ++begun && n < 2)
				EXPECT(packet.value == first && mode == (n ? 1 : 2));
		}
		EXPECT_EQ(pt_state(&rig.trace).stopped, n == 2);
		EXPECT(begun && !reader.error && reader.enabled == PACKETS_OFF);
	}
	if (pt_caps()->cr3_filter) { /* CR3 is not 0 */
		pt_again(&rig, PT_PLAIN);
		visit_compatible(&rig, PT_PLAIN | RTIT_CTL_CR3_FILTER);
		pt_expect_flow(&rig, NULL, 0);
	}
	pt_close(&rig);
	code_unmap(COMPATIBLE_AT);
}
