// SPDX-License-Identifier: MIT
/* The functions of intercepted instructions and events. */
#include "monitor/console.h"
#include "monitor/host/cpu.h"
#include "monitor/interp/interp.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/lapic.h"
#include "monitor/unit.h"

/* TWO_BYTES: all opcodes here are 0FH and one byte more. */
enum { EXIT_INFO_WRMSR = 1, ONE_BYTE = 1, TWO_BYTES = 2 };
#define CR4_PCE (1ull << 8)

_Noreturn void report_shutdown(const struct vcpu *vcpu)
{
	end_run(VERDICT_PANIC, "guest triple fault at rip=0x%016llx cr2=0x%016llx",
		(unsigned long long)vcpu->rip, (unsigned long long)vcpu->cr2);
}

static void set_edx_eax(struct vcpu *vcpu, uint64_t value)
{
	vcpu->gpr[RAX] = (uint32_t)value;
	vcpu->gpr[RDX] = value >> 32;
}

static void exit_msr(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;
	uint32_t index = (uint32_t)vcpu->gpr[RCX];
	uint64_t value = vcpu->gpr[RDX] << 32 | (uint32_t)vcpu->gpr[RAX];
	bool done;

	if (guest->vmcb->exit_info_1 & EXIT_INFO_WRMSR) {
		done = guest_write_msr(vcpu, index, value);
	} else {
		done = guest_read_msr(vcpu, index, &value);
		if (done)
			set_edx_eax(vcpu, value);
	}
	if (done)
		complete_instruction(guest, TWO_BYTES);
	else
		raise_exception(guest, VECTOR_GP, 0);
}

static void begin_interpreting(struct vcpu *vcpu)
{
	vcpu->attention = false;
	read_breakpoints(vcpu->dr);
	interp_forget(vcpu);
}

/* Executes one instruction by the interpreter. False: it has to be stepped. */
static bool interpret_one(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;

	begin_interpreting(vcpu);
	switch (interp_run(vcpu, 1)) {
	case INTERP_SHUTDOWN:
		report_shutdown(vcpu);
	case INTERP_NATIVE_STEP:
	case INTERP_MODE:
		return false;
	default:
		return true;
	}
}

_Noreturn void report_refused_write(const struct vcpu *vcpu)
{
	end_run(VERDICT_ERROR,
		"unsupported instruction writes the local APIC or the monitor at rip=0x%016llx",
		(unsigned long long)vcpu->rip);
}

static void execute_one(struct guest *guest)
{
	if (!interpret_one(guest))
		step(guest, STEP_KEEPS_TF);
}

static bool may_stay(const struct vcpu *vcpu)
{
	return vcpu->cpl == 3 && vcpu_in_64_bit_mode(vcpu) && !vcpu->observed &&
	       !(vcpu->debugctl & DEBUGCTL_BTF) && !(vcpu->rflags & RFLAGS_TF) &&
	       !(vcpu->dr7 & DR7_ENABLE) && !vcpu->interrupt_shadow;
}

/*
 * A C library that begins asks 26 times in a row, with some ten or hundred instructions in between:
 * to interpret these costs less than an exit and an entry. Interrupts wait for one round.
 */
static void stay_for_cpuid(struct guest *guest)
{
	enum { INSTRUCTIONS = 150, ROUNDS = 100 };
	struct vcpu *vcpu = &guest->vcpu;
	enum interp_stop stop;
	unsigned before, left = ROUNDS;

	guest->stale_translations = true;
	begin_interpreting(vcpu);
	vcpu->observed = OBSERVER_NONE;
	do {
		before = vcpu->cpuids;
		stop = interp_run(vcpu, INSTRUCTIONS);
	} while (stop == INTERP_BUDGET && vcpu->cpuids != before && vcpu->cpl == 3 &&
		 !vcpu->attention && --left);
	vcpu->observed &= ~(unsigned)OBSERVER_NONE;
	if (stop == INTERP_HALTED)
		wait_while_halted(guest);
	if (stop == INTERP_SHUTDOWN)
		report_shutdown(vcpu);
}

static void exit_cpuid(struct guest *guest)
{
	platform_cpuid(&guest->vcpu);
	complete_instruction(guest, TWO_BYTES);
	if (may_stay(&guest->vcpu) && !guest->injection)
		stay_for_cpuid(guest);
}

/* CR0, CR4, GDTR, IDTR: with the checks of the processor that the guest sees. */
static void exit_control(struct guest *guest)
{
	execute_one(guest);
	guest->stale_translations = true;
}

/* MOV to CR3 exits so in QEMU where the value has reserved bits
   (target/i386/tcg/sysemu/misc_helper.c, helper_write_crN); a processor raises #GP itself. */
static bool is_cr3_refused(struct guest *guest)
{
	enum { MOV_TO_CR = 0x22, CR3 = 3 };
	int modrm;

	if ((int32_t)guest->vmcb->exit_code != EXIT_INVALID)
		return false;
	modrm = modrm_of(guest, MOV_TO_CR);
	return modrm >= 0 && (modrm >> 3 & 7) == CR3;
}

static void exit_nested_page_fault(struct guest *guest)
{
	uint64_t physical = guest->vmcb->exit_info_2;

	/* The interpreter hands what is written to platform_write(), or to nested_page(). */
	if (nested_is_read_only(page_down(physical))) {
		if (!interpret_one(guest))
			report_refused_write(&guest->vcpu);
		return;
	}
	nested_map(physical);
	guest->stale_translations = true;
	keep_interrupt_shadow(guest);
}

static void exit_rdpmc(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;
	uint64_t value;

	if ((vcpu->cpl && !(vcpu->cr4 & CR4_PCE)) ||
	    !trace_read_counter(vcpu, (uint32_t)vcpu->gpr[RCX], &value)) {
		raise_exception(guest, VECTOR_GP, 0);
		return;
	}
	set_edx_eax(vcpu, value);
	complete_instruction(guest, TWO_BYTES);
}

/* Writing back loses nothing that the guest may expect INVD to keep. */
static void exit_invd(struct guest *guest)
{
	__asm__ volatile("wbinvd" : : : "memory");
	complete_instruction(guest, TWO_BYTES);
}

/* Intercepted while cycles are counted, as none passes in HLT. */
static void exit_hlt(struct guest *guest)
{
	guest->vcpu.halted = true;
	complete_instruction(guest, ONE_BYTE);
	wait_while_halted(guest);
}

/* XSAVES or XRSTORS of the monitor's own. */
static bool is_state_instruction(struct guest *guest)
{
	enum { XRSTORS = 3, XSAVES = 5 };
	int modrm = guest->vcpu.xss_supported ? modrm_of(guest, 0xc7) : -1;

	return modrm >= 0 && modrm < 0xc0 &&
	       ((modrm >> 3 & 7) == XRSTORS || (modrm >> 3 & 7) == XSAVES);
}

/* Perhaps an instruction that watch_ring_3() makes fault, or one of those that enter their handler
   by intention: the interpreter executes it, or finds that it faults. */
static bool may_change_ring(uint8_t vector)
{
	return vector == VECTOR_UD || vector == VECTOR_GP || vector == VECTOR_BP ||
	       vector == VECTOR_OF;
}

static void exit_exception(struct guest *guest, uint8_t vector)
{
	const struct vmcb *vmcb = guest->vmcb;
	bool has_error = exception_has_error(vector);

	if (guest->watches_ring_3 && may_change_ring(vector) && interpret_one(guest))
		return;
	if (vector == VECTOR_UD && is_state_instruction(guest) && interpret_one(guest))
		return;
	/* CR2 is not written when #PF is intercepted: APM Vol 2, 15.12.15. */
	if (vector == VECTOR_PF)
		guest->vcpu.cr2 = vmcb->exit_info_2;
	raise_exception(guest, vector, has_error ? (int64_t)(uint32_t)vmcb->exit_info_1 : -1);
}

/* NMIs stay blocked until IRET is done, be it with an exception. One that returns from a task (SDM
   Vol 3, 7.3) would save the TF of a step in the task's TSS: it runs freely, and no NMI is injected
   before. */
static void exit_iret(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;

	if (guest->watches_ring_3 && interpret_one(guest))
		return;
	if (vcpu->rflags & RFLAGS_NT && !(vcpu->efer & EFER_LMA)) {
		vcpu->nmi_blocked = false;
		if (enter(guest, ENTER_FREELY))
			handle_exit(guest);
	} else if (step(guest, STEP_LOADS_TF)) {
		vcpu->nmi_blocked = false;
	}
}

/* SVM's own instructions, MONITOR and MWAIT: the guest's processor has none of them. */
static bool is_svm_or_wait(uint64_t code)
{
	return code == EXIT_INVLPGA || (code >= EXIT_VMRUN && code <= EXIT_SKINIT) ||
	       (code >= EXIT_MONITOR && code <= EXIT_MWAIT_ARMED);
}

static _Noreturn void end_unexpected(const struct guest *guest)
{
	end_run(VERDICT_PANIC, "unexpected exit 0x%llx (0x%llx, 0x%llx) at rip=0x%016llx",
		(unsigned long long)guest->vmcb->exit_code,
		(unsigned long long)guest->vmcb->exit_info_1,
		(unsigned long long)guest->vmcb->exit_info_2, (unsigned long long)guest->vcpu.rip);
}

static void exit_any_port(struct guest *guest)
{
	uint16_t port = (uint16_t)(guest->vmcb->exit_info_1 >> 16);

	if (port == RESET_PORT)
		execute_one(guest);
	else
		exit_port(guest);
}

void handle_exit(struct guest *guest)
{
	uint64_t code = guest->vmcb->exit_code;

	switch (code) {
	case EXIT_INTR: /* it still waits: run_native() */
	case EXIT_NMI:	/* the NMI itself was noted when GIF was set again */
		keep_interrupt_shadow(guest);
		break;
	case EXIT_NESTED_PAGE_FAULT:
		exit_nested_page_fault(guest);
		break;
	case EXIT_WRITE_CR4:
	case EXIT_CR0_SELECTIVE:
	case EXIT_LIDT:
	case EXIT_LGDT:
		exit_control(guest);
		break;
	case EXIT_CPUID:
		exit_cpuid(guest);
		break;
	case EXIT_MSR:
		exit_msr(guest);
		break;
	case EXIT_PORT:
		exit_any_port(guest);
		break;
	case EXIT_RDPMC:
		exit_rdpmc(guest);
		break;
	case EXIT_INVD:
		exit_invd(guest);
		break;
	case EXIT_HLT:
		exit_hlt(guest);
		break;
	case EXIT_INT_N:
		execute_one(guest);
		break;
	case EXIT_IRET:
		exit_iret(guest);
		break;
	case EXIT_SHUTDOWN:
		report_shutdown(&guest->vcpu);
	default:
		if (is_cr3_refused(guest)) {
			raise_exception(guest, VECTOR_GP, 0);
			break;
		}
		if (is_svm_or_wait(code)) {
			raise_exception(guest, VECTOR_UD, -1);
			break;
		}
		if (code >= EXIT_EXCEPTION_0 && code <= EXIT_EXCEPTION_31) {
			exit_exception(guest, (uint8_t)(code - EXIT_EXCEPTION_0));
			break;
		}
		end_unexpected(guest);
	}
}
