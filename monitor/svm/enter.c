// SPDX-License-Identifier: MIT
/* Between struct vcpu and the VMCB, and across VMRUN. */
#include "monitor/host/cpu.h"
#include "monitor/host/traps.h"
#include "monitor/interp/control.h"
#include "monitor/interp/interp.h"
#include "monitor/interp/registers.h"
#include "monitor/silicon.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/lapic.h"
#include "monitor/unit.h"

enum { ASID = 1, SEGMENT_DPL_SHIFT = 5 };

bool vmrun(uint64_t gpr[16], uint64_t vmcb_physical, const volatile bool *nmi);
extern const char vmrun_window[], vmrun_window_end[], vmrun_abandoned[];

static struct vmcb_segment to_vmcb(const struct segment *from)
{
	return (struct vmcb_segment){from->selector, from->attributes, from->limit, from->base};
}

static struct segment from_vmcb(const struct vmcb_segment *from)
{
	return (struct segment){from->selector, from->attributes, from->limit, from->base};
}

static void store(const struct guest *guest, struct vmcb *vmcb)
{
	const struct vcpu *vcpu = &guest->vcpu;
	const uint16_t dpl = 3 << SEGMENT_DPL_SHIFT;

	for (unsigned i = 0; i < SEGMENTS; i++)
		vmcb->segment[i] = to_vmcb(&vcpu->segment[i]);
	/* The CPL is that of SS: QEMU does not look at the VMCB's own field. */
	vmcb->segment[SS].attributes =
		(uint16_t)((vcpu->segment[SS].attributes & ~dpl) | vcpu->cpl << SEGMENT_DPL_SHIFT);
	vmcb->cpl = vcpu->cpl;
	vmcb->ldtr = to_vmcb(&vcpu->ldtr);
	vmcb->tr = to_vmcb(&vcpu->tr);
	vmcb->gdtr = (struct vmcb_segment){.limit = vcpu->gdtr.limit, .base = vcpu->gdtr.base};
	vmcb->idtr = (struct vmcb_segment){.limit = vcpu->idtr.limit, .base = vcpu->idtr.base};
	vmcb->efer = vcpu->efer | EFER_SVME;
	vmcb->cr0 = vcpu->cr0;
	vmcb->cr2 = vcpu->cr2;
	vmcb->cr3 = vcpu->cr3;
	vmcb->cr4 = vcpu->cr4;
	vmcb->dr6 = vcpu->dr6;
	vmcb->dr7 = vcpu->dr7;
	vmcb->rflags = vcpu->rflags;
	vmcb->rip = vcpu->rip;
	vmcb->rsp = vcpu->gpr[RSP];
	vmcb->rax = vcpu->gpr[RAX];
	vmcb->star = vcpu->star;
	vmcb->lstar = vcpu->lstar;
	vmcb->cstar = vcpu->cstar;
	vmcb->sfmask = vcpu->sfmask;
	vmcb->kernel_gs_base = vcpu->kernel_gs_base;
	vmcb->sysenter_cs = guest->sysenter_cs;
}

/*
 * After CMPXCHG8B and CMPXCHG16B QEMU 7.2 has an operand of an earlier instruction among the flags
 * (docs/tricks.md), and VMRUN would make VM, TF and NT of it true. Where a flag shows that nobody
 * can have set, those go that a kernel hardly has between two instructions.
 */
static uint64_t true_flags(const struct vmcb *vmcb)
{
	const uint64_t known = FLAG_ARITHMETIC | FLAG_FIXED | FLAG_TF | FLAG_IF | FLAG_DF |
			       FLAG_IOPL | FLAG_NT | FLAG_RF | FLAG_VM | FLAG_AC | FLAG_VIF |
			       FLAG_VIP | FLAG_ID;
	const uint64_t doubtful =
		FLAG_TF | FLAG_DF | FLAG_NT | FLAG_RF | FLAG_VM | FLAG_VIF | FLAG_VIP;
	bool may_be_8086 = vmcb->cpl == 3 && !(vmcb->efer & EFER_LMA);
	uint64_t impossible = ~known | (may_be_8086 ? 0 : FLAG_VM);

	return vmcb->rflags & impossible ? vmcb->rflags & known & ~doubtful : vmcb->rflags;
}

static void load(struct vcpu *vcpu, const struct vmcb *vmcb)
{
	for (unsigned i = 0; i < SEGMENTS; i++)
		vcpu->segment[i] = from_vmcb(&vmcb->segment[i]);
	vcpu->cpl = vmcb->cpl;
	vcpu->ldtr = from_vmcb(&vmcb->ldtr);
	vcpu->tr = from_vmcb(&vmcb->tr);
	vcpu->gdtr = (struct descriptor_table){(uint16_t)vmcb->gdtr.limit, vmcb->gdtr.base};
	vcpu->idtr = (struct descriptor_table){(uint16_t)vmcb->idtr.limit, vmcb->idtr.base};
	vcpu->efer = (vmcb->efer & ~(EFER_SVME | EFER_SCE)) | (vcpu->efer & EFER_SCE);
	/* Bochs clears LMA before it looks at the intercept of MOV to CR0. */
	if (vmcb->cr0 & CR0_PG && vcpu->efer & EFER_LME)
		vcpu->efer |= EFER_LMA;
	vcpu->cr0 = vmcb->cr0;
	vcpu->cr2 = vmcb->cr2;
	vcpu->cr3 = vmcb->cr3;
	vcpu->cr4 = vmcb->cr4;
	vcpu->dr6 = vmcb->dr6;
	vcpu->dr7 = vmcb->dr7;
	vcpu->rflags = true_flags(vmcb);
	vcpu->rip = vmcb->rip;
	vcpu->gpr[RSP] = vmcb->rsp;
	vcpu->gpr[RAX] = vmcb->rax;
	vcpu->star = vmcb->star;
	vcpu->lstar = vmcb->lstar;
	vcpu->cstar = vmcb->cstar;
	vcpu->sfmask = vmcb->sfmask;
	vcpu->kernel_gs_base = vmcb->kernel_gs_base;
	vcpu->interrupt_shadow = vmcb->interrupt_state & INTERRUPT_STATE_SHADOW;
}

/*
 * Ring 0 runs natively and ring 3 does not: all that leads there exits but the far RET, and all
 * that leads back, so that a far RET is noticed. SYSCALL and SYSRET raise #UD without EFER.SCE,
 * SYSENTER and SYSEXIT raise #GP where IA32_SYSENTER_CS is 0 (APM Vol 3), or #UD in long mode on a
 * processor of AMD's. The guest's accesses to both MSRs exit.
 */
static void watch_ring_3(struct vmcb *vmcb, unsigned unnoticed)
{
	vmcb->intercept_3 |= INTERCEPT_INTR | INTERCEPT_INT_N;
	if (!(unnoticed & UNNOTICED_IRET))
		vmcb->intercept_3 |= INTERCEPT_IRET;
	vmcb->exceptions = ~0u;
	if (!(unnoticed & UNNOTICED_SYSRET))
		vmcb->efer &= ~EFER_SCE;
	vmcb->sysenter_cs = 0;
}

/* As few as possible while the guest runs freely: each exit costs thousands of instructions. */
static void choose_intercepts(struct guest *guest, enum entry entry)
{
	struct vmcb *vmcb = guest->vmcb;
	unsigned exits = trace_exits(&guest->vcpu);

	vmcb->intercept_3 = INTERCEPT_NMI | INTERCEPT_INIT | INTERCEPT_RDPMC | INTERCEPT_CPUID |
			    INTERCEPT_INVD | INTERCEPT_INVLPGA | INTERCEPT_MSR |
			    INTERCEPT_SHUTDOWN | INTERCEPT_PORTS;
	/* Values that the guest may not load: VMRUN would refuse some of them, and QEMU's processor
	   takes them. MOV to CR3 is too frequent to be looked at. */
	vmcb->cr_write = entry == ENTER_FREELY ? INTERCEPT_CR4 : 0;
	if (entry == ENTER_FREELY)
		vmcb->intercept_3 |= INTERCEPT_CR0_SELECTIVE | INTERCEPT_LIDT | INTERCEPT_LGDT;
	/* In real-address mode INT 15H may be one that platform_bios() answers. */
	if (entry == ENTER_FREELY && !(guest->vcpu.cr0 & CR0_PE))
		vmcb->intercept_3 |= INTERCEPT_INT_N;
	if (guest->vcpu.nmi_blocked && entry == ENTER_FREELY)
		vmcb->intercept_3 |= INTERCEPT_IRET;
	if (exits & EXIT_AT_HLT)
		vmcb->intercept_3 |= INTERCEPT_HLT;
	vmcb->intercept_4 = INTERCEPT_VMRUN | INTERCEPT_VMMCALL | INTERCEPT_VMLOAD |
			    INTERCEPT_VMSAVE | INTERCEPT_STGI | INTERCEPT_CLGI | INTERCEPT_SKINIT |
			    INTERCEPT_MONITOR | INTERCEPT_MWAIT | INTERCEPT_MWAIT_ARMED;
	vmcb->exceptions = entry == ENTER_STEP		     ? ~0u
			   : exits & EXIT_AT_DEBUG_EXCEPTION ? 1u << VECTOR_DB
							     : 0;
	/* XSAVES and XRSTORS, which the processor does not know. */
	if (guest->vcpu.xss_supported)
		vmcb->exceptions |= 1u << VECTOR_UD;
	/* With V_INTR_MASKING the host's RFLAGS.IF, which is 0, holds back interrupts. */
	vmcb->interrupt_control = entry == ENTER_STEP ? INTERRUPT_V_MASKING | read_cr8() : 0;
	guest->watches_ring_3 = entry == ENTER_FREELY && interp_awaited(&guest->vcpu);
	if (guest->watches_ring_3)
		watch_ring_3(vmcb, guest->vcpu.silicon->unnoticed);
}

/* The delivery of an event was interrupted by the exit: it starts again with the next entry. An
   INT n is executed again instead. EXITINTINFO may be stale where it is not marked valid. */
static void keep_interrupted_event(struct guest *guest)
{
	uint64_t event = guest->vmcb->exit_interrupt_info;

	if (event & EVENT_VALID && (event & EVENT_TYPE_MASK) != EVENT_TYPE_SOFTWARE)
		guest->injection = event;
}

/*
 * QEMU's translator forgets every translation where VMRUN or an exit changes one of these bits
 * (target/i386/helper.c, cpu_x86_update_cr4), beside the time for CR3: the monitor, none of whose
 * pages is global or the user's, keeps them as the guest has them.
 */
static void follow_cr4(uint64_t guest_cr4)
{
	change_cr4(CR4_PSE | CR4_PGE | CR4_SMEP | CR4_SMAP, guest_cr4);
}

static void choose_tables(struct guest *guest, enum entry entry)
{
	uint64_t root = nested_root(lapic_view(guest, entry == ENTER_STEP));

	guest->stale_translations |= root != guest->vmcb->nested_cr3;
	guest->vmcb->nested_cr3 = root;
}

/* QEMU's translator forgets all at VMRUN anyway, for CR3, and would do so twice. */
static uint8_t flush_control = TLB_CONTROL_FLUSH_ALL;

void enter_init(void)
{
	if (is_emulator())
		flush_control = 0;
	nmi_leaves(vmrun_window, vmrun_window_end, vmrun_abandoned);
}

/*
 * GIF is 1 from here up to the next exit, VMRUN included: QEMU 7.2 may lose any change of it, or of
 * nested paging, on the first processor, while another executes FXRSTOR (docs/tricks.md). A guest
 * that runs with GIF = 0 is never interrupted again; of several changes to 1 one is enough. They
 * are made at five places between an exit and VMRUN: a store of the other processor may be late for
 * all of one place, and VMRUN's own change is lost as easily.
 */
static void set_global_interrupts(void)
{
	for (unsigned i = 0; i < 3; i++)
		__asm__ volatile("stgi" : : : "memory");
}

bool enter(struct guest *guest, enum entry entry)
{
	struct vmcb *vmcb = guest->vmcb;

	set_global_interrupts();
	store(guest, vmcb);
	set_global_interrupts();
	choose_intercepts(guest, entry);
	choose_tables(guest, entry);
	follow_cr4(guest->vcpu.cr4);
	vmcb->asid = ASID;
	vmcb->tlb_control = guest->stale_translations ? flush_control : 0;
	guest->stale_translations = false;
	vmcb->interrupt_state = guest->vcpu.interrupt_shadow ? INTERRUPT_STATE_SHADOW : 0;
	vmcb->event_injection = guest->injection;
	vmcb->clean = 0;

	/* VMRUN loads CR2, but not in Bochs 2.7. */
	__asm__ volatile("mov %0, %%cr2" : : "r"(guest->vcpu.cr2));
	set_global_interrupts();
	/* A request is set before its NMI. */
	if (guest->init_requested || !vmrun(guest->vcpu.gpr, direct_physical(vmcb), nmi_flag()))
		return false;
	set_global_interrupts();
	guest->injection = 0;
	if (entry == ENTER_STEP)
		write_cr8(vmcb->interrupt_control & INTERRUPT_V_TPR & 0xf);
	load(&guest->vcpu, vmcb);
	if (vmcb->nested_cr3 == nested_root(LAPIC_OPEN))
		lapic_note_destination(guest);
	set_global_interrupts();
	keep_interrupted_event(guest);
	return true;
}
