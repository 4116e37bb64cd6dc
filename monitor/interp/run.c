// SPDX-License-Identifier: MIT
/* The interpreter's loop, and the ways in which an instruction is left early. */
#include "lib/string.h"
#include "monitor/interp/control.h"
#include "monitor/interp/debug.h"
#include "monitor/interp/lockstep.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/segment.h"
#include "monitor/interp/thunk.h"

_Noreturn void raise_at(struct vcpu *vcpu, uint64_t rip, const struct fault *fault)
{
	vcpu->rip = rip;
	vcpu->interp->fault = *fault;
	vcpu->interp->native = false;
	__builtin_longjmp(vcpu->interp->escape, 1);
}

_Noreturn void raise_fault(struct vcpu *vcpu, const struct insn *i, const struct fault *fault)
{
	raise_at(vcpu, i->rip, fault);
}

_Noreturn void raise_vector(struct vcpu *vcpu, const struct insn *i, unsigned vector)
{
	raise_fault(vcpu, i, &(struct fault){.vector = (uint8_t)vector});
}

_Noreturn void raise_error(struct vcpu *vcpu, const struct insn *i, unsigned vector, uint32_t error)
{
	raise_fault(vcpu, i,
		    &(struct fault){.vector = (uint8_t)vector, .has_error = true, .error = error});
}

_Noreturn void native_step(struct vcpu *vcpu, const struct insn *i)
{
	vcpu->rip = i->rip;
	vcpu->interp->native = true;
	__builtin_longjmp(vcpu->interp->escape, 1);
}

static void deliver_fault(struct vcpu *vcpu)
{
	const struct fault *fault = &vcpu->interp->fault;

	if (fault->vector == VECTOR_PF)
		vcpu->cr2 = fault->address;
	event_deliver(vcpu, &(struct event){.kind = EVENT_EXCEPTION,
					    .vector = fault->vector,
					    .has_error = fault->has_error,
					    .error = fault->error,
					    .return_rip = vcpu->rip,
					    .from = vcpu->rip});
}

/* In 64-bit mode ring 0 is left by IRET, SYSRET, SYSEXIT and the far RET alone. */
static bool may_run_natively(const struct vcpu *vcpu)
{
	return !vcpu->cpl && vcpu_in_64_bit_mode(vcpu) && !(vcpu->rflags & FLAG_TF) &&
	       !(vcpu->dr7 & DR7_ENABLE);
}

bool interp_awaited(const struct vcpu *vcpu)
{
	return observed_levels(vcpu);
}

bool interp_needed(const struct vcpu *vcpu)
{
	unsigned levels = observed_levels(vcpu);

	return levels >> vcpu->cpl & 1 || (levels && !may_run_natively(vcpu));
}

/* Bits of B0 to B3 whose condition is over are cleared (SDM Vol 3, 17.2.3: "may clear"). */
static void debug_exception(struct vcpu *vcpu, uint64_t causes)
{
	vcpu->dr6 = (vcpu->dr6 & ~DR6_BREAKPOINTS) | causes;
	event_deliver(vcpu, &(struct event){.kind = EVENT_EXCEPTION,
					    .vector = VECTOR_DB,
					    .return_rip = vcpu->rip,
					    .from = vcpu->rip});
}

/* The traps of the instruction that has just been executed. MOV SS puts them off. */
static void debug_traps(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;
	bool branches_only = vcpu->debugctl & DEBUGCTL_BTF;
	uint64_t causes = interp->hits;

	if (interp->trap && (vcpu->hot.branched || !branches_only))
		causes |= DR6_BS;
	interp->trap = false;
	if (interp->mov_ss || !causes)
		return;
	interp->hits = 0;
	debug_exception(vcpu, causes);
}

/* A breakpoint on the instruction at RIP: the only fault whose frame has RF as it is. A handler
   that returns to the instruction sets it there: SDM Vol 3, 17.3.1.1. True if it was delivered. */
static bool at_breakpoint(struct vcpu *vcpu)
{
	unsigned causes = vcpu->rflags & FLAG_RF || vcpu->interp->mov_ss ? 0 : debug_fetch(vcpu);

	if (!causes)
		return false;
	debug_exception(vcpu, causes);
	return true;
}

static bool interpretable(const struct vcpu *vcpu)
{
	return !(vcpu->cr4 & (CR4_LA57 | CR4_PKE | CR4_PKS | CR4_CET)) &&
	       !(vcpu->rflags & FLAG_VM && vcpu->cr0 & CR0_PE);
}

/* Acts between two instructions; true with *stop if the interpreter stops here. */
static bool between(struct vcpu *vcpu, enum interp_stop *stop)
{
	struct interp *interp = vcpu->interp;

	vcpu->hot.attention = false;
	debug_traps(vcpu);
	*stop = INTERP_SHUTDOWN;
	if (vcpu->shut_down)
		return true;
	if (vcpu->nmi_pending && !vcpu->nmi_blocked && !vcpu->interrupt_shadow)
		event_deliver(vcpu, &(struct event){.kind = EVENT_NMI,
						    .vector = VECTOR_NMI,
						    .return_rip = vcpu->rip,
						    .from = vcpu->rip});
	if (vcpu->shut_down)
		return true;
	*stop = INTERP_UNTRACED;
	if (!interp_needed(vcpu) && !interp->one)
		return true;
	*stop = INTERP_HALTED;
	if (vcpu->halted)
		return true;
	*stop = INTERP_MODE;
	if (!interpretable(vcpu))
		return true;
	*stop = INTERP_BUDGET;
	if ((interp->poll || vcpu->attention) && !vcpu->interrupt_shadow)
		return true;
	if (vcpu->hot.budget < 0)
		return true;

	if (interp->watching != !!(vcpu->observed & OBSERVER_PEBS)) {
		interp->watching = vcpu->observed & OBSERVER_PEBS;
		interp_forget(vcpu);
	}
	/* One at a time while something is to happen after the next instruction. */
	interp->single = interp->one || interp->breakpoints || vcpu->rflags & FLAG_TF ||
			 vcpu->interrupt_shadow;
	vcpu->hot.follows = !interp->single && follows_branches(vcpu);
	interp->single |= vcpu->observed & OBSERVERS_OF_INSTRUCTIONS && !vcpu->hot.follows;
	/* The next instruction clears it. Only a breakpoint would look at it before. */
	if (!interp->breakpoints)
		vcpu->rflags &= ~(uint64_t)FLAG_RF;
	return false;
}

/* Before a single instruction: what holds for it alone. */
static void prepare(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;

	if (interp->lockstep)
		lockstep_before(vcpu);
	interp->trap = vcpu->rflags & FLAG_TF;
	interp->poll |= vcpu->interrupt_shadow;
	vcpu->hot.attention = true;
	interp->mov_ss = false;
	vcpu->hot.branched = false;
	interp->refused = false;
	interp->began = (struct retired){
		.from = code_linear(interp, vcpu->rip), .rip = vcpu->rip, .from_cpl = vcpu->cpl};
	vcpu->interrupt_shadow = false;
	vcpu->rflags &= ~(uint64_t)FLAG_RF;
}

static void report_retired(struct vcpu *vcpu, const struct insn *i)
{
	struct retired *retired = &vcpu->interp->began;
	unsigned kind = i->kind;

	if (vcpu->hot.branched && kind)
		kind |= RETIRED_TAKEN;
	else if (i->opcode == OPCODE_INTO)
		kind = 0;
	retired->kind |= RETIRED | kind;
	retired->length = i->length;
	retired->to = code_linear(vcpu->interp, vcpu->rip);
	retired->to_cpl = vcpu->cpl;
	saw_retired(vcpu, retired);
}

/* Without interp.began, which is that of a single instruction. */
static void report_in_block(struct vcpu *vcpu, const struct retired *retired)
{
	saw_retired(vcpu, retired);
	if (!follows_branches(vcpu))
		vcpu->hot.attention = true;
}

/* A function apart: a caller that has this structure on its stack cannot go on by a tail call, and
   a long block overflows the stack then. */
static __attribute__((noinline)) void near_in_block(struct vcpu *vcpu, const struct insn *i,
						    unsigned taken)
{
	report_in_block(vcpu, &(struct retired){.from = code_linear(vcpu->interp, i->rip),
						.to = code_linear(vcpu->interp, vcpu->rip),
						.rip = i->rip,
						.from_cpl = vcpu->cpl,
						.to_cpl = vcpu->cpl,
						.kind = RETIRED | taken | i->kind,
						.length = i->length});
}

void jump_slowly(struct vcpu *vcpu, const struct insn *i, uint64_t rip)
{
	const struct interp *interp = vcpu->interp;

	vcpu->rip = rip;
	if (vcpu->hot.follows)
		near_in_block(vcpu, i, RETIRED_TAKEN);
	else if (vcpu->observed)
		saw_branch(vcpu, code_linear(interp, i->rip), code_linear(interp, rip), vcpu->cpl,
			   vcpu->cpl);
	go_on(vcpu, rip, i->behind);
}

void not_taken_slowly(struct vcpu *vcpu, const struct insn *i)
{
	if (vcpu->interp->lockstep)
		lockstep_saw(vcpu, SAW_NOT_TAKEN, code_linear(vcpu->interp, i->rip));
	if (vcpu->hot.follows) {
		vcpu->rip = insn_next(i);
		near_in_block(vcpu, i, 0);
	}
	if (vcpu->hot.follows && (vcpu->hot.attention || vcpu->attention))
		end_of_block(vcpu, i);
	else
		next(vcpu, i);
}

void far_in_block(struct vcpu *vcpu, uint64_t from, unsigned from_cpl)
{
	report_in_block(vcpu, &(struct retired){.from = from,
						.to = code_linear(vcpu->interp, vcpu->rip),
						.rip = from,
						.from_cpl = from_cpl,
						.to_cpl = vcpu->cpl,
						.kind = RETIRED | RETIRED_TAKEN | RETIRED_BRANCH |
							RETIRED_FAR});
}

/* After a single instruction that did not fault. */
static void complete(struct vcpu *vcpu, const struct insn *i)
{
	bool repeats = vcpu->rip == i->rip && !vcpu->hot.branched;

	if (vcpu->observed & OBSERVERS_OF_INSTRUCTIONS && !repeats && !vcpu->interp->refused)
		report_retired(vcpu, i);
	if (vcpu->interp->lockstep)
		lockstep_after(vcpu, NULL);
}

/* Here and not in run_block(): go_on() may have left the block that run_block() knows. */
void leave_observed(struct vcpu *vcpu, const struct insn *i)
{
	struct interp *interp = vcpu->interp;

	vcpu->hot.attention = true;
	leave(vcpu, i);
	if (interp->single || !(vcpu->observed & OBSERVERS_OF_INSTRUCTIONS))
		return;
	interp->began = (struct retired){
		.from = code_linear(interp, i->rip), .rip = i->rip, .from_cpl = vcpu->cpl};
	vcpu->hot.branched = false;
	report_retired(vcpu, i);
}

static void run_block(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;
	const struct block *block;

	if (interp->single)
		prepare(vcpu);
	block = find_block(vcpu);
	enter_block(vcpu, block);
	if (interp->single)
		complete(vcpu, block->insn);
}

/*
 * __builtin_setjmp() returns twice, and clang does not count on it: in its caller it may give the
 * variables of one way places in the stack that the other way needs. So each way is a function,
 * with its own frame.
 */

/* Until there is a reason to stop. Faults leave it by the escape. */
static __attribute__((noinline)) enum interp_stop run(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;
	enum interp_stop stop;

	for (;;) {
		if (vcpu->hot.attention || vcpu->attention)
			if (between(vcpu, &stop))
				return stop;
		if (vcpu->hot.budget < 0)
			return INTERP_BUDGET;
		if (!interp->breakpoints || !at_breakpoint(vcpu))
			run_block(vcpu);
	}
}

/* After the escape: delivers the fault, or returns false where the processor is to execute the
 * instruction. */
static __attribute__((noinline)) bool recover(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;

	interp->trap = false;
	interp->hits = 0;
	if (interp->native)
		return false;
	vcpu->hot.budget--;
	if (interp->lockstep)
		lockstep_after(vcpu, &interp->fault);
	deliver_fault(vcpu);
	return true;
}

enum interp_stop interp_run(struct vcpu *vcpu, unsigned budget)
{
	struct interp *interp = vcpu->interp;

	vcpu->hot.budget = (int64_t)budget - 1;
	interp->one = budget == 1;
	interp->poll = false;
	interp->trap = false;
	privilege_changed(vcpu);
	debug_changed(vcpu);
	thunk_state_changed(vcpu);
	if (__builtin_setjmp(interp->escape) && !recover(vcpu))
		return INTERP_NATIVE_STEP;

	enum interp_stop stop = run(vcpu);

	__asm__ volatile(""); /* no tail call: the frame has to be there for the next jump */
	return stop;
}

void interp_cpuid(struct vcpu *vcpu, uint32_t leaf, uint32_t subleaf, uint32_t value[4])
{
	uint64_t saved[4];

	memcpy(saved, vcpu->gpr, sizeof(saved));
	vcpu->gpr[RAX] = leaf;
	vcpu->gpr[RCX] = subleaf;
	platform_cpuid(vcpu);
	for (unsigned n = 0; n < 4; n++)
		value[n] = (uint32_t)vcpu->gpr[n];
	memcpy(vcpu->gpr, saved, sizeof(saved));
}

static uint32_t cpuid(struct vcpu *vcpu, uint32_t leaf, unsigned reg)
{
	uint32_t value[4];

	interp_cpuid(vcpu, leaf, 0, value);
	return value[reg];
}

/* The bits of CR4 that the guest's CPUID allows (SDM Vol 3, 2.5). */
static uint64_t allowed_cr4(uint32_t ecx1, uint32_t ebx7, uint32_t ecx7)
{
	uint64_t allowed = 0x7ff;

	allowed |= ecx1 & 1u << 17 ? CR4_PCIDE : 0;
	allowed |= ecx1 & 1u << 26 ? CR4_OSXSAVE : 0;
	allowed |= ebx7 & 1u << 0 ? CR4_FSGSBASE : 0;
	allowed |= ebx7 & 1u << 7 ? CR4_SMEP : 0;
	allowed |= ebx7 & 1u << 20 ? CR4_SMAP : 0;
	allowed |= ecx7 & 1u << 2 ? CR4_UMIP : 0;
	allowed |= ecx7 & 1u << 3 ? CR4_PKE : 0;
	return allowed;
}

void interp_init(struct vcpu *vcpu, void *memory)
{
	const uint32_t sse4 = 1u << 9 | 1u << 19 | 1u << 20;
	struct interp *interp = memory;
	bool leaf7 = cpuid(vcpu, 0, RAX) >= 7;
	bool sizes = cpuid(vcpu, 0x80000000, RAX) >= 0x80000008;
	uint32_t ecx1 = cpuid(vcpu, 1, RCX);

	memset(interp, 0, sizeof(*interp));
	interp->code_mask = ~0ULL;
	vcpu->interp = interp;
	vcpu->hot = (struct hot){0};
	interp->physical_reserved = ~0ULL << (sizes ? cpuid(vcpu, 0x80000008, RAX) & 0xff : 36);
	interp->cr4_allowed =
		allowed_cr4(ecx1, leaf7 ? cpuid(vcpu, 7, RBX) : 0, leaf7 ? cpuid(vcpu, 7, RCX) : 0);
	interp->pages_1g = cpuid(vcpu, 0x80000001, RDX) >> 26 & 1;
	interp->sse4 = (ecx1 & sse4) == sse4;
	forget_blocks(interp);
	xsave_init(vcpu);
	interp_forget(vcpu);
}
