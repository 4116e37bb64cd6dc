/* SPDX-License-Identifier: MIT */
#include "drivers/apic/lapic.h"
#include "kernel/trap/trap.h"
#include "tests/lib/own_idt.h"
#include "tests/lib/rig.h"

#define SLOTS	  16384
#define THRESHOLD 8192 /* more than the way to the first NMI takes */

static volatile uint64_t nmis __attribute__((used));

extern const char in_nmi_handler[];

/* The first NMI branches past the threshold; any other ends recording. */
__asm__(".pushsection .text\n"
	"in_nmi_handler: pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\tincq nmis(%rip)\n\t"
	"cmpq $1, nmis(%rip)\n\tjne 2f\n\t"
	"movl $10000, %ecx\n1:\tdecl %ecx\n\tjnz 1b\n\tjmp 3f\n"
	"2:\tmovl $0x1d9, %ecx\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n"
	"3:\tpopq %rdx\n\tpopq %rcx\n\tpopq %rax\n\tiretq\n"
	".popsection");

/* Waits for both NMIs for at most 1000 rounds. */
static void trace(void)
{
	TRACED_WITH(rig_interrupt(),
		    "call lapic_self_nmi\n\tmovl $1000, %%ecx\n"
		    "1:\tpause\n\tcmpq $1, %[nmis]\n\tja 2f\n\tdecl %%ecx\n\tjnz 1b\n2:\n\t",
		    , AND([nmis] "m"(nmis)), "rsi", "rdi", "r8", "r9", "r10", "r11");
}

TEST(bts_threshold_in_nmi, .group = "T", .ids = "T7", .needs = NEED_BTS,
     .claim = "an NMI at a threshold that is reached inside an NMI handler comes after its IRETQ",
     .source = "SDM Vol 3, 10.5.1: delivery mode NMI")
{
	uint32_t lvtpc = lapic_read_lvtpc();
	struct rig rig;

	rig_open(&rig, SLOTS);
	rig_set_threshold(&rig, THRESHOLD);
	own_idt_copy();
	own_idt_set(VECTOR_NMI, in_nmi_handler, false);
	nmis = 0;
	own_idt_load();
	lapic_set_lvtpc(0, true);
	trace();
	lapic_mask_lvtpc();
	own_idt_unload();
	lapic_set_lvtpc((uint8_t)(lvtpc & LVT_VECTOR_MASK), lvtpc & LVT_NMI);
	EXPECT(nmis >= 2);
	EXPECT(rig_count(&rig) > THRESHOLD);
	rig_close(&rig);
}
