// SPDX-License-Identifier: MIT
#include "monitor/interp/thunk.h"

#include "monitor/interp/control.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"

enum { REX = 0x40, REX_B = 1, REX_R = 4, REX_W = 8, THUNK_RCX = 1, THUNK_RDI = 7 };
enum { FXSAVE_BYTES = 512, FXSAVE_MXCSR = 24, FXSAVE_FCW = 0 };
enum { MXCSR_MASKS = 0x1f80, MXCSR_KNOWN = 0xffff, FCW_MASKS = 0x3f };

void interp_set_thunk_area(struct vcpu *vcpu, void *writable, const void *executable, size_t bytes)
{
	vcpu->interp->thunks = writable;
	vcpu->interp->thunks_executable = executable;
	vcpu->interp->thunk_bytes = bytes;
	vcpu->interp->thunks_used = 0;
}

void thunk_state_changed(struct vcpu *vcpu)
{
	uint32_t mxcsr;
	uint16_t fcw;

	if (!vcpu->interp->thunks)
		return;
	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	__asm__ volatile("fnstcw %0" : "=m"(fcw));
	vcpu->interp->sse_masked = (mxcsr & MXCSR_MASKS) == MXCSR_MASKS;
	vcpu->interp->x87_masked = (fcw & FCW_MASKS) == FCW_MASKS;
}

static bool is_x87(const struct insn *i)
{
	return i->opcode >= 0xd8 && i->opcode <= 0xdf;
}

bool thunk_wanted(const struct insn *i)
{
	return i->form && !i->thunk;
}

void thunk_make(struct interp *interp, struct insn *i)
{
	uint8_t *to = interp->thunks + interp->thunks_used;
	uint8_t rex = i->rex & REX_W, modrm = i->modrm;

	if (!interp->thunks)
		return;
	i->thunk = interp->thunks_executable + interp->thunks_used;
	interp->thunks_used += THUNK_BYTES;
	if (i->form & THUNK_GENERAL_REG)
		modrm = (uint8_t)((modrm & ~0x38) | THUNK_RCX << 3);
	else
		rex |= i->rex & REX_R;
	if (i->memory)
		modrm = (uint8_t)((modrm & 0x38) | THUNK_RDI);
	else if (i->form & THUNK_GENERAL_RM)
		modrm = (uint8_t)((modrm & ~7) | THUNK_RCX);
	else
		rex |= i->rex & REX_B;

	if (i->prefixes & PREFIX_OPERAND && !is_x87(i))
		*to++ = 0x66;
	if (i->prefixes & PREFIX_REP && !is_x87(i))
		*to++ = 0xf3;
	if (i->prefixes & PREFIX_REPNE && !is_x87(i))
		*to++ = 0xf2;
	if (rex)
		*to++ = REX | rex;
	if (!is_x87(i))
		*to++ = 0x0f;
	if (i->opcode > 0xfff)
		*to++ = (uint8_t)(i->opcode >> 8);
	*to++ = (uint8_t)i->opcode;
	if (i->opcode != 0xf77)
		*to++ = modrm;
	if (i->form & THUNK_I8)
		*to++ = (uint8_t)i->immediate;
	*to = 0xc3;
}

/* The guest's flags and registers into the host's, the thunk, and back. */
static void call_thunk(struct vcpu *vcpu, const struct insn *i, const void *memory)
{
	uint64_t *operand = &vcpu->gpr[RCX];
	uint64_t rax = vcpu->gpr[RAX];
	uint32_t ax = saved_flags(vcpu);

	if (i->form & THUNK_GENERAL_REG)
		operand = &vcpu->gpr[(i->modrm >> 3 & 7) | (i->rex & REX_R ? 8 : 0)];
	else if (i->form & THUNK_GENERAL_RM && !i->memory)
		operand = &vcpu->gpr[(i->modrm & 7) | (i->rex & REX_B ? 8 : 0)];

	uint64_t rcx = *operand, rdx = vcpu->gpr[RDX];

	/* ADD makes OF, SAHF the rest. A host test has a red zone to step over. */
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
			 "addb $0x7f, %%al\n\t"
			 "sahf\n\t"
			 "movq %[rax], %%rax\n\t"
			 "call *%[thunk]\n\t"
			 "movq %%rax, %[rax]\n\t"
			 "lahf\n\t"
			 "seto %%al\n\t"
			 "leaq 128(%%rsp), %%rsp"
			 : "+&a"(ax), [rax] "+&r"(rax), "+&c"(rcx), "+&d"(rdx)
			 : [thunk] "r"(i->thunk), "D"(memory)
			 : "cc", "memory");
	vcpu->gpr[RAX] = rax;
	*operand = rcx;
	set_flags(vcpu, ax);
}

/* #UD and #NM (SDM Vol 3, 2.5 and 13.1), and exceptions that must not come up in the host. */
static void check_enabled(struct vcpu *vcpu, const struct insn *i)
{
	const struct interp *interp = vcpu->interp;
	bool x87 = is_x87(i), mmx = i->form & THUNK_X87;
	bool masked = (interp->x87_masked || !mmx) && (interp->sse_masked || x87);

	if (!x87 && vcpu->cr0 & CR0_EM)
		raise_vector(vcpu, i, VECTOR_UD);
	if (!mmx && !(vcpu->cr4 & CR4_OSFXSR))
		raise_vector(vcpu, i, VECTOR_UD);
	if (vcpu->cr0 & (CR0_TS | CR0_EM))
		raise_vector(vcpu, i, VECTOR_NM);
	/* CVTPS2PI and the like have exceptions of both. */
	if (!i->thunk || !masked)
		native_step(vcpu, i);
	if (i->opcode > 0xfff && !interp->sse4)
		native_step(vcpu, i);
}

unsigned thunk_memory_size(const struct insn *i)
{
	if (i->form & THUNK_FXSAVE)
		return FXSAVE_BYTES;
	if (i->form & THUNK_BY_REX)
		return i->rex & REX_W ? 8 : 4;
	return i->form & THUNK_SIZE;
}

/* State on which the host faults, or that unmasks exceptions, is left to the processor. */
static void check_state(struct vcpu *vcpu, const struct insn *i, const uint8_t *from)
{
	uint32_t mxcsr = MXCSR_MASKS;
	uint16_t fcw = FCW_MASKS;

	if (i->form & THUNK_STORE)
		return;
	if (i->form & THUNK_FXSAVE) {
		mxcsr = (uint32_t)get(from + FXSAVE_MXCSR, 4);
		fcw = (uint16_t)get(from + FXSAVE_FCW, 2);
	} else if (i->opcode == 0xfae) {
		mxcsr = (uint32_t)get(from, 4);
	} else if (i->opcode == 0xd9 && (i->modrm >> 3 & 7) == 5) {
		fcw = (uint16_t)get(from, 2);
	}
	if (mxcsr & ~(uint32_t)MXCSR_KNOWN || (mxcsr & MXCSR_MASKS) != MXCSR_MASKS ||
	    (fcw & FCW_MASKS) != FCW_MASKS)
		native_step(vcpu, i);
}

static void run_thunk(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = thunk_memory_size(i);
	uint64_t address;

	check_enabled(vcpu, i);
	if (!i->memory) {
		call_thunk(vcpu, i, NULL);
		next(vcpu, i);
		return;
	}
	address = effective_address(vcpu, i, i->form & THUNK_STORE);
	if ((i->form & THUNK_ALIGNED && address % size) || (i->form & THUNK_FXSAVE && address % 16))
		general_protection(vcpu, i);
	if (i->form & THUNK_STORE) {
		void *to = write_at(vcpu, i, address, size);

		call_thunk(vcpu, i, to);
		next_after_write(vcpu, i, to);
		return;
	}

	const void *from = read_at(vcpu, i, address, size);

	check_state(vcpu, i, from);
	call_thunk(vcpu, i, from);
	next(vcpu, i);
}

/* WAIT: with every exception masked there is nothing to wait for. */
void wait_x87(struct vcpu *vcpu, const struct insn *i)
{
	if ((vcpu->cr0 & (CR0_MP | CR0_TS)) == (CR0_MP | CR0_TS))
		raise_vector(vcpu, i, VECTOR_NM);
	if (!vcpu->interp->x87_masked)
		native_step(vcpu, i);
	next(vcpu, i);
}

enum thunk_status thunk_decode(struct insn *i)
{
	i->form = (uint16_t)thunk_form(i);
	if (i->form) {
		i->run = run_thunk;
		return i->form & THUNK_I8 ? THUNK_IMMEDIATE : THUNK_DONE;
	}
	/* F3 0F AE in register form */
	if (i->opcode == 0xfae && !i->memory && i->prefixes & PREFIX_REP && i->modrm < 0xe0) {
		i->run = fs_gs_base;
		return THUNK_DONE;
	}
	return THUNK_NONE;
}
