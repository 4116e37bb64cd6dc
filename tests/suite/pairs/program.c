// SPDX-License-Identifier: MIT
#include "tests/suite/pairs/program.h"

#include "drivers/apic/lapic.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/lock.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pt_rig.h"

#define EXIT	    VECTOR_MC /* INT n at the end of the program: it has a stack by IST */
#define BELOW_TEST  ((VECTOR_TEST & 0xf0) - 0x10)
#define IA32_XSS    0xda0u
#define CR4_OSXSAVE (1ul << 18)
#define IOPL_3	    0x3000u
/* Intel PT, last branch records: SDM Vol 1, 13.5.6; Linux 6.1, fpu/types.h. */
#define COMPONENTS (1u << 8 | 1u << 15)

/* Below 64 KiB for code of 16 bits: the code for either ring, data, a user stack. */
#define CODE	  0x6000ul
#define USER	  0x7000ul
#define DATA	  0x8000ul
#define STACK	  0x9000ul
#define NOWHERE	  0xf000ul /* not mapped */
#define STACK_TOP 0xff0ul

_Static_assert(VECTOR_MC == 18 && KERNEL_DATA == 0x10 && DATA == 0x8000, "assembly below");
_Static_assert(offsetof(struct pair_program, off) == 48 &&
		       offsetof(struct pair_program, frame) == 96 &&
		       offsetof(struct pair_program, data) == 136 &&
		       offsetof(struct pair_program, rsi) == 144,
	       "pairs_enter()");

/* clang-format off */
extern const uint8_t pairs_64[], pairs_64_event[], pairs_32[], pairs_32_event[], pairs_16[],
	pairs_16_event[], pairs_end[], pairs_return[], pairs_skip[], pairs_skip_error[],
	pairs_step[], pairs_nmi[], pairs_sysret[], pairs_exit[], pairs_stop[], pairs_around_end[];
void pairs_enter(struct pair_program *program);

/* Of pairs_enter(): its stack; where its first NMI leads. */
uint64_t pairs_stack, pairs_resume;

/* Four branches are the deepest that each LBR stack keeps: the event is the last but two. */
#define PROGRAM(name, accumulator) \
	name ":\t" PT_JMP("1f") \
	"nop\n" \
	"1:\tmovl $8, %ecx\n" \
	"2:\tdecl %ecx\n\t" \
	PT_JCC("jnz", "2b") \
	PT_CALL("4f") \
	PT_CALL("5f") \
	PT_CALL("6f") \
	PT_JCC("jnz", "3f") \
	name "_event: .fill 24, 1, 0x90\n\t" \
	"xorl %ecx, %ecx\n\t" \
	PT_JCC("jz", "3f") \
	"nop\n" \
	"3:\tint $18\n" \
	"4:\t" PT_RET \
	"5:\tpop " accumulator "\n\t" \
	PT_JMP_TO(accumulator) \
	"6:\tpop " accumulator "\n\t" \
	PT_CALL_TO(accumulator)

__asm__(".pushsection .rodata\n"
	PROGRAM("pairs_64", "%rax") "\t.code32\n"
	PROGRAM("pairs_32", "%eax") "\t.code16\n"
	PROGRAM("pairs_16", "%ax") "\t.code64\n"
	"pairs_end: .popsection");

/* Handlers: return; skip an instruction of two bytes, with an error code or without; clear TF. The
   one of NMIs goes on at pairs_resume if that is not 0, and leaves NMIs blocked. */
__asm__(".pushsection .text\n"
	"pairs_return: " PT_FAR("iretq")
	"pairs_skip_error: addq $8, %rsp\n"
	"pairs_skip: addq $2, (%rsp)\n\t" PT_FAR("iretq")
	"pairs_step: andq $~0x100, 16(%rsp)\n\t" PT_FAR("iretq")
	"pairs_nmi: cmpq $0, pairs_resume(%rip)\n\t" PT_JCC("jne", "1f") PT_FAR("iretq")
	"1:\tjmp *pairs_resume(%rip)\n"
	"pairs_sysret: " PT_FAR("sysretq")
	".popsection");

#define WRITE(at) \
	"movl " #at "(%r13), %ecx\n\tmovl " #at "+4(%r13), %eax\n\t" \
	"movl " #at "+8(%r13), %edx\n\twrmsr\n\t"

/* An NMI that is raised while another is served waits for IRETQ, which is the one into the program:
   SDM Vol 3, 6.7.1. The local APIC has a while to deliver it. With a stack of 16 bits IRETQ may keep
   the upper part of RSP, at which a handler of ring 0 then begins: hence a stack in the data, and
   one by IST at the end. */
__asm__(".pushsection .text\n"
	"pairs_enter: pushfq\n\tpushq %rbx\n\tpushq %rbp\n\tpushq %r12\n\tpushq %r13\n\t"
	"pushq %r14\n\tpushq %r15\n\tmovq %rdi, %r13\n\tmovq %rsp, pairs_stack(%rip)\n\t"
	"cmpl $0, 140(%r13)\n\tjz 2f\n\t"
	"leaq 1f(%rip), %rax\n\tmovq %rax, pairs_resume(%rip)\n\t"
	"pushq %r13\n\tcall lapic_self_nmi\n"
	"0:\tpause\n\tjmp 0b\n"
	"1:\tmovq pairs_stack(%rip), %rsp\n\tmovq -8(%rsp), %r13\n\t"
	"movq $0, pairs_resume(%rip)\n\tcall lapic_self_nmi\n\tmovl $1000, %ecx\n"
	"3:\tpause\n\tloop 3b\n"
	"2:\tmovl 136(%r13), %eax\n\tmovl %eax, %ds\n\tmovl %eax, %es\n\t"
	"movq 144(%r13), %rsi\n\tmovq 152(%r13), %rdi\n\t"
	WRITE(0) WRITE(12) WRITE(24) WRITE(36) "movl $0x8800, %esp\n\t"
	"pushq 128(%r13)\n\tpushq 120(%r13)\n\tpushq 112(%r13)\n\tpushq 104(%r13)\n\t"
	"pushq 96(%r13)\n\t" PT_FAR("iretq")
	"pairs_exit: movq pairs_stack(%rip), %rsp\n\t"
	"movl 48(%r13), %ecx\n\tmovl 52(%r13), %eax\n\tmovl 56(%r13), %edx\n"
	"pairs_stop: wrmsr\n\t" WRITE(60) WRITE(72) WRITE(84)
	"movl $0x10, %eax\n\tmovl %eax, %ss\n\tmovl %eax, %ds\n\tmovl %eax, %es\n\t"
	"popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbp\n\tpopq %rbx\n\tpopfq\n\tret\n"
	"pairs_around_end: .popsection");
/* clang-format on */

static const struct {
	const uint8_t *start, *event, *end;
	uint16_t code, stack, user_code, user_data;
} modes[] = {
	[MODE_64] = {pairs_64, pairs_64_event, pairs_32, KERNEL_CODE, KERNEL_DATA, USER_CODE,
		     USER_DATA},
	[MODE_32] = {pairs_32, pairs_32_event, pairs_16, OWN_CODE_32, OWN_DATA_32, OWN_USER_CODE_32,
		     OWN_USER_DATA_32},
	[MODE_16] = {pairs_16, pairs_16_event, pairs_end, OWN_CODE_16, OWN_DATA_16,
		     OWN_USER_CODE_16, OWN_USER_DATA_16},
};

/*
 * UD2; STI, NOP, NOP, CLI; PUSHF, OR of TF into it, POPF; MOV AL, [SI]; SYSCALL; XSAVES and XRSTORS
 * of x87, Intel PT and last branch records at DI, MOV EAX, 8101H and XOR EDX, EDX first.
 */
static const struct {
	const char *bytes;
	size_t size;
} events[][3] = {
#define EVENT(text)                                                                                \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}
	[EVENT_EXCEPTION] = {EVENT("\x0f\x0b"), EVENT("\x0f\x0b"), EVENT("\x0f\x0b")},
	[EVENT_INTERRUPT] = {EVENT("\xfb\x90\x90\xfa"), EVENT("\xfb\x90\x90\xfa"),
			     EVENT("\xfb\x90\x90\xfa")},
	[EVENT_STEP] = {EVENT("\x9c\x80\x4c\x24\x01\x01\x9d"),
			EVENT("\x9c\x80\x4c\x24\x01\x01\x9d"),
			EVENT("\x9c\x67\x80\x4c\x24\x01\x01\x9d")},
	[EVENT_FAULT] = {EVENT("\x8a\x06"), EVENT("\x8a\x06"), EVENT("\x8a\x04")},
	[EVENT_SYSCALL] = {EVENT("\x0f\x05")},
	[EVENT_XSAVES] = {EVENT("\xb8\x01\x81\0\0\x31\xd2\x48\x0f\xc7\x2f\x48\x0f\xc7\x1f"),
			  EVENT("\xb8\x01\x81\0\0\x31\xd2\x0f\xc7\x2f\x0f\xc7\x1f"),
			  EVENT("\x66\xb8\x01\x81\0\0\x66\x31\xd2\x0f\xc7\x2d\x0f\xc7\x1d")},
};

static uint64_t page_of(const struct pair_row *row)
{
	return row->ring == RING_3 ? USER : CODE;
}

/* Where a label of the program is executed. */
static uint64_t place(const struct pair_row *row, const uint8_t *label)
{
	return page_of(row) + (uint64_t)(label - pairs_64);
}

struct pair_places pair_places(const struct pair_row *row)
{
	return (struct pair_places){place(row, modes[row->mode].start),
				    place(row, modes[row->mode].event),
				    place(row, modes[row->mode].end)};
}

bool pair_has(const struct pair_row *row, uint64_t address)
{
	struct pair_places places = pair_places(row);

	return (address >= places.start && address < places.end) ||
	       (address >= (uint64_t)pairs_return && address < (uint64_t)pairs_around_end);
}

/* The branches are noted where the program is linked. */
bool pair_find(const void *of, uint64_t ip, struct flow_block *block)
{
	struct pt_rig rig = {.last = (uint64_t)pairs_stop};
	const struct pair_program *program = of;
	uint64_t moved = 0, event = pair_places(program->row).event;

	if (ip - page_of(program->row) < PAGE_SIZE)
		moved = (uint64_t)pairs_64 - page_of(program->row);
	if (!pt_find_noted(&rig, ip + moved, block))
		return false;
	block->branch -= moved;
	block->next -= moved;
	block->target -= moved;
	if (program->row->event == EVENT_SYSCALL && ip <= event && event < block->branch)
		*block = (struct flow_block){.kind = FLOW_FAR, .branch = event, .next = event + 2};
	return true;
}

void pair_open(struct pair_program *program)
{
	*program = (struct pair_program){.code = test_area(1),
					 .data_page = test_area(1),
					 .user_stack = test_area(1),
					 .interrupt_stack = test_area(1)};
	code_map(CODE, program->code, 0);
	code_map(USER, program->code, VM_USER);
	code_map_data(DATA, program->data_page, 0);
	code_map_data(STACK, program->user_stack, VM_USER);
}

void pair_close(struct pair_program *program)
{
	(void)program;
	for (uint64_t page = CODE; page <= STACK; page += PAGE_SIZE)
		code_unmap(page);
}

bool pair_has_event(const struct pair_row *row)
{
	return row->event != EVENT_XSAVES || (cpuid(0, 0).eax >= 0xd && cpuid(0xd, 1).eax >> 3 & 1);
}

void pair_set_write(struct pair_program *program, unsigned n, uint32_t msr, uint64_t value,
		    uint64_t after)
{
	program->on[n] = (struct pair_write){msr, (uint32_t)value, (uint32_t)(value >> 32)};
	program->off[PAIR_WRITES - 1 - n] =
		(struct pair_write){msr, (uint32_t)after, (uint32_t)(after >> 32)};
}

static void write_code(const struct pair_program *program)
{
	const struct pair_row *row = program->row;

	memcpy(program->code, pairs_64, (size_t)(pairs_end - pairs_64));
	if (row->event < sizeof(events) / sizeof(events[0]))
		memcpy(program->code + (modes[row->mode].event - pairs_64),
		       events[row->event][row->mode].bytes, events[row->event][row->mode].size);
}

static void set_frame(struct pair_program *program)
{
	const struct pair_row *row = program->row;
	bool user = row->ring == RING_3;

	program->frame[0] = pair_places(row).start;
	program->frame[1] = user ? modes[row->mode].user_code : modes[row->mode].code;
	program->frame[2] = 2 | IOPL_3;
	program->frame[3] = (user ? STACK : DATA) + STACK_TOP;
	program->frame[4] = user ? modes[row->mode].user_data : modes[row->mode].stack;
	program->data = modes[row->mode].user_data;
	program->arm_nmi = row->event == EVENT_NMI;
	program->rsi = NOWHERE;
	program->rdi = DATA;
}

static void set_handlers(void)
{
	own_idt_begin(VECTOR_UD, pairs_skip, false);
	own_idt_set(VECTOR_PF, pairs_skip_error, false);
	own_idt_set(VECTOR_DB, pairs_step, false);
	own_idt_set(VECTOR_NMI, pairs_nmi, false);
	own_idt_set(VECTOR_TEST, pairs_return, false);
	own_idt_set(EXIT, pairs_exit, true);
}

/* Runs the program with its own IDT, GDT, stack of interrupts and LSTAR on this CPU. */
static void enter(struct pair_program *program)
{
	struct cpu *cpu = this_cpu();
	uint64_t stack = cpu->task_state.rsp[0], lstar = rdmsr(IA32_LSTAR);

	set_handlers();
	own_gdt_load();
	own_idt_load();
	cpu->task_state.rsp[0] = (uint64_t)program->interrupt_stack + PAGE_SIZE;
	wrmsr(IA32_LSTAR, (uint64_t)pairs_sysret);
	pairs_enter(program);
	wrmsr(IA32_LSTAR, lstar);
	cpu->task_state.rsp[0] = stack;
	__asm__ volatile("movq %0, %%dr6" : : "r"(DR6_RESET));
	own_idt_unload();
	own_gdt_unload();
}

static void enter_with_states(struct pair_program *program)
{
	uint64_t cr4, xss = rdmsr(IA32_XSS);

	__asm__ volatile("movq %%cr4, %0" : "=r"(cr4));
	__asm__ volatile("movq %0, %%cr4" : : "r"(cr4 | CR4_OSXSAVE));
	wrmsr(IA32_XSS, cpuid(0xd, 1).ecx & COMPONENTS);
	enter(program);
	wrmsr(IA32_XSS, xss);
	__asm__ volatile("movq %0, %%cr4" : : "r"(cr4));
}

void pair_run(struct pair_program *program, const struct pair_row *row)
{
	uint64_t flags = interrupts_save();

	program->row = row;
	write_code(program);
	set_frame(program);
	lapic_set_task_priority(BELOW_TEST);
	if (row->event == EVENT_INTERRUPT)
		own_raise_interrupt(); /* for IF = 1, as the program has it */
	if (row->event == EVENT_XSAVES)
		enter_with_states(program);
	else
		enter(program);
	if (row->event == EVENT_INTERRUPT)
		lapic_eoi();
	lapic_set_task_priority(0);
	interrupts_restore(flags);
}
