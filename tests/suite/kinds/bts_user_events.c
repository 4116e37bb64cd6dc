// SPDX-License-Identifier: MIT
/*
 * Events that arrive in ring 3. The way there changes stack, GS and privilege, and the record has
 * its two ends in different rings: the entry that a tracer of a program meets most often, and that
 * a test within the kernel never makes.
 */
#include "drivers/apic/lapic.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/rig.h"

#define AT     0x0000000040100000ul /* below 4 GiB: for 32-bit code too */
#define UD_AT  (AT + 2 + 4 + 5 + 4)
#define HIGHER 0x00005a5a00000000ul /* than these, for 64-bit code */
#define SLOTS  4096
#define ROUNDS 1000

/* JMP to the next; CPUID; PAUSE; MOV ECX, 1000; DEC ECX; JNZ to the DEC; UD2 */
static const uint8_t code[] = {0xeb, 0x00, 0x0f, 0xa2, 0xf3, 0x90, 0xb9, ROUNDS & 0xff, ROUNDS >> 8,
			       0,    0,	   0xff, 0xc9, 0x75, 0xfc, 0x0f, 0x0b};
/* In the place of the UD2: CALL without a stack; MOV AL, 127, ADD AL, 1 and INTO, whose gate is of
   ring 0; MOV AX of SS and the word at AT + 1. */
static const uint8_t code_call[] = {0xe8, 0, 0, 0, 0}, code_into[] = {0xb0, 0x7f, 0x04, 0x01, 0xce},
		     code_word[] = {0x36, 0x66, 0x8b, 0x04, 0x25, 0x01, 0x00, 0x10, 0x40};

/* All of it means the same in either mode. */
static const struct {
	uint64_t higher;
	uint16_t mode;
} places[] = {{0, USER_CODE}, {0, USER_CODE_32}, {HIGHER, USER_CODE}};
static uint64_t higher; /* the code of the next visit is, than AT */
static uint16_t mode;	/* of it */

/* Vectors; the last one is the second byte of UD2. */
enum { VECTOR_OF = 4, VECTOR_NM = 7, OF_RING_0 = 0x0b };

extern const char event_handler[], event_iret[], event_enter[], event_back[], event_error[];

/*
 * Makes the frame of an event from ring 3 one that goes on at event_back on the stack in R12, with
 * IF = TF = 0, and leaves its RIP in R13. One from the kernel, an NMI that came twice, clears
 * IA32_DEBUGCTL: where delivery leaves the LVT entry unmasked each record would raise another.
 */
__asm__(".pushsection .text\n"
	"event_error: addq $8, %rsp\n"
	"event_handler: testb $3, 8(%rsp)\n\tjz event_again\n\tswapgs\n\t"
	"movq (%rsp), %r13\n\tleaq event_back(%rip), %rax\n\tmovq %rax, (%rsp)\n\t"
	"movl %cs, %eax\n\tmovq %rax, 8(%rsp)\n\tandq $~0x300, 16(%rsp)\n\t"
	"movq %r12, 24(%rsp)\n\tmovq $0x10, 32(%rsp)\n"
	"event_iret: iretq\n"
	"event_again: pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\t"
	"movl $0x1d9, %ecx\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\t"
	"popq %rdx\n\tpopq %rcx\n\tpopq %rax\n\tiretq\n"
	".popsection");
_Static_assert(KERNEL_DATA == 0x10, "event_handler counts on it");

/* To ring 3 with `flags`, and back by an event: the RIP that it saved. */
static __attribute__((noinline)) uint64_t visit(uint64_t debugctl, uint64_t flags)
{
	uint64_t rip = 0;

	TRACED_WITH(debugctl,
		    "movq %%rsp, %%r12\n\t"
		    "pushq %[user_data]\n\tpushq $0\n\tpushq %[flags]\n\tpushq %[user_code]\n\t"
		    "pushq %[at]\n\tswapgs\n"
		    "event_enter: iretq\n\tud2\n"
		    "event_back: movq %%r13, %[rip]\n\t",
		    OPERANDS([rip] "=&r"(rip)),
		    OPERANDS([at] "r"(AT + higher), [flags] "r"(flags), [user_data] "i"(USER_DATA),
			     [user_code] "r"((uint64_t)mode)),
		    "rbx", "r12", "r13");
	return rip;
}

static const char *handler_of(unsigned vector)
{
	bool error = vector == VECTOR_GP || vector == VECTOR_PF || vector == VECTOR_AC;

	return error ? event_error : event_handler;
}

/* With the own IDT, in which `vector` leads to event_handler, and the UD2 at the code's end. */
static uint64_t go(unsigned vector, uint64_t debugctl, uint64_t flags)
{
	struct task_state *task_state = &this_cpu()->task_state;
	uint64_t rsp0 = task_state->rsp[0], rip;
	static uint8_t stack[1024] __attribute__((aligned(16)));

	own_idt_begin(VECTOR_UD, event_handler, false);
	own_idt_set(OF_RING_0, event_handler, false);
	own_idt_set(VECTOR_OF, event_handler, false);
	own_idt_set(vector, handler_of(vector), false);
	task_state->rsp[0] = (uint64_t)stack + sizeof(stack);
	own_idt_load();
	rip = visit(debugctl, flags);
	own_idt_unload();
	task_state->rsp[0] = rsp0;
	return rip;
}

static uint8_t *page;

static void open(struct rig *rig)
{
	page = test_area(1);
	memcpy(page, code, sizeof(code));
	code_map(AT, page, VM_USER);
	code_map(AT + HIGHER, page, VM_USER);
	rig_open(rig, SLOTS);
}

static void close(struct rig *rig)
{
	rig_close(rig);
	code_unmap(AT + HIGHER);
	code_unmap(AT);
}

/* The slot of the event, which leads from `rip` in ring 3 to its handler, and is left by IRETQ. */
static size_t expect_at(const struct rig *rig, uint64_t rip, const char *handler)
{
	size_t slot = 1;

	rig_expect(rig, 0, event_enter, (void *)(AT + higher));
	while (slot < rig_count(rig) && rig_record(rig, slot).to != (uint64_t)handler)
		slot++;
	rig_expect(rig, slot, (void *)rip, handler);
	rig_expect(rig, slot + 1, event_iret, event_back);
	return slot;
}

static size_t expect(const struct rig *rig, uint64_t rip)
{
	return expect_at(rig, rip, event_handler);
}

static void check_at(struct rig *rig, uint64_t at, unsigned vector, uint64_t flags)
{
	uint64_t rip = 0;

	EXACTLY (rig)
		rip = go(vector, rig_all(), flags);
	EXPECT_EQ(rip, at + higher);
	EXPECT_EQ(expect_at(rig, rip, handler_of(vector)), 1 + ROUNDS);
	EXPECT_EQ(rig_count(rig), 1 + ROUNDS + 2);
}

static void check(struct rig *rig, unsigned vector, uint64_t flags)
{
	check_at(rig, UD_AT, vector, flags);
}

/* In the same place, all #GP: SWAPGS, which is of 64-bit code; those of ring 0 alone, RDTSC with
   CR4.TSD; SGDT with CR4.UMIP, which the kernel has set. */
static const uint8_t refused[][3] = {
	{0x0f, 0x01, 0xf8}, {0xf4},
	{0x0f, 0x06},	    {0x0f, 0x09},
	{0x0f, 0x20, 0xd8}, {0x0f, 0x22, 0xd8},
	{0x0f, 0x21, 0xf8}, {0x0f, 0x23, 0xf8},
	{0x0f, 0x01, 0x10}, {0x0f, 0x01, 0x38},
	{0x0f, 0x01, 0xf0}, {0x0f, 0x00, 0xd0},
	{0x0f, 0x00, 0xd8}, {0x0f, 0x32},
	{0x0f, 0x30},	    {0xe4, 0x80},
	{0x0f, 0x31},	    {0x0f, 0x01, 0x00},
};
static const uint8_t stac[] = {0x0f, 0x01, 0xcb};

#define CR4_TSD	 (1ul << 2)
#define CR4_UMIP (1ul << 11)
#define CR4_SMAP (1ul << 21)

static void meet_privileges(struct rig *rig)
{
	uint64_t cr4;
	size_t end;

	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4 | CR4_TSD));
	end = sizeof(refused) / sizeof(refused[0]) - !(cr4 & CR4_UMIP);
	for (size_t n = mode != USER_CODE; n < end; n++) {
		memcpy(page + (UD_AT - AT), refused[n], sizeof(refused[n]));
		check(rig, VECTOR_GP, 2);
	}
	memcpy(page + (UD_AT - AT), stac, sizeof(stac));
	check(rig, VECTOR_UD, 2);
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4));
}

#define CR0_TS	(1ul << 3)
#define CR0_AM	(1ul << 18)
#define FLAG_AC (1ul << 18)

/* In code of 64 and of 32 bits, and above 4 GiB. */
static void in_each_mode(void (*run)(struct rig *rig))
{
	for (size_t n = 0; n < sizeof(places) / sizeof(places[0]); n++) {
		struct rig rig CLOSED_BY(close);

		higher = places[n].higher;
		mode = places[n].mode;
		open(&rig);
		run(&rig);
	}
}

/* MOV ESP to what follows; IRETQ to the UD2 after it. */
static const struct {
	uint8_t code[16];
	uint64_t frame[5];
} iret = {{0xbc, 0x1f, 0, 0x10, 0x40, 0x48, 0xcf, 0x0f, 0x0b},
	  {UD_AT + 7, USER_CODE, 2, 0, USER_DATA}};
_Static_assert(UD_AT + sizeof(iret.code) == 0x4010001f, "MOV ESP");

/* Without SMAP: QEMU 7.2 reads the frame as ring 0 does. */
static void meet_iret(struct rig *rig)
{
	uint64_t cr4;

	memcpy(page + (UD_AT - AT), &iret, sizeof(iret));
	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4 & ~CR4_SMAP));
	EXACTLY (rig)
		go(VECTOR_UD, rig_all(), 2);
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4));
	rig_expect(rig, 1 + ROUNDS, (void *)(UD_AT + 5), (void *)(UD_AT + 7));
	EXPECT_EQ(rig_count(rig), 2 + ROUNDS + 2);
}

/* MOV ESP to what follows; POPFD, which sets TF; POP SS, which holds off the trap over the NOP. */
static const struct {
	uint8_t code[12];
	uint32_t stack[2];
} pop_ss = {{0xbc, 0x1b, 0, 0x10, 0x40, 0x9d, 0x17, 0x90, 0x90}, {0x102, USER_DATA}};
_Static_assert(UD_AT + sizeof(pop_ss.code) == 0x4010001b, "MOV ESP");

static void meet_pop_ss(void)
{
	memcpy(page + (UD_AT - AT), &pop_ss, sizeof(pop_ss));
	EXPECT_EQ(go(VECTOR_DB, rig_all(), 2), UD_AT + 8);
	__asm__ volatile("mov %0, %%dr6" : : "r"(DR6_RESET));
}

static void meet_faults(struct rig *rig)
{
	uint64_t cr0;

	check(rig, VECTOR_UD, 2);
	meet_privileges(rig);
	page[UD_AT - AT] = 0xfa; /* CLI */
	check(rig, VECTOR_GP, 2);
	page[UD_AT - AT] = 0xcd; /* INT OF_RING_0 */
	check(rig, VECTOR_GP, 2);
	memcpy(page + (UD_AT - AT), code_call, sizeof(code_call));
	check(rig, VECTOR_PF, 2);
	if (mode == USER_CODE_32) {
		memcpy(page + (UD_AT - AT), code_into, sizeof(code_into));
		check_at(rig, UD_AT + 4, VECTOR_GP, 2);
		meet_pop_ss();
	}
	memcpy(page + (UD_AT - AT), code_word, sizeof(code_word));
	__asm__ volatile("mov %%cr0, %0" : "=r"(cr0));
	__asm__ volatile("mov %0, %%cr0" : : "r"(cr0 | CR0_AM | CR0_TS));
	check(rig, VECTOR_AC, FLAG_AC | 2);
	memcpy(page + (UD_AT - AT), "\xd9\xd0", 2); /* FNOP */
	check(rig, VECTOR_NM, 2);
	__asm__ volatile("mov %0, %%cr0" : : "r"(cr0));
	if (mode == USER_CODE && !higher)
		meet_iret(rig);
}

TEST(bts_user_fault, .group = "K", .ids = "K2 K5 K6 K11 K12 R5 R6", .needs = NEED_BTS,
     .claim = "an exception in ring 3 is recorded from the instruction that raises it, a CALL too, "
	      "and IRETQ within ring 3; CPUID and PAUSE are not; POP SS holds off a single step",
     .source = "SDM Vol 3, 17.4.4 and 17.4.9: branch record fields; SDM Vol 3, 6.8.3: POP SS")
{
	in_each_mode(meet_faults);
}

static void meet_interrupt(struct rig *rig)
{
	struct pending pending;
	uint64_t rip = 0;

	EXACTLY (rig) {
		pending_raise(&pending);
		rip = go(VECTOR_TEST, rig_all(), 0x202);
		lapic_eoi();
		pending_settle();
	}
	EXPECT(rip - higher >= AT && rip - higher < UD_AT);
	EXPECT_EQ(rig_count(rig), expect(rig, rip) + 2);
}

TEST(bts_user_interrupt, .group = "K", .ids = "K8 K6", .needs = NEED_BTS,
     .claim = "an external interrupt in ring 3 is recorded from the RIP that it saves",
     .source = "SDM Vol 3, 17.4.4 and 17.4.9: branch record fields")
{
	in_each_mode(meet_interrupt);
}

/* No other CPU can send it on time: it is the one at the threshold, a few rounds into the loop. */
static void meet_nmi(struct rig *rig)
{
	uint32_t lvtpc = apic_read(APIC_LVT_PC);
	uint64_t rip = 0;

	rig_set_threshold(rig, 8);
	EXACTLY (rig) {
		lapic_set_lvtpc(0, true);
		rip = go(VECTOR_NMI, rig_interrupt(), 2);
		lapic_mask_lvtpc();
	}
	lapic_set_lvtpc((uint8_t)(lvtpc & LVT_VECTOR_MASK), lvtpc & LVT_NMI);
	EXPECT(rip - higher > AT && rip - higher < UD_AT);
	expect(rig, rip);
}

TEST(bts_user_nmi, .group = "K", .ids = "K8 T2 T7", .needs = NEED_BTS,
     .claim = "an NMI in ring 3 is recorded from the RIP that it saves",
     .source = "SDM Vol 3, 17.4.4 and 17.4.9: branch record fields")
{
	in_each_mode(meet_nmi);
}
