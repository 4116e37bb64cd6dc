// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/rig.h"

#define AT	0x00005a0000001000ul
#define CALL	(AT + 4) /* SYSCALL */
#define BACK	(AT + 6) /* where SYSRET leads; a jump */
#define BACK_TO (AT + 10)
#define SLOTS	4096

#define HIGHEST_PRIORITY 0xf0 /* of tasks: all fixed interrupts wait */
#define FLAG_AC		 (1u << 18)

static const uint8_t code_sysret[] = {0xeb, 0x02, 0x0f, 0x0b, 0x0f, 0x05,  /* jmp; ud2; syscall */
				      0xeb, 0x02, 0x0f, 0x0b, 0x0f, 0x05}; /* the same again */

struct seen {
	unsigned syscall, sysret, jumps;
};

/* Two visits to ring 3, IRETQ to SYSCALL and SYSRET to SYSCALL, which no interrupt disturbs. */
static void visit(struct rig *rig, uint64_t debugctl)
{
	struct trap_frame frame = {.rip = AT, .rflags = FLAG_AC};

	rig_reset(rig);
	lapic_set_task_priority(HIGHEST_PRIORITY);
	wrmsr(IA32_DEBUGCTL, debugctl);
	user_run(&frame);
	user_run(&frame);
	wrmsr(IA32_DEBUGCTL, 0);
	lapic_set_task_priority(0);
	EXPECT_EQ(frame.vector, VECTOR_SYSCALL);
	EXPECT_EQ(frame.rip, AT + sizeof(code_sysret));
	EXPECT(frame.rflags & FLAG_AC);
}

/* Records of the two transitions have to be right wherever there are any. */
static struct seen look(const struct rig *rig, bool filtered)
{
	struct seen seen = {0};

	for (size_t slot = 0; slot < SLOTS; slot++) {
		struct bts_struct r = rig_record(rig, slot);

		seen.jumps += r.from == AT && r.to == CALL;
		seen.jumps += r.from == BACK && r.to == BACK_TO;
		if (r.from == CALL) {
			seen.syscall++;
			EXPECT_EQ(r.to, syscall_entry);
		}
		if (r.to == BACK) {
			seen.sysret++;
			if (filtered)
				EXPECT_OR_ERRATUM(text_is_sysretq(r.from), "AR62");
			else
				EXPECT(text_is_sysretq(r.from));
		}
	}
	EXPECT(seen.syscall <= 1 && seen.sysret <= 1);
	return seen;
}

static void observe(struct rig *rig, const char *key, uint64_t debugctl, unsigned jumps)
{
	struct seen seen;

	visit(rig, debugctl);
	seen = look(rig, debugctl != rig_all());
	EXPECT_EQ(seen.jumps, jumps);
	test_observe(key, "syscall:%u,sysret:%u", seen.syscall, seen.sysret);
}

TEST(bts_syscall_sysret, .group = "K", .ids = "K7 K12", .needs = NEED_BTS,
     .claim = "SYSCALL and SYSRET, where recorded, lead to LSTAR and back past the SYSCALL",
     .source = "SDM Vol 3, 17.4.4 and table 17-6; SDM Vol 2, SYSCALL and SYSRET")
{
	uint8_t *page = test_area(1);

	memcpy(page, code_sysret, sizeof(code_sysret));
	RIG(rig, SLOTS);
	code_map(AT, page, VM_USER);
	observe(&rig, "unfiltered", rig_all(), 2);
	if (ds_caps()->dscpl && ds_configuration->off_os) {
		observe(&rig, "off_os", rig_all() | ds_configuration->off_os, 2);
		observe(&rig, "off_usr", rig_all() | ds_configuration->off_usr, 0);
	}
	code_unmap(AT);
}

#define SYSCALL_AT (AT + 4)

/* In ring 3: JMP over an UD2 to SYSCALL. */
static const uint8_t code_own[] = {0xeb, 0x02, 0x0f, 0x0b, 0x0f, 0x05};

extern const char own_sysret[], own_syscall[], own_jump[], own_jump_to[];

/* To ring 3 by SYSRET, and back by SYSCALL to a handler whose branches are known. */
static __attribute__((noinline)) uint64_t trace(uint64_t debugctl)
{
	uint64_t seen = 0;

	TRACED_WITH(debugctl,
		    "movq %%rsp, %%r12\n\tmovq %[at], %%rcx\n\tmovl $2, %%r11d\n\tswapgs\n"
		    "own_sysret: sysretq\n\tud2\n"
		    "own_syscall: swapgs\n\tmovq %%r12, %%rsp\n"
		    "own_jump: jmp own_jump_to\n\tud2\n"
		    "own_jump_to: movl $0x1d9, %%ecx\n\trdmsr\n\t"
		    "shlq $32, %%rdx\n\torq %%rax, %%rdx\n\tmovq %%rdx, %[seen]\n\t",
		    OPERANDS([seen] "=&r"(seen)), OPERANDS([at] "r"(AT)), "r11", "r12");
	return seen;
}

/* SYSCALL and SYSRET themselves may be left out: bts_syscall_sysret. */
static void check(struct rig *rig, uint64_t debugctl, bool user, bool kernel)
{
	size_t slot = 0;
	uint64_t seen = 0, lstar = rdmsr(IA32_LSTAR);

	EXACTLY (rig) {
		wrmsr(IA32_LSTAR, (uint64_t)own_syscall);
		seen = trace(debugctl);
		wrmsr(IA32_LSTAR, lstar);
	}
	EXPECT_EQ(seen, debugctl);
	if (rig_record(rig, slot).from == (uint64_t)own_sysret)
		rig_expect(rig, slot++, own_sysret, (void *)AT);
	if (user)
		rig_expect(rig, slot++, (void *)AT, (void *)SYSCALL_AT);
	if (rig_record(rig, slot).from == SYSCALL_AT)
		rig_expect(rig, slot++, (void *)SYSCALL_AT, own_syscall);
	if (kernel)
		rig_expect(rig, slot++, own_jump, own_jump_to);
	EXPECT_EQ(rig_count(rig), slot);
}

TEST(bts_syscall_goes_on, .group = "K", .ids = "K7", .needs = NEED_BTS,
     .claim =
	     "SYSRET and SYSCALL leave IA32_DEBUGCTL alone, and the first branch after each is recorded",
     .source = "SDM Vol 3, 17.4.4 and table 35-2: each taken branch, 1D9H")
{
	uint8_t *page = test_area(1);

	memcpy(page, code_own, sizeof(code_own));
	RIG(rig, 16);
	code_map(AT, page, VM_USER);
	check(&rig, rig_interrupt(), true, true);
	if (ds_caps()->filters) {
		check(&rig, rig_all() | ds_configuration->off_usr, false, true);
		check(&rig, rig_all() | ds_configuration->off_os, true, false);
	}
	code_unmap(AT);
}

extern const char iret_same[], iret_same_to[];

TEST(bts_iretq_same_level, .group = "K", .ids = "K6", .needs = NEED_BTS,
     .claim = "IRETQ within CPL 0 leaves one record, to where it returns",
     .source = "SDM Vol 3, 17.4.4: taken branches")
{
	RIG(rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(), "movq %%rsp, %%rax\n\t"
				  "movl %%ss, %%ecx\n\tpushq %%rcx\n\tpushq %%rax\n\tpushfq\n\t"
				  "movl %%cs, %%ecx\n\tpushq %%rcx\n\t"
				  "leaq iret_same_to(%%rip), %%rcx\n\tpushq %%rcx\n"
				  "iret_same: iretq\n\tud2\n"
				  "iret_same_to:\n\t");
	EXPECT_RECORDS(&rig, {iret_same, iret_same_to});
}

extern const char user_iret[], user_handler[];

/* In ring 3: jmp over an UD2 to INT VECTOR_TEST. */
static const uint8_t code[] = {0xeb, 0x02, 0x0f, 0x0b, 0xcd, VECTOR_TEST};
#define INT_AT (AT + 4)

/* The handler is after the IRETQ, on a separate stack, and takes up the first one. Returns DS and
   ES there, of which no ring but 0 may use what they had. */
static uint64_t trace_iretq(void)
{
	uint64_t selectors = 1;

	TRACED_WITH(
		rig_all(),
		"movq %%rsp, %%r12\n\tmovl %%ss, %%eax\n\tmovl %%eax, %%ds\n\t"
		"movl %[down], %%eax\n\tmovl %%eax, %%es\n\t"
		"pushq %[user_data]\n\tpushq $0\n\tpushfq\n\tpushq %[user_code]\n\tpushq %[at]\n\t"
		"swapgs\n"
		"user_iret: iretq\n\tud2\n"
		"user_handler: swapgs\n\tmovl %[kernel_data], %%eax\n\tmovl %%eax, %%ss\n\t"
		"movq %%r12, %%rsp\n\tmovl %%ds, %k[selectors]\n\t"
		"movl %%es, %%eax\n\torl %%eax, %k[selectors]\n\t",
		OPERANDS([selectors] "=&r"(selectors)),
		OPERANDS([at] "r"(AT), [user_data] "i"(USER_DATA), [user_code] "i"(USER_CODE),
			 [kernel_data] "i"(KERNEL_DATA), [down] "i"(OWN_DATA_DOWN)),
		"r12");
	return selectors;
}

TEST(bts_iretq_to_user, .group = "K", .ids = "K4 K6 K12", .needs = NEED_BTS,
     .claim =
	     "IRETQ to CPL 3 and the branch there leave a record each; INT n back leads to its handler",
     .source =
	     "SDM Vol 3, 17.4.4 and table 17-6: without a filter all are stored; SDM Vol 2, IRET: "
	     "segments that the outer level may not use")
{
	uint8_t *page = test_area(1), *stack = test_area(1);
	struct task_state *task_state;
	struct bts_struct record;
	uint64_t rsp0;

	memcpy(page, code, sizeof(code));
	RIG(rig, 16);
	task_state = &this_cpu()->task_state;
	rsp0 = task_state->rsp[0];
	code_map(AT, page, VM_USER);
	own_idt_begin(VECTOR_TEST, user_handler, true);
	own_gdt_load();
	EXACTLY (&rig) {
		task_state->rsp[0] = (uint64_t)stack + PAGE_SIZE;
		own_idt_load();
		EXPECT_EQ(trace_iretq(), 0);
		own_idt_unload();
		task_state->rsp[0] = rsp0;
	}
	own_gdt_unload();
	code_unmap(AT);
	EXPECT(rig_count(&rig) == 2 || rig_count(&rig) == 3);
	rig_expect(&rig, 0, user_iret, (void *)AT);
	rig_expect(&rig, 1, (void *)AT, (void *)INT_AT);
	if (rig_count(&rig) == 3) {
		record = rig_record(&rig, 2);
		EXPECT_EQ(record.to, user_handler);
		test_observe("int_n_from_user", "%s",
			     record.from == INT_AT ? "from_instruction" : "from_elsewhere");
	} else {
		test_observe("int_n_from_user", "not_recorded");
	}
}
