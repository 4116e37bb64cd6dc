// SPDX-License-Identifier: MIT
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/rig.h"

#define AT		 0x00005a0000001000ul
#define JNZ_AT		 (AT + 7)
#define DEC_AT		 (AT + 5)
#define SYSCALL_AT	 (AT + 9)
#define UD2_AT		 (AT + 11)
#define IA32_SYSENTER_CS 0x174u
#define IA32_LSTAR	 0xc0000082u
enum { BRANCHES = 3, WAYS = 3, FAULTS = 4 };

/* MOV ECX, 4; DEC ECX; JNZ to the DEC; SYSCALL; UD2 */
static const uint8_t code[] = {0xb9, BRANCHES + 1, 0,	 0,    0,    0xff, 0xc9,
			       0x75, 0xfc,	   0x0f, 0x05, 0x0f, 0x0b};

extern const char returns_iret[], returns_sysret[], returns_sysexit[], returns_far[],
	returns_back[], returns_undefined[], undefined_ud2[], undefined_sysret[];
extern uint64_t returns_stack, returns_count, returns_efer, undefined_count, undefined_at[8];
uint64_t returns_stack, returns_count, returns_efer, undefined_count, undefined_at[8];

/* Where SYSCALL and #UD arrive: go on at RBX on the stack that was left. */
__asm__(".pushsection .text\n"
	"returns_undefined: movq undefined_count(%rip), %rcx\n\tincq undefined_count(%rip)\n\t"
	"andl $7, %ecx\n\tleaq undefined_at(%rip), %rdx\n\tpopq (%rdx, %rcx, 8)\n"
	"returns_back: incq returns_count(%rip)\n\tmovq returns_stack(%rip), %rsp\n\tjmp *%rbx\n"
	".popsection\n");

/* To ring 3 at `target`, and back by RBX to what follows. */
#define BY_IRET(target)                                                                            \
	"leaq 1f(%%rip), %%rbx\n\tmovq $" target ", %%rax\n\t"                                     \
	"pushq $0x1b\n\tpushq $0\n\tpushq $2\n\tpushq $0x23\n\tpushq %%rax\n\t"
#define BY_SYSRET(target) "leaq 1f(%%rip), %%rbx\n\tmovq $" target ", %%rcx\n\tmovl $2, %%r11d\n\t"

/* The selectors of SYSEXIT are those of no code segment here: nothing loads them. */
static __attribute__((noinline)) void visit_each_way(uint64_t debugctl)
{
	TRACED_WITH(
		debugctl,
		"movq %%rsp, returns_stack(%%rip)\n\t" BY_IRET("0x5a0000001000") "returns_iret: iretq\n1:\n\t" BY_SYSRET(
			"0x5a0000001000") "returns_sysret: sysretq\n1:\n\t"
					  "leaq 1f(%%rip), %%rbx\n\tmovq $0x5a0000001000, %%rdx\n\t"
					  "xorl %%ecx, %%ecx\n\treturns_sysexit: sysexitq\n1:\n\t",
		, , "rbx", "r11");
}

static __attribute__((noinline)) void visit_by_far_return(uint64_t debugctl)
{
	TRACED_WITH(debugctl,
		    "movq %%rsp, returns_stack(%%rip)\n\tleaq 1f(%%rip), %%rbx\n\t"
		    "movq $0x5a0000001000, %%rax\n\t"
		    "pushq $0x1b\n\tpushq $0\n\tpushq $0x23\n\tpushq %%rax\n\t"
		    "returns_far: lretq\n1:\n\t",
		    , , "rbx", "r11");
}

/*
 * #UD of ring 0 and of ring 3; that of SYSRET without IA32_EFER.SCE; SYSCALL of ring 0, which is
 * none with it. EFER reads as it was written.
 */
static __attribute__((noinline)) void fault_each_way(uint64_t debugctl)
{
	TRACED_WITH(
		debugctl,
		"movq %%rsp, returns_stack(%%rip)\n\t"
		"leaq 1f(%%rip), %%rbx\n\tundefined_ud2: ud2\n1:\n\t" BY_IRET("0x5a000000100b") "iretq\n1:\n\t" BY_SYSRET(
			"0x5a000000100b") "sysretq\n1:\n\t"
					  "leaq 1f(%%rip), %%rbx\n\tsyscall\n1:\n\t"
					  "movl $0xc0000080, %%ecx\n\trdmsr\n\tmovq %%rax, returns_efer(%%rip)\n\t"
					  "andl $~1, %%eax\n\twrmsr\n\t" BY_SYSRET(
						  "0x5a0000001000") "undefined_sysret: sysretq\n1:\n\t"
								    "movl $0xc0000080, %%ecx\n\trdmsr\n\tshlq $32, %%rax\n\t"
								    "orq %%rax, returns_efer(%%rip)\n\tshrq $32, %%rax\n\torl $1, %%eax\n\twrmsr\n\t",
		, , "rbx", "r11");
}

static void run(struct rig *rig, void (*ways)(uint64_t debugctl), uint64_t debugctl)
{
	struct task_state *task_state = &this_cpu()->task_state;
	uint64_t stack = (uint64_t)test_area(1) + PAGE_SIZE, rsp0 = task_state->rsp[0];
	uint64_t entry = rdmsr(IA32_LSTAR), selector = rdmsr(IA32_SYSENTER_CS);

	EXACTLY (rig) {
		returns_count = undefined_count = 0;
		own_idt_load();
		task_state->rsp[0] = stack;
		wrmsr(IA32_LSTAR, (uint64_t)returns_back);
		wrmsr(IA32_SYSENTER_CS, 8);
		ways(debugctl);
		wrmsr(IA32_SYSENTER_CS, selector);
		wrmsr(IA32_LSTAR, entry);
		task_state->rsp[0] = rsp0;
		own_idt_unload();
	}
}

static void open(struct rig *rig)
{
	uint8_t *page = test_area(1);

	memcpy(page, code, sizeof(code));
	code_map(AT, page, VM_USER);
	own_idt_copy();
	own_idt_set(VECTOR_UD, returns_undefined, false);
	rig_open(rig, 256);
}

static void close(struct rig *rig)
{
	rig_close(rig);
	code_unmap(AT);
}

/* Whether a transition is recorded is for the silicon to say; `*slot` is past it then. */
static void skip_transition(struct rig *rig, size_t *slot, const void *from, const void *to)
{
	struct bts_struct record = rig_record(rig, *slot);

	if (record.to == (uint64_t)to) {
		EXPECT_OR_ERRATUM(record.from == (uint64_t)from, "AR62");
		(*slot)++;
	}
}

static void expect_visit(struct rig *rig, size_t *slot, const char *from)
{
	skip_transition(rig, slot, from, (void *)AT);
	for (unsigned n = 0; n < BRANCHES; n++)
		rig_expect(rig, (*slot)++, (void *)JNZ_AT, (void *)DEC_AT, "jnz");
	skip_transition(rig, slot, (void *)SYSCALL_AT, returns_back);
}

TEST(bts_filter_returns, .group = "P", .ids = "P1", .needs = NEED_BTS | NEED_DSCPL,
     .claim =
	     "with BTS_OFF_OS recording goes on with the first branch after IRET, SYSRET and SYSEXIT",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	const char *const from[WAYS] = {returns_iret, returns_sysret, returns_sysexit};
	size_t slot = 0;
	struct rig rig;

	open(&rig);
	run(&rig, visit_each_way, rig_all() | ds_configuration->off_os);
	EXPECT_EQ(returns_count, WAYS);
	for (unsigned way = 0; way < WAYS; way++)
		expect_visit(&rig, &slot, from[way]);
	EXPECT_EQ(rig_count(&rig), slot);
	close(&rig);
}

/* A hypervisor may learn from the first visit that there are such returns, and has to say so. */
TEST(bts_filter_far_return, .group = "P", .ids = "P1",
     .needs = NEED_BTS | NEED_DSCPL | NEED_SELFTEST,
     .claim =
	     "with BTS_OFF_OS recording goes on after a far RET to ring 3, the second one at the latest",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	size_t slot = 0;
	struct rig rig;

	open(&rig);
	run(&rig, visit_by_far_return, rig_all() | ds_configuration->off_os);
	EXPECT_EQ(returns_count, 1);
	test_observe("first_far_return", "%zu records", rig_count(&rig));
	run(&rig, visit_by_far_return, rig_all() | ds_configuration->off_os);
	EXPECT_EQ(returns_count, 1);
	expect_visit(&rig, &slot, returns_far);
	EXPECT_EQ(rig_count(&rig), slot);
	close(&rig);
}

TEST(bts_filter_undefined, .group = "P", .ids = "P1", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "with BTS_OFF_OS #UD arrives from ring 0 and ring 3, and IA32_EFER is as written",
     .source = "SDM Vol 3, 17.4.9.4 and 17.4.5: BTS stores records, and does nothing else")
{
	const uint64_t at[FAULTS] = {(uint64_t)undefined_ud2, UD2_AT, UD2_AT,
				     (uint64_t)undefined_sysret};
	struct rig rig;

	open(&rig);
	run(&rig, fault_each_way, rig_all() | ds_configuration->off_os);
	EXPECT_EQ(returns_count, FAULTS + 1);
	EXPECT_EQ(undefined_count, FAULTS);
	for (unsigned n = 0; n < FAULTS; n++)
		EXPECT_EQ(undefined_at[n], at[n]);
	EXPECT_EQ(returns_efer & 1, 1);
	EXPECT_EQ(returns_efer >> 32 & 1, 0);
	close(&rig);
}
