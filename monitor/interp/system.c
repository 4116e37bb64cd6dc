/* SPDX-License-Identifier: MIT */
/* HLT, CPUID, RDTSC, RDMSR, WRMSR, the cache instructions, fences, SWAPGS, FS and GS bases. */
#include "monitor/interp/control.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"

void hlt(struct vcpu *vcpu, const struct insn *i)
{
	require_cpl0(vcpu, i);
	vcpu->halted = true;
	if (vcpu->observed)
		saw_halt(vcpu);
	vcpu->interp->attention = true;
	leave(vcpu, i);
}

void cpuid(struct vcpu *vcpu, const struct insn *i)
{
	platform_cpuid(vcpu);
	next(vcpu, i);
}

static void set_edx_eax(struct vcpu *vcpu, uint64_t value)
{
	vcpu->gpr[RAX] = (uint32_t)value;
	vcpu->gpr[RDX] = value >> 32;
}

void rdtsc(struct vcpu *vcpu, const struct insn *i)
{
	if (vcpu->cr4 & CR4_TSD)
		require_cpl0(vcpu, i);
	set_edx_eax(vcpu, __builtin_ia32_rdtsc());
	next(vcpu, i);
}

static void rdtscp(struct vcpu *vcpu, const struct insn *i)
{
	uint32_t low, high, aux;

	if (vcpu->cr4 & CR4_TSD)
		require_cpl0(vcpu, i);
	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux));
	vcpu->gpr[RAX] = low;
	vcpu->gpr[RDX] = high;
	vcpu->gpr[RCX] = aux;
	leave(vcpu, i);
}

void rdmsr(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t value;

	require_cpl0(vcpu, i);
	if (!guest_read_msr(vcpu, (uint32_t)vcpu->gpr[RCX], &value))
		general_protection(vcpu, i);
	set_edx_eax(vcpu, value);
	next(vcpu, i);
}

void wrmsr(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t value = (uint32_t)vcpu->gpr[RAX] | vcpu->gpr[RDX] << 32;

	require_cpl0(vcpu, i);
	if (!guest_write_msr(vcpu, (uint32_t)vcpu->gpr[RCX], value))
		general_protection(vcpu, i);
	vcpu->interp->attention = true;
	leave(vcpu, i);
}

/* INVD, WBINVD: the host's caches are coherent, there is nothing to write back or to lose. */
void cache_control(struct vcpu *vcpu, const struct insn *i)
{
	require_cpl0(vcpu, i);
	next(vcpu, i);
}

/* 0F AE /5 to /7 */
void fence(struct vcpu *vcpu, const struct insn *i)
{
	bool clflush = (i->modrm & 0x38) == 0x38;

	if (i->prefixes & (PREFIX_REP | PREFIX_REPNE) || (i->memory && !clflush))
		native_step(vcpu, i);
	if (i->memory)
		get(read_at(vcpu, i, effective_address(vcpu, i, false), 1), 1);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	next(vcpu, i);
}

/* F3 0F AE /0 to /3: RDFSBASE, RDGSBASE, WRFSBASE, WRGSBASE */
void fs_gs_base(struct vcpu *vcpu, const struct insn *i)
{
	struct segment *s = &vcpu->segment[i->modrm & 8 ? GS : FS];
	unsigned size = i->rex & 8 ? 8 : 4;
	uint8_t place = (uint8_t)(((i->modrm & 7) | (i->rex & 1) << 3) * 8);

	if (!(vcpu->cr4 & CR4_FSGSBASE))
		raise_vector(vcpu, i, VECTOR_UD);
	if (i->modrm & 16) {
		uint64_t base = get_register(vcpu, place, size);

		if (!canonical(base))
			general_protection(vcpu, i);
		s->base = base;
	} else {
		set_register(vcpu, place, s->base, size);
	}
	next(vcpu, i);
}

static void swapgs(struct vcpu *vcpu, const struct insn *i)
{
	uint64_t base = vcpu->segment[GS].base;

	require_cpl0(vcpu, i);
	vcpu->segment[GS].base = vcpu->kernel_gs_base;
	vcpu->kernel_gs_base = base;
	leave(vcpu, i);
}

/* INVLPG drops everything: what it was for may have been a large page. */
void invlpg_group(struct vcpu *vcpu, const struct insn *i)
{
	if (i->memory) {
		require_cpl0(vcpu, i);
		interp_forget(vcpu);
		leave(vcpu, i);
		return;
	}
	switch (i->modrm) {
	case 0xf8:
		swapgs(vcpu, i);
		break;
	case 0xf9:
		rdtscp(vcpu, i);
		break;
	case 0xfa: /* MONITORX, MWAITX */
	case 0xfb:
		raise_vector(vcpu, i, VECTOR_UD);
	default:
		native_step(vcpu, i);
	}
}
