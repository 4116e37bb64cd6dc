// SPDX-License-Identifier: MIT
#include "tests/lib/user_visits.h"

#include "drivers/apic/lapic.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/rig.h"

#define HIGHEST_PRIORITY 0xf0 /* of tasks: all fixed interrupts wait */
#define CODE_END	 (VISITS_AT + sizeof(code))
#define JNZ_AT		 (CODE_END - 4)
#define DEC_AT		 (CODE_END - 6)

/* MOV ECX, 20; DEC ECX; JNZ to the DEC; SYSCALL */
static const uint8_t code[] = {0xb9, VISIT_BRANCHES + 1, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0x0f,
			       0x05};

/* SHR RBX; JC over a NOP; DEC ECX; JNZ to the SHR; SYSCALL */
static const uint8_t directions_code[] = {0x48, 0xd1, 0xeb, 0x72, 0x01, 0x90,
					  0xff, 0xc9, 0x75, 0xf6, 0x0f, 0x05};

static void open_code(const uint8_t *bytes, size_t size)
{
	uint8_t *page = test_area(1);

	memcpy(page, bytes, size);
	code_map(VISITS_AT, page, VM_USER);
}

void user_visits_open(void)
{
	open_code(code, sizeof(code));
}

void user_directions_open(void)
{
	open_code(directions_code, sizeof(directions_code));
}

void user_directions_run(uint32_t msr, uint64_t value, uint64_t directions)
{
	struct trap_frame frame = {.rip = VISITS_AT, .rbx = directions, .rcx = 64};

	wrmsr(msr, value);
	user_run(&frame);
	wrmsr(msr, 0);
}

void user_visits_close(void)
{
	code_unmap(VISITS_AT);
}

_Static_assert(VISITS_SYSCALL_AT == CODE_END - 2, "the last instruction");

extern const uint8_t user_code[], user_call[], user_called[], user_jmp[], user_ret[], user_far[],
	user_call_rax[], user_back[], user_jmp_short[], user_jz[], user_jrcxz[], user_jz_to[],
	user_end[], user_code_end[];
__asm__(".pushsection .rodata\n"
	"user_code:\nuser_call: call user_ret\n"
	"user_called: leaq user_far(%rip), %rax\n"
	"user_jmp: jmp *%rax\n"
	"user_ret: ret\n\t.fill 100, 1, 0x90\n"
	"user_far: leaq user_ret(%rip), %rax\n"
	"user_call_rax: call *%rax\n"
	"user_back: nop\n"
	"user_jmp_short: jmp user_jz_to\n\tud2\n"
	"user_jz_to: xorl %ecx, %ecx\n"
	"user_jz: jz user_jrcxz\n\tud2\n"
	"user_jrcxz: jrcxz user_end\n\tud2\n"
	"user_end: syscall\n"
	"user_code_end: .popsection");

static const struct {
	const uint8_t *from, *to;
} user_branches[USER_BRANCHES] = {{user_call, user_ret}, {user_ret, user_called},
				  {user_jmp, user_far},	 {user_call_rax, user_ret},
				  {user_ret, user_back}, {user_jmp_short, user_jz_to},
				  {user_jz, user_jrcxz}, {user_jrcxz, user_end}};

struct user_branch user_branch(unsigned n)
{
	return (struct user_branch){VISITS_AT + (uint64_t)(user_branches[n].from - user_code),
				    VISITS_AT + (uint64_t)(user_branches[n].to - user_code)};
}

#define STACK_AT (VISITS_AT + PAGE_SIZE)

static void open_with_stack(const uint8_t *bytes, size_t size)
{
	uint8_t *pages = test_area(2);

	memcpy(pages, bytes, size);
	code_map(VISITS_AT, pages, VM_USER);
	code_map_data(STACK_AT, pages + PAGE_SIZE, VM_USER);
}

void user_branches_open(void)
{
	open_with_stack(user_code, (size_t)(user_code_end - user_code));
}

void user_branches_close(void)
{
	code_unmap(STACK_AT);
	code_unmap(VISITS_AT);
}

void user_branches_run(uint64_t debugctl)
{
	/* As from a system call: by SYSRET. */
	struct trap_frame frame = {
		.rip = VISITS_AT, .rsp = STACK_AT + PAGE_SIZE, .vector = VECTOR_SYSCALL};
	uint64_t *stack = vm_entry(STACK_AT);
	bool went;

	*stack &= ~PTE_DIRTY;
	vm_flush(STACK_AT);

	lapic_set_task_priority(HIGHEST_PRIORITY);
	wrmsr(IA32_DEBUGCTL, debugctl);
	went = user_run(&frame);
	wrmsr(IA32_DEBUGCTL, 0);
	lapic_set_task_priority(0);
	EXPECT(went && frame.vector == VECTOR_SYSCALL);
	EXPECT(*stack & PTE_DIRTY);
}

/* CALL; POP RAX; SYSCALL */
static const uint8_t call_of_next[] = {0xe8, 0, 0, 0, 0, 0x58, 0x0f, 0x05};

void user_call_of_next_run(uint32_t msr, uint64_t value)
{
	struct trap_frame frame = {.rip = VISITS_AT, .rsp = STACK_AT + PAGE_SIZE};

	open_with_stack(call_of_next, sizeof(call_of_next));
	wrmsr(msr, value);
	user_run(&frame);
	wrmsr(msr, 0);
	user_branches_close();
	EXPECT_EQ(frame.vector, VECTOR_SYSCALL);
}

static bool is_kernel(uint64_t address)
{
	return address >> 63;
}

static void sort(struct user_visits *visits, const struct bts_struct *record)
{
	uint64_t from = record->from, to = record->to;

	if (to == VISITS_AT) {
		visits->to_user++;
		visits->wrong_from += !text_is_iretq(from);
	} else if (to == (uint64_t)syscall_entry) {
		visits->to_kernel++;
		visits->wrong_from += from != VISITS_SYSCALL_AT;
	} else if (from == JNZ_AT && to == DEC_AT) {
		visits->user++;
	} else if (is_kernel(from) && is_kernel(to)) {
		visits->kernel++;
		visits->kernel_sum = visits->kernel_sum * 31 + from;
		visits->kernel_sum = visits->kernel_sum * 31 + to;
	} else {
		visits->wrong++;
	}
}

static inline __attribute__((always_inline)) bool visit(void)
{
	bool whole = true;

	for (unsigned n = 0; n < VISITS; n++) {
		struct trap_frame frame = {.rip = VISITS_AT};

		user_run(&frame);
		whole &= frame.vector == VECTOR_SYSCALL && frame.rip == CODE_END;
	}
	return whole;
}

void user_visits_run(void)
{
	bool whole;

	lapic_set_task_priority(HIGHEST_PRIORITY);
	whole = visit();
	lapic_set_task_priority(0);
	EXPECT(whole);
}

static uint64_t trace(uint64_t debugctl)
{
	bool whole;

	lapic_set_task_priority(HIGHEST_PRIORITY);
	wrmsr(IA32_DEBUGCTL, debugctl);
	whole = visit();
	debugctl = rdmsr(IA32_DEBUGCTL);
	wrmsr(IA32_DEBUGCTL, 0);
	lapic_set_task_priority(0);
	EXPECT(whole);
	return debugctl;
}

struct user_visits user_visits_trace(struct rig *rig, uint64_t debugctl)
{
	struct user_visits visits = {0};

	EXACTLY (rig)
		visits.debugctl = trace(debugctl);
	visits.count = rig_count(rig);
	EXPECT(visits.count < rig->slots - 1);
	for (size_t slot = 0; slot < visits.count; slot++) {
		struct bts_struct record = rig_record(rig, slot);

		sort(&visits, &record);
	}
	return visits;
}
