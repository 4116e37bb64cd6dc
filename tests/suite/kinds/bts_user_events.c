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

#define AT     0x00005a0000001000ul
#define UD_AT  (AT + 2 + 5 + 4)
#define SLOTS  4096
#define ROUNDS 1000

/* JMP to the next; MOV ECX, 1000; DEC ECX; JNZ to the DEC; UD2 */
static const uint8_t code[] = {0xeb, 0x00, 0xb9, ROUNDS & 0xff, ROUNDS >> 8, 0,	  0,
			       0xff, 0xc9, 0x75, 0xfc,		0x0f,	     0x0b};

extern const char event_handler[], event_iret[], event_enter[], event_back[];

/*
 * Makes the frame of an event from ring 3 one that goes on at event_back on the stack in R12, with
 * IF = 0, and leaves its RIP in R13. One from the kernel, an NMI that came twice, clears
 * IA32_DEBUGCTL: where delivery leaves the LVT entry unmasked each record would raise another.
 */
__asm__(".pushsection .text\n"
	"event_handler: testb $3, 8(%rsp)\n\tjz event_again\n\tswapgs\n\t"
	"movq (%rsp), %r13\n\tleaq event_back(%rip), %rax\n\tmovq %rax, (%rsp)\n\t"
	"movl %cs, %eax\n\tmovq %rax, 8(%rsp)\n\tandq $~0x200, 16(%rsp)\n\t"
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
		    OPERANDS([at] "r"(AT), [flags] "r"(flags), [user_data] "i"(USER_DATA),
			     [user_code] "i"(USER_CODE)),
		    "r12", "r13");
	return rip;
}

/* With the own IDT, in which `vector` leads to event_handler, and the UD2 at the code's end. */
static uint64_t go(unsigned vector, uint64_t debugctl, uint64_t flags)
{
	struct task_state *task_state = &this_cpu()->task_state;
	uint64_t rsp0 = task_state->rsp[0], rip;
	static uint8_t stack[1024] __attribute__((aligned(16)));

	own_idt_copy();
	own_idt_set(VECTOR_UD, event_handler, false);
	own_idt_set(vector, event_handler, false);
	task_state->rsp[0] = (uint64_t)stack + sizeof(stack);
	own_idt_load();
	rip = visit(debugctl, flags);
	own_idt_unload();
	task_state->rsp[0] = rsp0;
	return rip;
}

static void open(struct rig *rig)
{
	uint8_t *page = test_area(1);

	memcpy(page, code, sizeof(code));
	code_map(AT, page, VM_USER);
	rig_open(rig, SLOTS);
}

static void close(struct rig *rig)
{
	rig_close(rig);
	code_unmap(AT);
}

/* The slot of the event, which leads from `rip` in ring 3 to its handler, and is left by IRETQ. */
static size_t expect(const struct rig *rig, uint64_t rip)
{
	size_t slot = 1;

	rig_expect(rig, 0, event_enter, (void *)AT, "iretq to ring 3");
	while (slot < rig_count(rig) && rig_record(rig, slot).to != (uint64_t)event_handler)
		slot++;
	rig_expect(rig, slot, (void *)rip, event_handler, "the event");
	rig_expect(rig, slot + 1, event_iret, event_back, "iretq from the handler");
	return slot;
}

TEST(bts_user_fault, .group = "K", .ids = "K5", .needs = NEED_BTS,
     .claim = "an exception in ring 3 is recorded from the instruction that raises it",
     .source = "SDM Vol 3, 17.4.4 and 17.4.9: branch record fields")
{
	struct rig rig CLOSED_BY(close);
	uint64_t rip = 0;

	open(&rig);
	EXACTLY (&rig)
		rip = go(VECTOR_UD, rig_all(), 2);
	EXPECT_EQ(rip, UD_AT);
	EXPECT_EQ(expect(&rig, UD_AT), 1 + ROUNDS);
	EXPECT_EQ(rig_count(&rig), 1 + ROUNDS + 2);
}

TEST(bts_user_interrupt, .group = "K", .ids = "K8", .needs = NEED_BTS,
     .claim = "an external interrupt in ring 3 is recorded from the RIP that it saves",
     .source = "SDM Vol 3, 17.4.4 and 17.4.9: branch record fields")
{
	struct pending pending;
	struct rig rig CLOSED_BY(close);
	uint64_t rip = 0;

	open(&rig);
	EXACTLY (&rig) {
		pending_raise(&pending);
		rip = go(VECTOR_TEST, rig_all(), 0x202);
		lapic_eoi();
		pending_settle();
	}
	EXPECT(rip >= AT && rip < UD_AT);
	EXPECT_EQ(rig_count(&rig), expect(&rig, rip) + 2);
}

/* No other CPU can send it on time: it is the one at the threshold, a few rounds into the loop. */
TEST(bts_user_nmi, .group = "K", .ids = "K8", .needs = NEED_BTS,
     .claim = "an NMI in ring 3 is recorded from the RIP that it saves",
     .source = "SDM Vol 3, 17.4.4 and 17.4.9: branch record fields")
{
	uint32_t lvtpc = apic_read(APIC_LVT_PC);
	struct rig rig CLOSED_BY(close);
	uint64_t rip = 0;

	open(&rig);
	rig_set_threshold(&rig, 8);
	EXACTLY (&rig) {
		lapic_set_lvtpc(0, true);
		rip = go(VECTOR_NMI, rig_interrupt(), 2);
		lapic_mask_lvtpc();
	}
	lapic_set_lvtpc((uint8_t)(lvtpc & LVT_VECTOR_MASK), lvtpc & LVT_NMI);
	EXPECT(rip > AT && rip < UD_AT);
	expect(&rig, rip);
}
