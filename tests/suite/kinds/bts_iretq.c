// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/exact.h"
#include "tests/lib/own_idt.h"

extern const char iret_same[], iret_same_to[];

TEST(bts_iretq_same_level, .group = "K", .ids = "K6", .needs = NEED_BTS,
     .claim = "IRETQ within CPL 0 leaves one record, to where it returns",
     .source = "SDM Vol 3, 17.4.4: taken branches")
{
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(), "movq %%rsp, %%rax\n\t"
				  "movl %%ss, %%ecx\n\tpushq %%rcx\n\tpushq %%rax\n\tpushfq\n\t"
				  "movl %%cs, %%ecx\n\tpushq %%rcx\n\t"
				  "leaq iret_same_to(%%rip), %%rcx\n\tpushq %%rcx\n"
				  "iret_same: iretq\n\tud2\n"
				  "iret_same_to:\n\t");
	EXPECT_EQ(rig_count(&rig), 1);
	rig_expect(&rig, 0, iret_same, iret_same_to, "iretq");
	rig_close(&rig);
}

#define AT 0x00005a0000001000ul

extern const char user_iret[], user_handler[];

/* In ring 3: jmp over an UD2 to INT VECTOR_TEST. */
static const uint8_t code[] = {0xeb, 0x02, 0x0f, 0x0b, 0xcd, VECTOR_TEST};
#define INT_AT (AT + 4)

/* The handler stands behind the IRETQ, on a stack of its own, and takes up the first one. */
static void trace(void)
{
	TRACED_WITH(
		rig_all(),
		"movq %%rsp, %%r12\n\t"
		"pushq %[user_data]\n\tpushq $0\n\tpushfq\n\tpushq %[user_code]\n\tpushq %[at]\n\t"
		"swapgs\n"
		"user_iret: iretq\n\tud2\n"
		"user_handler: swapgs\n\tmovl %[kernel_data], %%eax\n\tmovl %%eax, %%ss\n\t"
		"movq %%r12, %%rsp\n\t",
		,
		AND([at] "r"(AT), [user_data] "i"(USER_DATA), [user_code] "i"(USER_CODE),
		    [kernel_data] "i"(KERNEL_DATA)),
		"r12");
}

TEST(bts_iretq_to_user, .group = "K", .ids = "K4 K6", .needs = NEED_BTS,
     .claim =
	     "IRETQ to CPL 3 and the branch there leave a record each; INT n back leads to its handler",
     .source = "SDM Vol 3, 17.4.4 and table 17-6: without a filter all are stored")
{
	uint8_t *page = test_area(1), *stack = test_area(1);
	struct task_state *task_state;
	struct bts_struct record;
	struct rig rig;
	uint64_t rsp0;

	memcpy(page, code, sizeof(code));
	rig_open(&rig, 16);
	task_state = &this_cpu()->task_state;
	rsp0 = task_state->rsp[0];
	code_map(AT, page, VM_USER);
	own_idt_copy();
	own_idt_set(VECTOR_TEST, user_handler, true);
	EXACTLY (&rig) {
		task_state->rsp[0] = (uint64_t)stack + PAGE_SIZE;
		own_idt_load();
		trace();
		own_idt_unload();
		task_state->rsp[0] = rsp0;
	}
	code_unmap(AT);
	EXPECT(rig_count(&rig) == 2 || rig_count(&rig) == 3);
	rig_expect(&rig, 0, user_iret, (void *)AT, "iretq to CPL 3");
	rig_expect(&rig, 1, (void *)AT, (void *)INT_AT, "jmp in CPL 3");
	if (rig_count(&rig) == 3) {
		record = rig_record(&rig, 2);
		EXPECT_EQ(record.to, user_handler);
		test_observe("int_n_from_user", "%s",
			     record.from == INT_AT ? "from_instruction" : "from_elsewhere");
	} else {
		test_observe("int_n_from_user", "not_recorded");
	}
	rig_close(&rig);
}
