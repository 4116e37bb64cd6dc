// SPDX-License-Identifier: MIT
/* Enumeration and the MSRs: SDM Vol 3, 36.2.7 and 36.3.1.1. */
#include "monitor/pt/rules.h"
#include "monitor/silicon.h"

enum { RANGES = 7 }; /* CPUID.(14H,1):EAX */

const struct pt_rules pt_clean = {
	.read_msr = pt_rule_read_msr,
	.write_msr = pt_rule_write_msr,
	.save = pt_rule_save,
	.restore = pt_rule_restore,
	.context = pt_rule_context,
	.filter = pt_rule_filter,
	.stop = pt_rule_stop,
	.tnt = pt_rule_tnt,
	.ip = pt_rule_ip,
	.mode = pt_rule_mode,
	.pip = pt_rule_pip,
	.sync = pt_rule_sync,
	.call = pt_rule_call,
	.returns = pt_rule_returns,
	.event = pt_rule_event,
	.far = pt_rule_far,
	.output = pt_rule_output,
	.region_full = pt_rule_region_full,
};

void pt_enumerate(const struct vcpu *vcpu, uint32_t subleaf, uint32_t value[4])
{
	const struct pt_enumeration *pt = pt_of(vcpu);

	if (!pt || subleaf > pt->eax)
		return;
	value[0] = subleaf ? pt->eax_1 : pt->eax;
	value[1] = subleaf ? pt->ebx_1 : pt->ebx;
	value[2] = subleaf ? 0 : pt->ecx;
}

/* The register `index`; NULL: this processor has no such register. */
static uint64_t *find(struct vcpu *vcpu, uint32_t index)
{
	const struct pt_enumeration *pt = pt_of(vcpu);
	struct pt_state *state = &vcpu->pt;

	if (!pt)
		return NULL;
	switch (index) {
	case MSR_RTIT_OUTPUT_BASE:
		return pt->ecx & (ECX_TOPA | ECX_SINGLE_RANGE) ? &state->output_base : NULL;
	case MSR_RTIT_OUTPUT_MASK_PTRS:
		return pt->ecx & (ECX_TOPA | ECX_SINGLE_RANGE) ? &state->output_mask_ptrs : NULL;
	case MSR_RTIT_CTL:
		return &state->ctl;
	case MSR_RTIT_STATUS:
		return &state->status;
	case MSR_RTIT_CR3_MATCH:
		return pt->ebx & EBX_CR3_FILTER ? &state->cr3_match : NULL;
	default:
		index -= MSR_RTIT_ADDR0_A;
		if (index / 2 >= (pt->eax_1 & RANGES))
			return NULL;
		return &state->address[index / 2][index % 2];
	}
}

bool pt_rule_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	const uint64_t *found = find(vcpu, index);

	if (!found)
		return false;
	*value = *found;
	if (index == MSR_RTIT_STATUS && pt_triggers(vcpu))
		*value |= STATUS_TRIGGER_EN;
	if (index == MSR_RTIT_STATUS && pt_of(vcpu)->ebx & EBX_PSB_CYC)
		*value |= (uint64_t)vcpu->pt.packet_bytes << STATUS_BYTES_SHIFT;
	return true;
}

/* Table 36-6: what is reserved, and encodings that CPUID does not offer. */
static bool is_valid_ctl(const struct vcpu *vcpu, uint64_t value)
{
	const struct pt_enumeration *pt = pt_of(vcpu);
	uint64_t allowed =
		CTL_TRACE_EN | CTL_OS | CTL_USER | CTL_TSC_EN | CTL_DIS_RETC | CTL_BRANCH_EN;

	allowed |= pt->ecx & ECX_TOPA ? CTL_TOPA : 0;
	allowed |= pt->ebx & EBX_CR3_FILTER ? CTL_CR3_FILTER : 0;
	if (pt->ebx & EBX_PSB_CYC) {
		allowed |= CTL_CYC_EN | CTL_CYC_THRESHOLD | CTL_PSB_FREQUENCY;
		if (!(pt->ebx_1 >> (value >> 19 & 0xf) & 1) ||
		    !(pt->ebx_1 >> (16 + (value >> 24 & 0xf)) & 1))
			return false;
	}
	for (unsigned n = 0; n < (pt->eax_1 & RANGES); n++) {
		allowed |= 0xfull << (32 + 4 * n);
		if (CTL_ADDR_CFG(value, n) > ADDR_STOP)
			return false;
	}
	if (value & CTL_TRACE_EN && !(value & CTL_TOPA) && !(pt->ecx & ECX_SINGLE_RANGE))
		return false;
	return !(value & ~allowed);
}

static bool write_ctl(struct vcpu *vcpu, uint64_t value)
{
	struct pt_state *pt = &vcpu->pt;
	bool traced = pt->ctl & CTL_TRACE_EN, traces = value & CTL_TRACE_EN;

	if (!is_valid_ctl(vcpu, value))
		return false;
	if (traced && traces)
		return value == pt->ctl;
	if (traced) {
		pt->disabling = true;
		pt->next_ctl = value;
		return true;
	}
	pt->ctl = value;
	if (!traces)
		return true;
	pt->enabling = true;
	vcpu->observed |= OBSERVER_FLOW;
	vcpu->branches_suspended = pt_of(vcpu)->suspends_bts;
	return true;
}

/* Bits that the processor sets stay as they are. */
static bool write_status(struct vcpu *vcpu, uint64_t value)
{
	const uint64_t read_only = STATUS_FILTER_EN | STATUS_CONTEXT_EN | STATUS_TRIGGER_EN;
	uint64_t allowed = read_only | STATUS_ERROR | STATUS_STOPPED;

	allowed |= pt_of(vcpu)->ebx & EBX_PSB_CYC ? STATUS_PACKET_BYTES : 0;
	if (value & ~allowed)
		return false;
	vcpu->pt.packet_bytes = (uint32_t)(value >> STATUS_BYTES_SHIFT);
	vcpu->pt.status = (vcpu->pt.status & read_only) | (value & (STATUS_ERROR | STATUS_STOPPED));
	return true;
}

bool pt_rule_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	uint64_t *found = find(vcpu, index);

	if (!found || (index != MSR_RTIT_CTL && vcpu->pt.ctl & CTL_TRACE_EN))
		return false;
	switch (index) {
	case MSR_RTIT_CTL:
		return write_ctl(vcpu, value);
	case MSR_RTIT_STATUS:
		return write_status(vcpu, value);
	case MSR_RTIT_OUTPUT_BASE:
		if (value & MASK_PTRS_FIXED || value >> vcpu->silicon->physical_bits)
			return false;
		break;
	case MSR_RTIT_OUTPUT_MASK_PTRS:
		value |= MASK_PTRS_FIXED;
		break;
	case MSR_RTIT_CR3_MATCH:
		if (value & 0x1f)
			return false;
		break;
	default:
		if (!canonical(value))
			return false;
	}
	*found = value;
	return true;
}

bool pt_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	return vcpu->silicon->pt.read_msr(vcpu, index, value);
}

bool pt_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	return vcpu->silicon->pt.write_msr(vcpu, index, value);
}

static const uint32_t saved[PT_STATE_MSRS] = {
	MSR_RTIT_CTL,	      MSR_RTIT_OUTPUT_BASE, MSR_RTIT_OUTPUT_MASK_PTRS,
	MSR_RTIT_STATUS,      MSR_RTIT_CR3_MATCH,   MSR_RTIT_ADDR0_A,
	MSR_RTIT_ADDR0_A + 1, MSR_RTIT_ADDR0_A + 2, MSR_RTIT_ADDR0_A + 3,
};

/* IA32_RTIT_CTL is saved as it was, the others as they are once TraceEn is clear. */
bool pt_rule_save(struct vcpu *vcpu, uint64_t rip, uint64_t area[PT_STATE_MSRS])
{
	bool in_use = vcpu->pt.ctl;

	area[0] = vcpu->pt.ctl;
	if (vcpu->pt.ctl & CTL_TRACE_EN) {
		vcpu->pt.next_ctl = vcpu->pt.ctl & ~CTL_TRACE_EN;
		pt_disable(vcpu, rip);
	}
	for (unsigned n = 1; n < PT_STATE_MSRS; n++) {
		area[n] = 0;
		pt_read_msr(vcpu, saved[n], &area[n]);
		in_use |= area[n] != (saved[n] == MSR_RTIT_OUTPUT_MASK_PTRS ? MASK_PTRS_FIXED : 0);
	}
	return in_use;
}

/* IA32_RTIT_CTL last: the others are locked from then on. */
bool pt_rule_restore(struct vcpu *vcpu, const uint64_t *area)
{
	struct pt_state old = vcpu->pt;

	if (old.ctl & CTL_TRACE_EN)
		return false;
	if (!area)
		vcpu->pt.status = 0;
	for (unsigned n = PT_STATE_MSRS; n--;)
		if (find(vcpu, saved[n]) && !pt_write_msr(vcpu, saved[n], area ? area[n] : 0)) {
			vcpu->pt = old;
			return false;
		}
	return true;
}

bool pt_save(struct vcpu *vcpu, uint64_t rip, uint64_t area[PT_STATE_MSRS])
{
	return vcpu->silicon->pt.save(vcpu, rip, area);
}

bool pt_restore(struct vcpu *vcpu, const uint64_t *area)
{
	return vcpu->silicon->pt.restore(vcpu, area);
}

void pt_power_on(struct vcpu *vcpu)
{
	vcpu->pt = (struct pt_state){.output_mask_ptrs = MASK_PTRS_FIXED,
				     .reported_mode = PT_MODE_NONE,
				     .tnt = PT_TNT_NONE};
}
