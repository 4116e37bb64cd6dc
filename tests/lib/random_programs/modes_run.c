// SPDX-License-Identifier: MIT
// Where a program that changes mode runs: memory, descriptors, MSRs, handlers, the way in and out.
#include "tests/lib/random_programs/modes.h"

#include "drivers/apic/lapic.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pt_rig.h"

#define IA32_APIC_BASE 0x1bu
#define APIC_ADDRESS   (~0xffful & ((1ul << 52) - 1))

extern const char modes_resume_iret[], modes_gate_jmp[], modes_syscall_jmp[];
extern uint64_t modes_stack;
uint64_t modes_stack;

_Static_assert(KERNEL_CODE == 8 && OWN_USER_DATA_32 == 0xb3 && OWN_DATA_32 == 0x88 &&
		       MODES_STACK + MODES_STACK_TOP == 0x5a050ff0,
	       "assembly below");
_Static_assert(offsetof(struct modes_start, entry) == 20 &&
		       offsetof(struct modes_start, flags) == 24 &&
		       offsetof(struct modes_start, debugctl) == 32,
	       "modes_enter()");

/*
 * RBP says where a program goes on after an event. A gate clears TF (SDM Vol 3, 6.12.1.3): the
 * handlers set it again, so that the steps show their ends. RF is cleared, as a breakpoint where
 * the program goes on would be missed.
 */
/* clang-format off */
#define AS_INTERRUPTED "pushq 16(%rsp)\n\tpopfq\n\t"
__asm__(".pushsection .text\n"
	".globl modes_enter, modes_first, modes_exit, modes_nmi, modes_nmi_iret, modes_syscall\n"
	".globl modes_handlers_end, modes_resume, modes_resume_error, modes_gate\n"
	"modes_enter: pushfq\n\tcli\n\tpushq %rbx\n\tpushq %rbp\n\tpushq %r12\n\tpushq %r13\n\t"
	"pushq %r14\n\tpushq %r15\n\tmovq %rsp, modes_stack(%rip)\n\t"
	"movl $0xb3, %eax\n\tmovl %eax, %ds\n\tmovl %eax, %es\n\t"
	"movl $0x88, %eax\n\tmovl %eax, %ss\n\t"
	"movl 32(%rdi), %eax\n\tmovl 36(%rdi), %edx\n\tmovl $0x1d9, %ecx\n\twrmsr\n\t"
	"movl (%rdi), %eax\n\tmovl 4(%rdi), %edx\n\tmovl 8(%rdi), %ebx\n\tmovl 12(%rdi), %esi\n\t"
	"movl 20(%rdi), %ebp\n\tpushq 24(%rdi)\n\tmovl 16(%rdi), %edi\n\tpopfq\n\tnop\n"
	"modes_first: " PT_JMP_TO("%rbp")
	"modes_resume_error: addq $8, %rsp\n"
	"modes_resume: movslq %ebp, %rbp\n\tmovq %rbp, (%rsp)\n\tandl $~0x10000, 16(%rsp)\n\t"
	AS_INTERRUPTED "nop\n"
	"modes_resume_iret: " PT_FAR("iretq")
	"modes_gate: movl $0x88, %eax\n\tmovl %eax, %ss\n\tmovslq %ebp, %rbp\n\t"
	AS_INTERRUPTED "movl $0x5a050ff0, %esp\n"
	"modes_gate_jmp: " PT_JMP_TO("%rbp")
	"modes_syscall: movslq %ebp, %rbp\n\tmovl $0x5a050ff0, %esp\n"
	"modes_syscall_jmp: " PT_JMP_TO("%rbp")
	"modes_nmi: " AS_INTERRUPTED "nop\n"
	"modes_nmi_iret: " PT_FAR("iretq")
	"modes_handlers_end:\n"
	"modes_exit: movq modes_stack(%rip), %rsp\n\tpushq $2\n\tpopfq\n\t"
	"movl $0x1d9, %ecx\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\t"
	"movl $0x10, %eax\n\tmovl %eax, %ss\n\tmovl %eax, %ds\n\tmovl %eax, %es\n\t"
	"pushq $8\n\tleaq 1f(%rip), %rax\n\tpushq %rax\n\t" PT_FAR("lretq")
	"1:\tpopq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbp\n\tpopq %rbx\n\tpopfq\n\t"
	PT_RET ".popsection");
/* clang-format on */

static const struct {
	const char *from;
	enum modes_kind kind;
} in_handlers[] = {{modes_first, MODES_JMP_INDIRECT},
		   {modes_resume_iret, MODES_FAR},
		   {modes_gate_jmp, MODES_JMP_INDIRECT},
		   {modes_syscall_jmp, MODES_JMP_INDIRECT},
		   {modes_nmi_iret, MODES_FAR}};

static void map_window(struct modes_window *window, uint32_t at, unsigned flags)
{
	window->at = at;
	window->code = test_area(MODES_PAGES);
	window->branches =
		test_area((MODES_BRANCHES * sizeof(struct modes_branch)) / PAGE_SIZE + 1);
	for (size_t page = 0; page < MODES_PAGES * PAGE_SIZE; page += PAGE_SIZE) {
		code_map(at + page, window->code + page, flags);
		code_map_data(at + MODES_WRITABLE + page, window->code + page, flags);
	}
}

void modes_open(struct modes_program *p)
{
	*p = (struct modes_program){.interrupt_stack = test_area(1)};
	map_window(&p->window[0], MODES_CODE, 0);
	map_window(&p->window[1], MODES_USER, VM_USER);
	for (unsigned ring = 0; ring < 2; ring++)
		p->stack[ring] = test_area(1);
	code_map_data(MODES_STACK, p->stack[0], 0);
	code_map_data(MODES_USER_STACK, p->stack[1], VM_USER);
	if (!lapic_is_x2apic() &&
	    !vm_map(MODES_APIC, rdmsr(IA32_APIC_BASE) & APIC_ADDRESS, VM_WRITE | VM_UNCACHED))
		test_error("no memory for the page tables of %x", MODES_APIC);
}

void modes_close(struct modes_program *p)
{
	for (unsigned ring = 0; ring < 2; ring++)
		for (size_t page = 0; page < MODES_PAGES * PAGE_SIZE; page += PAGE_SIZE) {
			code_unmap(p->window[ring].at + page);
			code_unmap(p->window[ring].at + MODES_WRITABLE + page);
		}
	code_unmap(MODES_STACK);
	code_unmap(MODES_USER_STACK);
	if (!lapic_is_x2apic())
		code_unmap(MODES_APIC);
}

#define CR4_SMAP (1ul << 21)
#define IF	 0x200u
#define DF	 0x400u
static const uint32_t msrs[] = {0xc0000081, 0xc0000082, 0xc0000084, 0x174, 0x175, 0x176};
enum { MSRS = sizeof(msrs) / sizeof(msrs[0]) };

void modes_prepare(void)
{
	own_idt_copy();
	own_idt_set(VECTOR_DE, modes_resume, false);
	own_idt_set(VECTOR_UD, modes_resume, false);
	own_idt_set(VECTOR_GP, modes_resume_error, false);
	own_idt_set(VECTOR_PF, modes_resume_error, false);
	own_idt_set(VECTOR_NMI, modes_nmi, false);
	own_idt_set(VECTOR_BP, modes_resume, true);
	own_idt_set(MODES_CALLED, modes_resume, true);
	own_idt_set(MODES_STAYING, modes_gate, true);
}

/*
 * SYSCALL does not clear TF here: SDM Vol 2. SMAP is off: QEMU 7.2 takes the stack of a far CALL,
 * RET or IRET in ring 3 for the supervisor's (target/i386/tcg/seg_helper.c).
 */
void modes_load(struct modes_program *p)
{
	struct task_state *state = &this_cpu()->task_state;
	const uint64_t star = (uint64_t)OWN_FAST << 32 | (uint64_t)OWN_FAST_USER << 48;
	const uint64_t values[MSRS] = {
		star,	  (uint64_t)modes_syscall,	 IF | DF,
		OWN_FAST, MODES_STACK + MODES_STACK_TOP, (uint64_t)modes_syscall};

	p->flags = interrupts_save();
	__asm__ volatile("mov %%cr4, %0" : "=r"(p->kept_cr4));
	__asm__ volatile("mov %0, %%cr4" : : "r"(p->kept_cr4 & ~CR4_SMAP));
	for (unsigned i = 0; i < MSRS; i++) {
		p->kept[i] = rdmsr(msrs[i]);
		wrmsr(msrs[i], values[i]);
	}
	p->kept_stack = state->rsp[0];
	state->rsp[0] = (uint64_t)p->interrupt_stack + PAGE_SIZE;
	own_gdt_load();
	own_idt_load();
}

void modes_unload(struct modes_program *p)
{
	own_idt_unload();
	own_gdt_unload();
	this_cpu()->task_state.rsp[0] = p->kept_stack;
	for (unsigned i = 0; i < MSRS; i++)
		wrmsr(msrs[i], p->kept[i]);
	__asm__ volatile("mov %0, %%cr4" : : "r"(p->kept_cr4));
	interrupts_restore(p->flags);
}

static const struct modes_window *find_window(const struct modes_program *p, uint64_t address)
{
	for (unsigned ring = 0; ring < 2; ring++)
		if (address >= p->window[ring].at &&
		    address < p->window[ring].at + p->window[ring].size)
			return &p->window[ring];
	return NULL;
}

bool modes_is_code(const struct modes_program *p, uint64_t address)
{
	return find_window(p, address) != NULL;
}

bool modes_has(const struct modes_program *p, uint64_t address)
{
	return modes_is_code(p, address) ||
	       (address >= (uint64_t)modes_first && address < (uint64_t)modes_handlers_end);
}

static const struct modes_branch *search(const struct modes_window *window, uint64_t address)
{
	size_t first = 0, end = window->count;

	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (window->branches[middle].from < address)
			first = middle + 1;
		else
			end = middle;
	}
	return first < window->count ? &window->branches[first] : NULL;
}

const struct modes_branch *modes_branch_at(const struct modes_program *p, uint64_t address)
{
	static struct modes_branch of_handler;
	const struct modes_window *window = find_window(p, address);
	const struct modes_branch *branch = window ? search(window, address) : NULL;

	if (branch)
		return branch->from == address ? branch : NULL;
	for (unsigned i = 0; i < sizeof(in_handlers) / sizeof(in_handlers[0]); i++)
		if ((uint64_t)in_handlers[i].from == address) {
			of_handler = (struct modes_branch){.from = (uint32_t)address,
							   .kind = in_handlers[i].kind};
			return &of_handler;
		}
	return NULL;
}

const struct modes_branch *modes_branch_after(const struct modes_program *p, uint64_t address)
{
	const struct modes_window *window = find_window(p, address);
	const struct modes_branch *branch = window ? search(window, address) : NULL;

	while (branch && branch->kind >= MODES_SOFTWARE)
		branch = branch + 1 < window->branches + window->count ? branch + 1 : NULL;
	return branch;
}

uint64_t modes_target(const struct modes_program *p, const struct modes_branch *branch)
{
	if (!branch->site)
		return modes_address(branch->to);
	return branch->next + (p->sites[branch->site].passes & 1 ? MODES_ONE_WAY : MODES_OTHER_WAY);
}
