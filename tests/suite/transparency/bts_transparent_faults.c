// SPDX-License-Identifier: MIT
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/framework/pages.h"
#include "tests/framework/test.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/random_programs/machine.h"
#include "tests/lib/rig.h"

#include <stdbool.h>
#include <stdint.h>

/* Code that may fault, run untraced or traced, and what came of it. */

/* The layout is known to the assembly below. */
struct faulted {
	uint64_t vector; /* CAUGHT_NONE: the code came to its end */
	uint64_t error, cr2, rip;
	uint64_t rcx, rdi, rsi; /* then */
	uint64_t stack;		/* the sum of RSP in the handler and of RSP before */
	uint64_t flags;		/* in the handler: TF, IF, DF, IOPL, NT, AC */
};
#define CAUGHT_NONE 256ul
#define FLAG_RF	    (1ul << 16)

#define STUB_BYTES 16

static struct faulted caught __attribute__((used));
static uint64_t caught_frame __attribute__((used)); /* RFLAGS in it */

/* What runs untraced and traced has the same stack, not the caller's. */
static uint8_t caught_stack[1024] __attribute__((used, aligned(16)));

extern const char caught_stubs[], caught_stubs_error[];
void caught_enter(const void *code, const uint64_t registers[3], uint64_t flags, uint64_t debugctl);

/*
 * For vectors 0 to 19 twice, as they have an error code or not: the vector goes below it. Offsets
 * in `caught`: vector 0, error 8, CR2 16, RIP 24, RCX 32, RDI 40, RSI 48, stack 56, flags 64.
 */
__asm__(".pushsection .text\n\t.set caught_n, 0\n\t.balign 16\ncaught_stubs:\n"
	".rept 20\n\t.balign 16\n\tpushq $0\n\tpushq $caught_n\n\tjmp caught_common\n"
	"\t.set caught_n, caught_n + 1\n\t.endr\n\t.set caught_n, 0\n\t.balign 16\ncaught_stubs_error:\n"
	".rept 20\n\t.balign 16\n\tpushq $caught_n\n\tjmp caught_common\n"
	"\t.set caught_n, caught_n + 1\n\t.endr\n"
	"caught_common: pushfq\n\tpopq %rax\n\tandl $0x47700, %eax\n\t"
	"movq %rax, caught+64(%rip)\n\t"
	"movq %rcx, caught+32(%rip)\n\tmovq %rdi, caught+40(%rip)\n\t"
	"movq %rsi, caught+48(%rip)\n\tmovq %cr2, %rax\n\tmovq %rax, caught+16(%rip)\n\t"
	"popq %rax\n\tmovq %rax, caught(%rip)\n\tpopq %rax\n\tmovq %rax, caught+8(%rip)\n\t"
	"movq (%rsp), %rax\n\tmovq %rax, caught+24(%rip)\n\tmovq 24(%rsp), %rax\n\t"
	"addq %rsp, %rax\n\tmovq %rax, caught+56(%rip)\n\tmovq 16(%rsp), %rax\n\t"
	"movq %rax, caught_frame(%rip)\n\tmovq %rbx, (%rsp)\n\tiretq\n"
	/* RDI: code, RSI: RDI RSI RCX, RDX: flags, RCX: debugctl */
	"caught_enter: pushq %rbx\n\tpushq %rbp\n\tpushfq\n\tmovq %rsp, %rbp\n\tmovq %rdi, %r8\n\t"
	"movq %rsi, %r9\n\tmovq %rdx, %r10\n\tmovl %ecx, %eax\n\txorl %edx, %edx\n\t"
	"movl $0x1d9, %ecx\n\tcli\n\twrmsr\n\tleaq 1f(%rip), %rbx\n\t"
	"leaq caught_stack+1024(%rip), %rsp\n\tpushq %r10\n\tpopfq\n\t"
	"movq (%r9), %rdi\n\tmovq 8(%r9), %rsi\n\tmovq 16(%r9), %rcx\n\tmovl $0, %eax\n\tjmp *%r8\n"
	"1:\tmovq %rbp, %rsp\n\tpushq $2\n\tpopfq\n\tmovq %rcx, %r8\n\tmovl $0x1d9, %ecx\n\t"
	"xorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\tcmpq $256, caught(%rip)\n\tjne 2f\n\t"
	"movq %r8, caught+32(%rip)\n\tmovq %rdi, caught+40(%rip)\n\tmovq %rsi, caught+48(%rip)\n"
	"2:\tpopfq\n\tpopq %rbp\n\tpopq %rbx\n\tret\n"
	".popsection");

/* Handlers for faults on this CPU, from open to close; preemption off. */
static void caught_open(void)
{
	static const uint8_t with_error[] = {10, 11, 12, 13, 14, 17},
			     without[] = {0, 3, 4, 6, 16, 18, 19};

	own_idt_copy();
	for (unsigned n = 0; n < sizeof(with_error); n++)
		own_idt_set(with_error[n], caught_stubs_error + with_error[n] * STUB_BYTES, false);
	for (unsigned n = 0; n < sizeof(without); n++)
		own_idt_set(without[n], caught_stubs + without[n] * STUB_BYTES, false);
	own_idt_load();
}

static void caught_close(void)
{
	own_idt_unload();
}

/*
 * Jumps to `code` with RDI, RSI and RCX as given, RFLAGS.AC = `ac`, IF = 0 and IA32_DEBUGCTL =
 * `debugctl`. It ends in JMP *RBX, and may change RAX, RDX, RSI, RDI and RCX.
 */
static struct faulted caught_run(const void *code, uint64_t rdi, uint64_t rsi, uint64_t rcx,
				 bool ac, uint64_t debugctl)
{
	const uint64_t registers[3] = {rdi, rsi, rcx};

	caught = (struct faulted){.vector = CAUGHT_NONE};
	__asm__ volatile("mov %0, %%cr2" : : "r"(0ul));
	caught_enter(code, registers, 2 | (ac ? 1u << 18 : 0), debugctl);
	return caught;
}

static void show(const struct faulted *f)
{
	test_note("vector %lu error %lx cr2 %lx rip %lx rcx %lx rdi %lx", f->vector, f->error,
		  f->cr2, f->rip, f->rcx, f->rdi);
}

/* True if both are the same; else says in notes what is not. */
static bool caught_same(const struct faulted *a, const struct faulted *b)
{
	bool same = a->vector == b->vector && a->error == b->error && a->cr2 == b->cr2 &&
		    a->rip == b->rip && a->rcx == b->rcx && a->rdi == b->rdi && a->rsi == b->rsi &&
		    a->stack == b->stack && a->flags == b->flags;

	/* 17.3.1.1, of the second one; #MC is no fault. */
	same &= b->vector >= VECTOR_MC || caught_frame & FLAG_RF;
	if (!same) {
		show(a);
		show(b);
	}
	return same;
}

#define PF_RSVD 8ul

/* Fails the test if they are not, and returns what came of `code` untraced. QEMU 7.2 leaves P clear
   beside RSVD in the error code: SDM Vol 3, 4.7. */
static struct faulted caught_alike(const void *code, uint64_t rdi, uint64_t rsi, uint64_t rcx,
				   bool ac)
{
	struct faulted untraced = caught_run(code, rdi, rsi, rcx, ac, 0);
	struct faulted traced = caught_run(code, rdi, rsi, rcx, ac, rig_all());

	if (untraced.vector == VECTOR_PF)
		untraced.error |= untraced.error / PF_RSVD & 1;
	EXPECT(caught_same(&untraced, &traced));
	return untraced;
}

/* A vector that nothing here uses, with a gate to a data segment; #UD gets another one. QEMU 7.2
   has separate error codes for gates that are not present. */
enum { NO_CODE = 0x72 };

extern const char nested_code[], nested_divide[], nested_segment[], nested_null[], nested_lock[],
	nested_stack[], nested_local[], nested_pop[], nested_task[], nested_wide[], nested_limit[];

__asm__(".pushsection .text\n"
	"nested_code: int $0x72\n\tjmp *%rbx\n"
	"nested_divide: xorl %edx, %edx\n\txorl %ecx, %ecx\n\tdivl %ecx\n\tjmp *%rbx\n"
	"nested_segment: movl $0x7ff8, %eax\n\tmovl %eax, %es\n\tjmp *%rbx\n"
	"nested_local: movl $0x14, %eax\n\tmovl %eax, %es\n\tjmp *%rbx\n" /* no LDT */
	"nested_pop: movabsq $0x8000000000000000, %rdx\n\tpushq %rdx\n\tpopq (%rdx)\n\tjmp *%rbx\n"
	"nested_task: movl %ss, %eax\n\tmovl %cs, %ecx\n\tmovq %rsp, %rdx\n\tpushq %rax\n\tpushq %rdx\n\t"
	"pushfq\n\tpushq %rcx\n\tpushq %rbx\n\tpushfq\n\torl $0x4000, (%rsp)\n\tpopfq\n\tiretq\n"
	"nested_wide: movq %rsp, %rdx\n\torq $8, %rdx\n\tcmpxchg16b (%rdx)\n\tjmp *%rbx\n"
	"nested_limit: int $0\n\tjmp *%rbx\n" /* on a stack by IST as well */
	"nested_null: xorl %eax, %eax\n\tpushq %rax\n\tpushq %rax\n\tlretq\n"
	"nested_stack: int $18\n\tjmp *%rbx\n"				   /* on a stack by IST */
	"nested_lock: pushq %rax\n\t.byte 0xf0, 0xff, 0xc0\n\tjmp *%rbx\n" /* LOCK INC EAX */
	".popsection");

static void check_fault(const char *code)
{
	EXPECT(caught_alike(code, 0, 0, 0, false).vector != CAUGHT_NONE);
}

extern const char odd_code[], odd_return[], odd_ret[];

/*
 * Compilers and random programs seldom use DH, the address of a POP by RSP, XADD of one register,
 * and RAX after a CMPXCHG of 32 bits that stores. Nor do they use the least quotient of IDIV, BT of
 * bits before its operand, and ID over POPFW. RET n pops up to 65535 bytes, PUSH of RSP the old
 * one; REP by ECX does not look at RCX, and RDMSR clears the upper half of RAX. VERR looks at RPL,
 * LODS at GS (in bytes, since clang 14 has REX before the prefix). INT 255 is by the last gate.
 */
#define ODD_SUM (2 * 0x12ul - 1 + 0x80000000ul + 1 + 0x8000) /* in RSI */
__asm__(".pushsection .text\n"
	"odd_bits: .quad 0x0123456789abcdef\n"
	"odd_code: int $255\n\tmovl $0x1234, %edx\n\tmovb %dh, %cl\n\t"
	"pushq %rdx\n\tpushq %rcx\n\tpopq (%rsp)\n\tpopq %rsi\n\txaddl %esi, %esi\n\t"
	"orq $-1, %rax\n\tmovl %eax, %edx\n\tcmpxchgl %ecx, %edx\n\taddq %rax, %rsi\n\t"
	"movl $1, %ecx\n\tmovl $0x80000000, %eax\n\tcltd\n\tidivl %ecx\n\taddq %rax, %rsi\n\t"
	"movb $64, %cl\n\txorl %edx, %edx\n"
	"1:\tdecl %edx\n\tbtw %dx, odd_code(%rip)\n\trclq %rdi\n\tloop 1b\n\t"
	"subq odd_bits(%rip), %rdi\n\taddq %rdi, %rsi\n\t"
	"pushfq\n\torl $0x200000, (%rsp)\n\tpopfq\n\tpushfw\n\tpopfw\n\tpushfq\n\tpopq %rax\n\t"
	"shrl $21, %eax\n\taddq %rax, %rsi\n\t"
	"movq %rsp, %rcx\n\tleaq 2f(%rip), %rdx\n\tpushq %rdx\n\tret $0x8000\n"
	"2:\tmovq %rsp, %rdx\n\tmovq %rcx, %rsp\n\tsubq %rcx, %rdx\n\taddq %rdx, %rsi\n\t"
	"pushq %rsp\n\tpopq %rdx\n\tsubq %rsp, %rdx\n\taddq %rdx, %rsi\n\t"
	"movabsq $0x100000000, %rcx\n\t.byte 0x67, 0xf3, 0xaa\n\t" /* REP STOSB */
	"orq $-1, %rax\n\tmovl $0x1d9, %ecx\n\trdmsr\n\tshrq $32, %rax\n\taddq %rax, %rsi\n\t"
	"movl $0x13, %eax\n\tverr %ax\n\tsetz %al\n\taddq %rax, %rsi\n\t"
	"movq %rsi, %rdi\n\txorl %esi, %esi\n\t.byte 0x65, 0x48, 0xad\n\tsubq %gs:0, %rax\n\t"
	"leaq (%rdi, %rax), %rsi\n\tjmp *%rbx\n"
	"odd_return: movabsq $0x8000000000000000, %rax\n\tpushq %rax\n\tmovq %rsp, %rsi\n"
	"odd_ret: ret\n"
	".popsection");

/* #DE on the stack of each IST field that the kernel has not. An NMI may come on those that it has.
 */
static void check_stacks(void)
{
	struct task_state *task_state = &this_cpu()->task_state;
	static uint8_t stack[1024] __attribute__((aligned(16)));
	unsigned checked = 0;

	for (uint8_t n = 1; n <= 7; n++) {
		uint64_t top = (uint64_t)stack + 128 * n;
		uint64_t sum = top - 40 + (uint64_t)caught_stack + sizeof(caught_stack);

		if (task_state->ist[n - 1])
			continue;
		task_state->ist[n - 1] = top;
		own_idt_set_stack(VECTOR_DE, n);
		EXPECT_EQ(caught_alike(nested_divide, 0, 0, 0, false).stack, sum);
		task_state->ist[n - 1] = 0;
		checked++;
	}
	own_idt_set_stack(VECTOR_DE, 0);
	EXPECT(checked > 0);
}

enum { VECTOR_TS = 10, VECTOR_NP, LAST_STACK = 7 };

/* A byte of the pointer to the last stack is beyond the limit of the TSS, or none. */
static void check_limit(void)
{
	struct task_state *task_state = &this_cpu()->task_state;
	uint16_t limit = offsetof(struct task_state, ist[LAST_STACK]) - 2;
	uint64_t old = task_state->ist[LAST_STACK - 1];
	struct faulted beyond, within;

	task_state->ist[LAST_STACK - 1] = (uint64_t)caught_stack + sizeof(caught_stack) / 2;
	own_idt_set_stack(VECTOR_DE, LAST_STACK);
	limit = own_tss_limit(limit);
	beyond = caught_alike(nested_limit, 0, 0, 0, false);
	own_tss_limit(offsetof(struct task_state, ist[LAST_STACK]) - 1);
	within = caught_run(nested_limit, 0, 0, 0, false, rig_all());
	own_tss_limit(limit);
	own_idt_set_stack(VECTOR_DE, 0);
	task_state->ist[LAST_STACK - 1] = old;
	EXPECT_EQ(beyond.vector, VECTOR_TS);
	EXPECT_EQ(beyond.error, TASK_STATE);
	EXPECT_EQ(within.vector, VECTOR_DE);
}

TEST(bts_transparent_faults, .group = "transparency", .ids = "K12", .needs = NEED_BTS,
     .claim = "#DE, #UD, bad gates, bad selectors and a short TSS raise the same exceptions traced "
	      "and untraced",
     .source = "SDM Vol 3, 6.12, 6.13 and 6.15: gates, error codes with IDT and EXT")
{
	static const char *const codes[] = {nested_code, nested_divide, nested_segment, nested_null,
					    nested_lock, nested_stack,	nested_local,	nested_pop,
					    nested_task, nested_wide};
	struct faulted odd;
	bool faulted, refused;

	RIG(rig, 256);
	own_gdt_load();
	refused = own_ring_refuses(own_ring_lret, 1, IA32_DEBUGCTL, rig_all());
	own_gdt_unload();
	caught_open();
	own_idt_break(NO_CODE);
	own_idt_set(255, own_handler_return, false);
	for (size_t n = 0; n < sizeof(codes) / sizeof(codes[0]); n++)
		check_fault(codes[n]);
	check_stacks();
	check_limit();
	odd = caught_run(odd_code, 0, 0, 0, false, rig_all());
	EXPECT_EQ(odd.rsi + odd.vector, ODD_SUM + CAUGHT_NONE);
	/* QEMU 7.2 goes there first, and pops. */
	odd = caught_run(odd_return, 0, 0, 0, false, rig_all());
	faulted = refused && odd.vector == VECTOR_GP && odd.rip == (uint64_t)odd_ret &&
		  odd.stack == odd.rsi + (odd.rsi & ~15ul) - 40;
	EXPECT(faulted);
	caught_close();
	EXPECT(rig_count(&rig) > 0);
}

TEST(bts_transparent_ring_1, .group = "transparency", .ids = "K5 K6 K12", .needs = NEED_BTS,
     .claim =
	     "in ring 1 IRETQ leaves IOPL as it is, and CS has RPL 1 in a handler whose segment is "
	     "conforming, traced and untraced",
     .source = "SDM Vol 2, IRET: IOPL if CPL = 0; SDM Vol 3, 5.8.1.2 and 6.12.1")
{
	static const char *const codes[] = {own_ring_iretq, own_ring_int};

	RIG(rig, 64);
	own_gdt_load();
	for (unsigned traced = 0; traced < 2; traced++)
		for (size_t n = 0; n < sizeof(codes) / sizeof(codes[0]); n++)
			EXPECT(own_ring_refuses(codes[n], 1, IA32_DEBUGCTL,
						traced ? rig_all() : 0));
	own_gdt_unload();
	EXPECT(rig_count(&rig) > 0);
}

extern const char nmi_code[], nmi_int[], nmi_counts[], nmi_refused[];

/*
 * An NMI, and time for it to arrive; the handler of #NP keeps the error code, and returns. Then INT
 * 2, whose handler counts, and sends an NMI the first time: RSI is the count before its IRETQ.
 */
__asm__(".pushsection .text\n"
	"nmi_send: call lapic_self_nmi\n\tmovl $500, %ecx\n1:\tpause\n\tloop 1b\n\tret\n"
	"nmi_code: call nmi_send\n\tjmp *%rbx\n"
	"nmi_int: int $2\n\tjmp *%rbx\n"
	"nmi_counts: incq caught+8(%rip)\n\tcmpq $1, caught+8(%rip)\n\tjne 1f\n\t"
	"call nmi_send\n\tmovq caught+8(%rip), %rsi\n1:\tiretq\n"
	"nmi_refused: popq caught+8(%rip)\n\tiretq\n"
	".popsection");

#define ERROR_EXT 1u
#define ERROR_IDT 2u

TEST(bts_transparent_nmis, .group = "transparency", .ids = "K8 K12", .needs = NEED_BTS,
     .claim = "INT 2 blocks no NMI, and an NMI whose gate is not present raises #NP with EXT set, "
	      "while branches are recorded",
     .source = "SDM Vol 3, 6.3.3, 6.7.1 and 6.13: NMI by INT n, error code")
{
	struct faulted within, absent;

	RIG(rig, 256);
	caught_open();
	own_idt_set(VECTOR_NMI, nmi_counts, false);
	own_idt_set_stack(VECTOR_NMI, 0); /* one within another */
	within = caught_run(nmi_int, 0, 0, 0, false, rig_all());
	own_idt_make_absent(VECTOR_NMI);
	own_idt_set(VECTOR_NP, nmi_refused, false);
	absent = caught_run(nmi_code, 0, 0, 0, false, rig_all());
	caught_close();
	EXPECT_EQ(within.rsi, 2);
	EXPECT_EQ(absent.error, VECTOR_NMI * 8 | ERROR_IDT | ERROR_EXT);
}

extern const char control_cr0[], control_cr3[], control_cr4[], control_gdt[], control_idt[],
	control_efer[];

/*
 * RCX: the bits that change; RDI: the base of a table. Each writes the old value back: where no
 * fault prevents the change, nothing after it runs with a processor in a state of no use.
 */
__asm__(".macro control_write name register\n"
	"\\name: movq \\register, %rdx\n\tmovq %rdx, %rax\n\txorq %rcx, %rax\n\t"
	"movq %rax, \\register\n\tmovq %rdx, \\register\n\tjmp *%rbx\n"
	".endm\n"
	".macro control_load name store load\n"
	"\\name: subq $16, %rsp\n\t\\store (%rsp)\n\tpushq %rdi\n\tpushq %rdi\n\t"
	"\\load (%rsp)\n\t\\load 16(%rsp)\n\tjmp *%rbx\n"
	".endm\n"
	".pushsection .text\n"
	"control_write control_cr0 %cr0\n"
	"control_write control_cr3 %cr3\n"
	"control_write control_cr4 %cr4\n"
	"control_load control_gdt sgdt lgdt\n"
	"control_load control_idt sidt lidt\n"
	"control_efer: movl $0xc0000080, %ecx\n\trdmsr\n\tmovl %eax, %edi\n\torl $2, %eax\n\twrmsr\n\t"
	"movl %edi, %eax\n\twrmsr\n\tjmp *%rbx\n"
	".popsection");

static void check_control(const char *code, uint64_t base, uint64_t bits)
{
	struct faulted untraced = caught_alike(code, base, 0, bits, false);

	EXPECT_EQ(untraced.vector, VECTOR_GP);
	EXPECT_EQ(untraced.error, 0);
}

#define CR0_PE	 (1ul << 0)
#define CR0_NW	 (1ul << 29)
#define CR4_LA57 (1ul << 12)
#define CR4_VMXE (1ul << 13)
#define CR4_PKE	 (1ul << 22)

// A hypervisor that lets a guest load what CPUID hides finds out at the next entry, or never: the
// processor refuses its own values only.
TEST(bts_transparent_controls, .group = "transparency", .ids = "K12", .needs = NEED_BTS,
     .claim =
	     "CR0, CR3, CR4, EFER, GDTR and IDTR refuse reserved values with #GP traced and untraced",
     .source = "SDM Vol 3, 2.5 and 6.15: control registers; SDM Vol 2, WRMSR")
{
	struct cpuid_result one = cpuid(1, 0), seven = {0};
	uint64_t not_canonical = 0x8000000000000000;

	if (cpuid(0, 0).eax >= 7)
		seven = cpuid(7, 0);
	RIG(rig, 256);
	caught_open();
	check_control(control_cr0, 0, CR0_PE);
	check_control(control_cr0, 0, CR0_NW);
	check_control(control_cr3, 0, 1ul << 52);
	check_control(control_cr3, 0, 1ul << 63); /* CR4.PCIDE is clear */
	check_control(control_cr4, 0, 1ul << 31);
	check_control(control_cr4, 0, 1ul << 63);
	if (!(one.ecx & 1u << 5))
		check_control(control_cr4, 0, CR4_VMXE);
	if (!(seven.ecx & 1u << 16))
		check_control(control_cr4, 0, CR4_LA57);
	if (!(seven.ecx & 1u << 3))
		check_control(control_cr4, 0, CR4_PKE);
	check_control(control_efer, 0, 0);
	check_control(control_gdt, not_canonical, 0);
	check_control(control_idt, not_canonical, 0);
	caught_close();
	EXPECT(rig_record(&rig, 0).to != 0);
}

#define AT 0x00005b0000000000ul

extern const char access_read[], access_write[], access_string[], access_jump[];

__asm__(".pushsection .text\n"
	"access_read: movq (%rdi), %rax\n\tjmp *%rbx\n"
	"access_write: movl %eax, (%rdi)\n\tjmp *%rbx\n"
	"access_string: rep movsb\n\tjmp *%rbx\n"
	"access_jump: jmp *%rdi\n"
	".popsection");

/* Neighbours: what straddles two of them may fault at either. The last one is not there. */
static const unsigned rights[] = {
	VM_WRITE, VM_READ, VM_EXECUTE, VM_USER | VM_WRITE, VM_USER | VM_READ, VM_USER | VM_EXECUTE,
	VM_WRITE};
#define PAGES (sizeof(rights) / sizeof(rights[0]))

static void open_pages(uint8_t *area)
{
	memset(area, 0, PAGES * PAGE_SIZE);
	for (size_t n = 0; n < PAGES; n++) {
		uint8_t *page = area + n * PAGE_SIZE;

		/* JMP *RBX at both ends */
		memcpy(page, "\xff\xe3", 2);
		memcpy(page + PAGE_SIZE - 2, "\xff\xe3", 2);
		if (!vm_map(AT + n * PAGE_SIZE, *vm_entry((uint64_t)page) & PTE_ADDRESS, rights[n]))
			test_error("no memory for page tables");
	}
}

/* The last byte begins a JRCXZ, which the next page may have the rest of. */
static bool is_code(uint16_t offset)
{
	return offset == 0 || offset >= PAGE_SIZE - 2;
}

/* AC = `ac` suspends SMAP. */
static void check_access(const char *code, uint64_t address, bool ac)
{
	caught_alike(code, address, AT + 100, 16, ac);
}

TEST(bts_transparent_page_faults, .group = "transparency", .ids = "K12", .needs = NEED_BTS,
     .claim = "NX, SMEP, SMAP, reserved bits, read-only and missing pages fault traced as they do "
	      "untraced",
     .source = "SDM Vol 3, 4.6 and 4.7: access rights, and the error code of #PF")
{
	static const char *const codes[] = {access_read, access_write, access_string, access_jump};
	static const uint16_t offsets[] = {0, 8, PAGE_SIZE - 9, PAGE_SIZE - 2, PAGE_SIZE - 1};
	uint8_t *area = test_area(PAGES);

	open_pages(area);
	RIG(rig, 4096);
	caught_open();
	for (size_t page = 0; page < PAGES; page++)
		for (size_t n = 0; n < sizeof(offsets) / sizeof(offsets[0]); n++)
			for (size_t code = 0; code < sizeof(codes) / sizeof(codes[0]); code++)
				if (codes[code] != access_jump || is_code(offsets[n])) {
					uint64_t at = AT + page * PAGE_SIZE + offsets[n];

					check_access(codes[code], at, false);
					check_access(codes[code], at, true);
				}
	check_access(access_read, 1ul << 47, false);
	if ((cpuid(0x80000008, 0).eax & 0xff) < 52) {
		*vm_entry(AT) |= 1ul << 51; /* reserved */
		vm_flush(AT);
		check_access(access_read, AT, false);
		check_access(access_write, AT, false);
	}
	caught_close();
	for (size_t n = 0; n < PAGES; n++)
		page_unmap(AT + n * PAGE_SIZE);
	EXPECT(rig_count(&rig) > 0);
}

#define CR4_OSXMMEXCPT (1ul << 10)

extern const char fp_sse[], fp_sse_load[], fp_x87[], fp_x87_load[], fp_state[];

/* RDI: an MXCSR or control word that masks nothing, or a state with it; divides 0 by 0 then. */
__asm__(".pushsection .text\n"
	"fp_sse: ldmxcsr (%rdi)\n\txorps %xmm0, %xmm0\n\tdivps %xmm0, %xmm0\n\tjmp *%rbx\n"
	"fp_sse_load: ldmxcsr (%rdi)\n\tcvtps2pi 8(%rdi), %mm0\n\tjmp *%rbx\n"
	"fp_x87: fldcw 4(%rdi)\n\tfldz\n\tfldz\n\tfdivp\n\tfwait\n\tjmp *%rbx\n"
	"fp_x87_load: fldcw 4(%rdi)\n\tfldz\n\tfdivs 16(%rdi)\n\tfldz\n\tjmp *%rbx\n"
	"fp_state: fxrstor64 (%rsi)\n\txorpd %xmm1, %xmm1\n\tdivsd %xmm1, %xmm1\n\tjmp *%rbx\n"
	".popsection");

static const struct {
	uint32_t mxcsr;
	uint16_t control, unused;
	float huge[2], zero;
} operands = {0, 0x340, 0, {1e30f, 1e30f}, 0};
static uint8_t state[512] __attribute__((aligned(16)));

static struct faulted run(const char *code, uint64_t debugctl)
{
	static const uint8_t mxcsr[4] = {0x80, 0x1f, 0, 0};
	struct faulted fault;

	fault = caught_run(code, (uint64_t)&operands, (uint64_t)state, 0, false, debugctl);
	__asm__ volatile("fninit\n\tldmxcsr %0" : : "m"(mxcsr));
	return fault;
}

/* QEMU 7.2 raises few of them: then none must come traced either. `raises`: it has to come. */
static void check_fp(const struct rig *rig, const char *code, bool raises)
{
	struct faulted untraced = run(code, 0), traced;
	uint64_t before = rig_index(rig);

	traced = run(code, rig_all());
	EXPECT(rig_index(rig) != before);
	EXPECT(!raises || untraced.vector == VECTOR_MF);
	before = rig_record(rig, rig_count(rig) - 3).from;
	EXPECT(traced.vector == CAUGHT_NONE || before == traced.rip);
	EXPECT(caught_same(&untraced, &traced));
}

TEST(bts_transparent_fp_faults, .group = "transparency", .ids = "K5 K12", .needs = NEED_BTS,
     .claim = "exceptions of SSE and x87 that are not masked come traced as they do untraced",
     .source = "SDM Vol 1, 8.4 and 11.5: #MF and #XM")
{
	uint64_t cr0, cr4;

	RIG(rig, 256);
	machine_open();
	__asm__ volatile("mov %%cr0, %0; mov %%cr4, %1" : "=r"(cr0), "=r"(cr4));
	__asm__ volatile("mov %0, %%cr0" : : "r"(cr0 | 1ul << 5));
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4 | CR4_OSXMMEXCPT));
	__asm__ volatile("fninit\n\tfxsave64 %0" : "=m"(state));
	state[FXSAVE_MXCSR] = state[FXSAVE_MXCSR + 1] = 0;
	caught_open();
	check_fp(&rig, fp_sse, false);
	check_fp(&rig, fp_sse_load, false);
	check_fp(&rig, fp_x87, true);
	check_fp(&rig, fp_x87_load, false);
	check_fp(&rig, fp_state, false);
	caught_close();
	__asm__ volatile("mov %0, %%cr4; mov %1, %%cr0" : : "r"(cr4), "r"(cr0));
	machine_close();
}
