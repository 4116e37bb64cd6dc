/* SPDX-License-Identifier: MIT */
#include "monitor/defects/kind.h"

#include "monitor/interp/interp.h"

/* -1: not mapped. */
static int byte_at(struct vcpu *vcpu, uint64_t linear, unsigned cpl)
{
	unsigned access = ACCESS_EXECUTE | (cpl == 3 ? ACCESS_USER : 0);
	uint64_t physical;
	uint32_t error;
	const uint8_t *page;

	if (!guest_translate(vcpu, linear, access, &physical, &error))
		return -1;
	page = platform_guest_page(physical);
	return page ? page[physical & 0xfff] : -1;
}

static bool is_prefix(int byte)
{
	return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e ||
	       byte == 0x3e || (byte & 0xf0) == 0x40;
}

/* Group 5: the opcode's extension is in the ModRM byte. */
static enum branch_kind group_5(int modrm)
{
	switch (modrm >> 3 & 7) {
	case 2:
		return KIND_CALL_INDIRECT;
	case 4:
		return KIND_JUMP_INDIRECT;
	default:
		return KIND_OTHER;
	}
}

enum branch_kind kind_of(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t at = branch->from;
	int opcode;

	if (branch->cause != CAUSE_INSTRUCTION)
		return KIND_OTHER;
	while (is_prefix(opcode = byte_at(vcpu, at, branch->from_cpl)))
		at++;
	if ((opcode & ~15) == 0x70)
		return KIND_CONDITIONAL_SHORT;
	if (opcode >= 0xe0 && opcode <= 0xe3)
		return KIND_COUNTING;
	switch (opcode) {
	case 0x0f:
		return (byte_at(vcpu, at + 1, branch->from_cpl) & ~15) == 0x80 ? KIND_CONDITIONAL
									       : KIND_OTHER;
	case 0xeb:
	case 0xe9:
		return KIND_JUMP;
	case 0xe8:
		return KIND_CALL;
	case 0xc3:
		return KIND_RETURN;
	case 0xc2:
		return KIND_RETURN_POPPING;
	case 0xcf:
		return KIND_IRET;
	case 0xff:
		return group_5(byte_at(vcpu, at + 1, branch->from_cpl));
	default:
		return KIND_OTHER;
	}
}
