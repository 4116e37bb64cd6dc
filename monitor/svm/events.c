// SPDX-License-Identifier: MIT
/* Exceptions that the monitor raises in the guest, and where an instruction ends. */
#include "monitor/host/cpu.h"
#include "monitor/interp/interp.h"
#include "monitor/svm/guest.h"
#include "monitor/unit.h"

enum { OPCODE_STI = 0xfb, OPCODE_MOV_TO_SEGMENT = 0x8e };

/* By the interpreter's rules while branches are traced, so that they are recorded, be it at another
   CPL: #DF then arises where both exceptions are seen. */
void raise_exception(struct guest *guest, uint8_t vector, int64_t error)
{
	struct vcpu *vcpu = &guest->vcpu;

	if (interp_awaited(vcpu)) {
		interp_forget(vcpu);
		event_deliver(vcpu, &(struct event){
					    .kind = EVENT_EXCEPTION,
					    .vector = vector,
					    .has_error = error >= 0,
					    .error = (uint32_t)error,
					    .return_rip = vcpu->rip,
					    .from = vcpu->rip,
				    });
		return;
	}
	if (vector == VECTOR_DB)
		trace_debug_exception(vcpu);
	guest->injection = EVENT_VALID | EVENT_TYPE_EXCEPTION | vector;
	if (error >= 0)
		guest->injection |= EVENT_ERROR_VALID | (uint64_t)error << 32;
}

/* Code bytes at a linear address; false where they cannot be read, or not by anything here. */
static bool fetch(struct guest *guest, uint64_t linear, uint8_t *bytes, unsigned count)
{
	struct vcpu *vcpu = &guest->vcpu;
	unsigned access = ACCESS_EXECUTE | (vcpu->cpl == 3 ? ACCESS_USER : 0);

	for (unsigned i = 0; i < count; i++, linear++) {
		uint64_t physical = linear;
		const uint8_t *page;
		uint32_t error;

		if (!guest_translate(vcpu, linear, access, &physical, &error))
			return false;
		page = nested_page(physical);
		if (!page)
			return false;
		bytes[i] = page[physical & (PAGE_SIZE - 1)];
	}
	return true;
}

static bool is_prefix(uint8_t byte, bool long_mode)
{
	return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e ||
	       byte == 0x36 || byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65 ||
	       (long_mode && (byte & 0xf0) == 0x40);
}

/* All instructions that come here start with 0FH. */
static unsigned prefix_bytes(struct guest *guest)
{
	const struct vcpu *vcpu = &guest->vcpu;
	uint8_t byte;

	for (unsigned n = 0; n < INSN_BYTES; n++) {
		if (!fetch(guest, vcpu_code_linear(vcpu, vcpu->rip + n), &byte, 1))
			return 0;
		if (!is_prefix(byte, vcpu_in_64_bit_mode(vcpu)))
			return n;
	}
	return 0;
}

int modrm_of(struct guest *guest, uint8_t opcode)
{
	uint64_t at = vcpu_code_linear(&guest->vcpu, guest->vcpu.rip);
	uint8_t bytes[3];

	interp_forget(&guest->vcpu);
	if (!fetch(guest, at + prefix_bytes(guest), bytes, 3) || bytes[0] != 0x0f ||
	    bytes[1] != opcode)
		return -1;
	return bytes[2];
}

struct retired native_began(const struct vcpu *vcpu)
{
	return (struct retired){.from = vcpu_code_linear(vcpu, vcpu->rip),
				.rip = vcpu->rip,
				.from_cpl = vcpu->cpl,
				.kind = RETIRED};
}

/* While something counts or traces instructions: of ring 0 perhaps none, which then judges the
   level. */
void native_retired(struct vcpu *vcpu, struct retired *began)
{
	began->to = native_began(vcpu).from;
	began->to_cpl = vcpu->cpl;
	units_retired(vcpu, began);
}

void complete_instruction(struct guest *guest, unsigned opcode_bytes)
{
	struct vcpu *vcpu = &guest->vcpu;
	struct retired began = native_began(vcpu);

	interp_forget(vcpu);
	vcpu->rip += prefix_bytes(guest) + opcode_bytes;
	if (!(vcpu->segment[CS].attributes & SEGMENT_L))
		vcpu->rip = (uint32_t)vcpu->rip;
	vcpu->interrupt_shadow = false;
	native_retired(vcpu, &began);
	if (vcpu->rflags & RFLAGS_TF) {
		vcpu->dr6 = (vcpu->dr6 & ~DR6_BREAKPOINTS) | DR6_BS;
		raise_exception(guest, VECTOR_DB, -1);
	}
}

/* QEMU does not load the shadow at VMRUN, and an interrupt between STI and HLT would be slept
   through. STI is executed again instead: before it, IF was 0. The shadow of MOV SS is lost, which
   a guest with a stack for each privilege level does not notice. */
void keep_interrupt_shadow(struct guest *guest)
{
	struct vcpu *vcpu = &guest->vcpu;
	uint8_t before[3];

	if (!vcpu->interrupt_shadow)
		return;
	vcpu->interrupt_shadow = false;
	interp_forget(vcpu);
	if (!fetch(guest, vcpu_code_linear(vcpu, vcpu->rip - 3), before, 3) ||
	    before[2] != OPCODE_STI || before[0] == OPCODE_MOV_TO_SEGMENT)
		return;
	vcpu->rip--;
	vcpu->rflags &= ~RFLAGS_IF;
}
