// SPDX-License-Identifier: MIT
/* HLT, CPUID, RDTSC, RDMSR, WRMSR, the cache instructions, fences, SWAPGS, FS and GS bases; ports.
 */
#include "monitor/interp/context.h"
#include "monitor/interp/control.h"
#include "monitor/interp/debug.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/string.h"

void hlt(struct vcpu *vcpu, const struct insn *i)
{
	require_cpl0(vcpu, i);
	vcpu->halted = true;
	if (vcpu->observed)
		saw_halt(vcpu);
	vcpu->hot.attention = true;
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
	leave_observed(vcpu, i);
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

/* IN, OUT, INS, OUTS. */

enum { TSS_IO_MAP = 102 };

/* CPL above IOPL needs a clear bit for every port in the TSS (SDM Vol 1, 19.5.2). */
static void check_port(struct vcpu *vcpu, const struct insn *i, uint16_t port, unsigned size)
{
	uint16_t base, bits;
	struct fault fault;

	if (vcpu->interp->breakpoints)
		debug_port(vcpu, port, size);
	if (vcpu->cpl <= (vcpu->rflags & FLAG_IOPL) >> 12)
		return;
	if (TSS_IO_MAP + 1 > vcpu->tr.limit)
		general_protection(vcpu, i);
	if (!system_read(vcpu, vcpu->tr.base + TSS_IO_MAP, &base, 2, &fault))
		raise_fault(vcpu, i, &fault);
	if (base + port / 8u + 1 > vcpu->tr.limit)
		general_protection(vcpu, i);
	if (!system_read(vcpu, vcpu->tr.base + base + port / 8, &bits, 2, &fault))
		raise_fault(vcpu, i, &fault);
	if (bits >> port % 8 & ((1u << size) - 1))
		general_protection(vcpu, i);
}

/* A 64-bit operand size means 32 bits. */
static unsigned port_size(const struct insn *i)
{
	return i->size > 4 ? 4 : i->size;
}

static uint16_t port_number(const struct vcpu *vcpu, const struct insn *i)
{
	return i->opcode < 0xe8 ? (uint8_t)i->immediate : (uint16_t)vcpu->gpr[RDX];
}

void in_port(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = port_size(i);
	uint16_t port = port_number(vcpu, i);

	check_port(vcpu, i, port, size);
	set_register(vcpu, RAX * 8, platform_in(vcpu, port, size), size);
	vcpu->hot.attention = true;
	leave(vcpu, i);
}

void out_port(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = port_size(i);
	uint16_t port = port_number(vcpu, i);

	check_port(vcpu, i, port, size);
	platform_out(vcpu, port, size, (uint32_t)low_bytes(vcpu->gpr[RAX], size));
	/* It may have made an interrupt deliverable. */
	vcpu->interp->poll = vcpu->hot.attention = true;
	leave(vcpu, i);
}

void ins(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = port_size(i);
	uint16_t port = (uint16_t)vcpu->gpr[RDX];

	check_port(vcpu, i, port, size);
	if (nothing_to_do(vcpu, i))
		return;

	void *to = write_at(vcpu, i, target_address(vcpu, i, size, true), size);

	put(to, platform_in(vcpu, port, size), size);
	written(vcpu, to);
	advance(vcpu, i, RDI, 1, size);
	iterated(vcpu, i, 1, true);
}

void outs(struct vcpu *vcpu, const struct insn *i)
{
	unsigned size = port_size(i);
	uint16_t port = (uint16_t)vcpu->gpr[RDX];

	check_port(vcpu, i, port, size);
	if (nothing_to_do(vcpu, i))
		return;
	platform_out(vcpu, port, size,
		     (uint32_t)get(read_at(vcpu, i, source_address(vcpu, i, size), size), size));
	advance(vcpu, i, RSI, 1, size);
	vcpu->interp->poll = vcpu->hot.attention = true;
	iterated(vcpu, i, 1, true);
}

/* The MSRs that struct vcpu holds. */

static uint64_t *plain_msr(struct vcpu *vcpu, uint32_t index)
{
	switch (index) {
	case MSR_STAR:
		return &vcpu->star;
	case MSR_SFMASK:
		return &vcpu->sfmask;
	case MSR_LSTAR:
		return &vcpu->lstar;
	case MSR_CSTAR:
		return &vcpu->cstar;
	case MSR_FS_BASE:
		return &vcpu->segment[FS].base;
	case MSR_GS_BASE:
		return &vcpu->segment[GS].base;
	case MSR_KERNEL_GS_BASE:
		return &vcpu->kernel_gs_base;
	default:
		return NULL;
	}
}

static bool is_own_xss(const struct vcpu *vcpu, uint32_t index)
{
	return index == MSR_XSS && vcpu->xss_supported;
}

bool guest_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	const uint64_t *msr = index == MSR_EFER ? &vcpu->efer : plain_msr(vcpu, index);

	if (is_own_xss(vcpu, index))
		msr = &vcpu->xss;
	if (!msr)
		return platform_read_msr(vcpu, index, value);
	*value = *msr;
	return true;
}

/* LMA cannot be written, and LME not changed while paging is on (SDM Vol 3, 2.2.1, 9.8.5). */
static bool write_efer(struct vcpu *vcpu, uint64_t value)
{
	uint64_t known = EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE;

	if (vcpu->taken_away & MISC_ENABLE_XD_DISABLE)
		known &= ~EFER_NXE;
	if (value & ~known)
		return false;
	if ((value ^ vcpu->efer) & EFER_LME && vcpu->cr0 & CR0_PG)
		return false;
	vcpu->efer = (value & ~EFER_LMA) | (vcpu->efer & EFER_LMA);
	interp_forget(vcpu);
	return true;
}

bool guest_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	uint64_t *msr = plain_msr(vcpu, index);

	if (index == MSR_EFER)
		return write_efer(vcpu, value);
	if (is_own_xss(vcpu, index)) {
		if (value & ~vcpu->xss_supported)
			return false;
		vcpu->xss = value;
		return true;
	}
	if (!msr)
		return platform_write_msr(vcpu, index, value);
	if (index == MSR_SFMASK && value >> 32)
		return false;
	if (index != MSR_STAR && index != MSR_SFMASK && !canonical(value))
		return false;
	*msr = value;
	return true;
}
