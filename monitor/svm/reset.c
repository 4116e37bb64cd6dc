/* SPDX-License-Identifier: MIT */
#include "monitor/svm/reset.h"

#include "monitor/host/cpu.h"
#include "monitor/silicon.h"

#include "lib/string.h"

enum {
	CODE_32 = 0xc9b, /* execute, read, accessed; present; 32-bit; 4 GiB */
	DATA_32 = 0xc93,
	CODE_16 = 0x9b,
	DATA_16 = 0x93,
	LDT = 0x82,
	TSS_BUSY = 0x8b,
};
#define CR0_PE_ET  0x11
#define CR0_INIT   0x60000010 /* CD, NW, ET */
#define RFLAGS_SET 2	      /* bit 1 is always 1 */
#define DR6_RESET  0xffff0ff0

static void set_common(struct vcpu *vcpu)
{
	vcpu->ldtr = (struct segment){0, LDT, 0xffff, 0};
	vcpu->tr = (struct segment){0, TSS_BUSY, 0xffff, 0};
	vcpu->gdtr = (struct descriptor_table){0xffff, 0};
	vcpu->idtr = (struct descriptor_table){0xffff, 0};
	vcpu->rflags = RFLAGS_SET;
	vcpu->dr6 = DR6_RESET;
	vcpu->dr7 = DR7_RESET;
}

/* Multiboot2 specification 2.0, 3.3 "I386 machine state"; Linux, Documentation/arch/x86/boot.rst,
   "32-bit Boot Protocol". */
void reset_to_kernel(struct vcpu *vcpu, const struct kernel_entry *kernel)
{
	set_common(vcpu);
	for (unsigned i = 0; i < SEGMENTS; i++)
		vcpu->segment[i] = (struct segment){KERNEL_DS, DATA_32, ~0u, 0};
	vcpu->segment[CS] = (struct segment){KERNEL_CS, CODE_32, ~0u, 0};
	vcpu->gdtr = (struct descriptor_table){KERNEL_GDT_BYTES - 1, kernel->scratch};
	vcpu->cr0 = CR0_PE_ET;
	vcpu->rip = kernel->entry;
	vcpu->gpr[RAX] = kernel->eax;
	vcpu->gpr[RBX] = kernel->ebx;
	vcpu->gpr[RSI] = kernel->esi;
}

/* SDM Vol 3, table 9-1, column INIT, and 8.4.4. MSRs, and the x87 and SSE state, are unchanged,
   IA32_EFER apart: it would keep LMA without paging. */
void reset_by_init(struct vcpu *vcpu, uint8_t vector)
{
	set_common(vcpu);
	for (unsigned i = 0; i < SEGMENTS; i++)
		vcpu->segment[i] = (struct segment){0, i == CS ? CODE_16 : DATA_16, 0xffff, 0};
	vcpu->segment[CS].selector = (uint16_t)(vector << 8);
	vcpu->segment[CS].base = (uint64_t)vector << 12;
	memset(vcpu->gpr, 0, sizeof(vcpu->gpr));
	vcpu->gpr[RDX] = vcpu->silicon->profile->signature;
	vcpu->rip = 0;
	vcpu->cr0 = CR0_INIT;
	vcpu->cr2 = vcpu->cr3 = vcpu->cr4 = 0;
	vcpu->efer = 0;
	vcpu->cpl = 0;
	vcpu->interrupt_shadow = false;
	vcpu->nmi_blocked = vcpu->nmi_pending = false;
	vcpu->halted = vcpu->shut_down = false;
	vcpu->attention = false;
}
