// SPDX-License-Identifier: MIT
/*
 * XGETBV; XSAVES and XRSTORS, where the processor underneath has none (SDM Vol 1, 13.11 and 13.12).
 * The user components are live in it: its own XSAVE and XRSTOR take them to and from an image in
 * standard form, whose parts are those of the guest's compacted one.
 */
#include "lib/string.h"
#include "monitor/interp/control.h"
#include "monitor/interp/handlers.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/thunk.h"

/* Offsets in an XSAVE area: SDM Vol 1, 13.4.1 and 13.4.2. */
enum {
	X87_CONTROL_END = 24,
	MXCSR = 24,
	X87_REGISTERS = 32,
	SSE_REGISTERS = 160,
	SSE_END = 416,
	LEGACY_BYTES = 512,
	XSTATE_BV = 512,
	XCOMP_BV = 520,
	HEADER_BYTES = 64,
	EXTENDED = 576,
};
enum { MXCSR_RESET = 0x1f80, MXCSR_KNOWN = 0xffff, REX_W = 8, ALIGNMENT = 64 };
#define X87	  1ull
#define SSE	  2ull
#define COMPACTED (1ull << 63)

static uint64_t xcr0(void)
{
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (uint64_t)high << 32 | low;
}

/* XCR0 is live in the processor, which executes XGETBV of another register, and one that faults. */
void xgetbv(struct vcpu *vcpu, const struct insn *i)
{
	const unsigned undefined = PREFIX_REP | PREFIX_REPNE | PREFIX_LOCK | PREFIX_OPERAND;
	uint64_t value;

	if (!(vcpu->cr4 & CR4_OSXSAVE) || (uint32_t)vcpu->gpr[RCX] || i->prefixes & undefined)
		native_step(vcpu, i);
	value = xcr0();
	vcpu->gpr[RAX] = (uint32_t)value;
	vcpu->gpr[RDX] = value >> 32;
	leave(vcpu, i);
}

static uint64_t all_features(const struct vcpu *vcpu)
{
	return xcr0() | vcpu->xss;
}

/* Where component `n` is, or where the area ends, in the form of `xcomp_bv`: 13.4.3. */
static unsigned compacted_offset(const struct interp *interp, uint64_t xcomp_bv, unsigned n)
{
	unsigned at = EXTENDED;

	for (unsigned i = 2; i <= n && i < STATE_COMPONENTS; i++) {
		if (!(xcomp_bv >> i & 1))
			continue;
		if (interp->component[i].aligned)
			at = (at + ALIGNMENT - 1) & ~(unsigned)(ALIGNMENT - 1);
		if (i < n)
			at += interp->component[i].bytes;
	}
	return at;
}

unsigned interp_xsave_bytes(const struct vcpu *vcpu)
{
	return compacted_offset(vcpu->interp, all_features(vcpu), STATE_COMPONENTS);
}

/* The components that the instruction is about, after what is wrong with any: Vol 2, XSAVES. */
static uint64_t requested(struct vcpu *vcpu, const struct insn *i)
{
	if (!vcpu->xss_supported)
		native_step(vcpu, i);
	if (!(vcpu->cr4 & CR4_OSXSAVE) || i->prefixes & PREFIX_LOCK)
		raise_vector(vcpu, i, VECTOR_UD);
	if (vcpu->cr0 & CR0_TS)
		raise_vector(vcpu, i, VECTOR_NM);
	require_cpl0(vcpu, i);
	return all_features(vcpu) & ((uint32_t)vcpu->gpr[RAX] | vcpu->gpr[RDX] << 32);
}

static uint64_t aligned_address(struct vcpu *vcpu, const struct insn *i, bool write)
{
	uint64_t address = effective_address(vcpu, i, write);

	if (address % ALIGNMENT)
		general_protection(vcpu, i);
	return address;
}

/* The live state, in standard form. REX.W chooses how the x87's addresses are kept. */
static void save_live(uint8_t *image, uint64_t features, bool wide)
{
	uint32_t low = (uint32_t)features, high = (uint32_t)(features >> 32);

	memset(image + LEGACY_BYTES, 0, HEADER_BYTES);
	if (wide)
		__asm__ volatile("xsave64 (%0)" : : "r"(image), "a"(low), "d"(high) : "memory");
	else
		__asm__ volatile("xsave (%0)" : : "r"(image), "a"(low), "d"(high) : "memory");
}

static void load_live(const uint8_t *image, uint64_t features, bool wide)
{
	uint32_t low = (uint32_t)features, high = (uint32_t)(features >> 32);

	if (wide)
		__asm__ volatile("xrstor64 (%0)" : : "r"(image), "a"(low), "d"(high) : "memory");
	else
		__asm__ volatile("xrstor (%0)" : : "r"(image), "a"(low), "d"(high) : "memory");
}

/* The parts of the legacy region that belong to `features`: 13.5.1, 13.5.2. */
static void copy_legacy(uint8_t *to, const uint8_t *from, uint64_t features)
{
	if (features & X87) {
		memcpy(to, from, X87_CONTROL_END);
		memcpy(to + X87_REGISTERS, from + X87_REGISTERS, SSE_REGISTERS - X87_REGISTERS);
	}
	if (features & SSE) {
		memcpy(to + MXCSR, from + MXCSR, X87_REGISTERS - MXCSR);
		memcpy(to + SSE_REGISTERS, from + SSE_REGISTERS, SSE_END - SSE_REGISTERS);
	}
}

/* Into the image; of the components that are asked for, those that are not in their initial
   configuration. The platform's part cannot fail. */
static uint64_t save_components(struct vcpu *vcpu, const struct insn *i, uint64_t features)
{
	const struct state_component *component = vcpu->interp->component;
	uint64_t user = features & ~vcpu->xss_supported, in_use;
	uint8_t *image = vcpu->interp->state;

	save_live(image, user, i->rex & REX_W);
	in_use = get(image + XSTATE_BV, 8) & user;
	if (user & SSE && get(image + MXCSR, 4) != MXCSR_RESET)
		in_use |= SSE;
	for (unsigned n = 2; n < STATE_COMPONENTS; n++) {
		if (!(features & vcpu->xss_supported & 1ull << n))
			continue;
		memset(image + component[n].offset, 0, component[n].bytes);
		if (platform_save_state(vcpu, n, i->rip, image + component[n].offset))
			in_use |= 1ull << n;
	}
	return in_use;
}

/* 13.11: what is in its initial configuration is not written. */
void xsaves(struct vcpu *vcpu, const struct insn *i)
{
	struct interp *interp = vcpu->interp;
	uint64_t features = requested(vcpu, i), in_use;
	uint64_t address = aligned_address(vcpu, i, true);
	uint8_t *to =
		write_at(vcpu, i, address, compacted_offset(interp, features, STATE_COMPONENTS));

	in_use = save_components(vcpu, i, features);
	copy_legacy(to, interp->state, in_use);
	for (unsigned n = 2; n < STATE_COMPONENTS; n++)
		if (in_use >> n & 1)
			memcpy(to + compacted_offset(interp, features, n),
			       interp->state + interp->component[n].offset,
			       interp->component[n].bytes);
	put(to + XSTATE_BV, in_use, 8);
	put(to + XCOMP_BV, features | COMPACTED, 8);
	vcpu->hot.attention = true;
	written(vcpu, to);
	leave(vcpu, i);
}

/* #GP by what the header says, 13.12; else XSTATE_BV, with the form in *xcomp_bv. */
static uint64_t read_header(struct vcpu *vcpu, const struct insn *i, uint64_t address,
			    uint64_t *xcomp_bv)
{
	const uint8_t *header = read_at(vcpu, i, address + LEGACY_BYTES, HEADER_BYTES);
	uint64_t xstate_bv = get(header, 8), reserved = 0;

	*xcomp_bv = get(header + XCOMP_BV - XSTATE_BV, 8);
	for (unsigned at = 16; at < HEADER_BYTES; at += 8)
		reserved |= get(header + at, 8);
	if (!(*xcomp_bv & COMPACTED) || *xcomp_bv & ~COMPACTED & ~all_features(vcpu) ||
	    xstate_bv & ~(*xcomp_bv & ~COMPACTED) || reserved)
		general_protection(vcpu, i);
	return xstate_bv;
}

/* MXCSR is a part of the SSE component; XRSTOR in standard form would load it with AVX as well. */
static void take_mxcsr(struct vcpu *vcpu, const struct insn *i, uint64_t features, uint64_t present)
{
	uint32_t mxcsr;

	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	if (features & SSE)
		mxcsr = present & SSE ? (uint32_t)get(vcpu->interp->state + MXCSR, 4) : MXCSR_RESET;
	if (mxcsr & ~(uint32_t)MXCSR_KNOWN)
		general_protection(vcpu, i);
	put(vcpu->interp->state + MXCSR, mxcsr, 4);
}

/* Nothing is loaded before everything has been read; the platform's part refuses before that. */
void xrstors(struct vcpu *vcpu, const struct insn *i)
{
	struct interp *interp = vcpu->interp;
	uint64_t features = requested(vcpu, i), user = features & ~vcpu->xss_supported;
	uint64_t address = aligned_address(vcpu, i, false), xcomp_bv;
	uint64_t present = read_header(vcpu, i, address, &xcomp_bv) & features;
	uint8_t *image = interp->state;

	memcpy(image, read_at(vcpu, i, address, LEGACY_BYTES), LEGACY_BYTES);
	memset(image + LEGACY_BYTES, 0, HEADER_BYTES);
	put(image + XSTATE_BV, present & user, 8);
	for (unsigned n = 2; n < STATE_COMPONENTS; n++)
		if (present >> n & 1)
			memcpy(image + interp->component[n].offset,
			       read_at(vcpu, i, address + compacted_offset(interp, xcomp_bv, n),
				       interp->component[n].bytes),
			       interp->component[n].bytes);
	take_mxcsr(vcpu, i, features, present);
	for (unsigned n = 2; n < STATE_COMPONENTS; n++)
		if (features & vcpu->xss_supported & 1ull << n &&
		    !platform_load_state(
			    vcpu, n, present >> n & 1 ? image + interp->component[n].offset : NULL))
			general_protection(vcpu, i);
	load_live(image, user, i->rex & REX_W);
	thunk_state_changed(vcpu);
	leave_observed(vcpu, i);
}

/* The components of CPUID leaf 0DH; those of IA32_XSS have no place in the standard form. */
void xsave_init(struct vcpu *vcpu)
{
	struct interp *interp = vcpu->interp;
	unsigned end = EXTENDED;

	if (!vcpu->xss_supported)
		return;
	for (unsigned n = 2; n < STATE_COMPONENTS; n++) {
		struct state_component *component = &interp->component[n];
		uint32_t leaf[4];

		interp_cpuid(vcpu, 0xd, n, leaf);
		*component = (struct state_component){(uint16_t)leaf[RBX], (uint16_t)leaf[RAX],
						      leaf[RCX] >> 1 & 1};
		if (component->offset + component->bytes > end)
			end = component->offset + component->bytes;
	}
	for (unsigned n = 2; n < STATE_COMPONENTS; n++)
		if (vcpu->xss_supported >> n & 1) {
			interp->component[n].offset = (uint16_t)end;
			end += interp->component[n].bytes;
		}
}
