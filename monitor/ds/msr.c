// SPDX-License-Identifier: MIT
/* Enumeration, the MSRs, and what events do to them: SDM Vol 3, 17.4.1 to 17.4.5 and 17.4.9. */
#include <stddef.h>

#include "monitor/ds/memory.h"
#include "monitor/pebs/pebs.h"
#include "monitor/silicon.h"
#include "monitor/unit.h"

struct ds_enumeration ds_rule_enumerate(const struct vcpu *vcpu)
{
	const struct ds_behaviour *behaviour = ds_behaviour_of(vcpu);

	return (struct ds_enumeration){
		.ds = true,
		.dtes64 = behaviour->dtes64 == DS_DTES64,
		.ds_cpl = behaviour->ds_cpl == DS_CPL_FILTERS,
		.unavailable = pebs_present(vcpu) ? 0 : MISC_ENABLE_PEBS_UNAVAILABLE,
	};
}

/* 17.4.9: cleared as by RESET. IA32_DS_AREA with the rest: table 9-1, which leaves MSRs alone, does
   not name it. */
void ds_rule_init(struct vcpu *vcpu)
{
	trace_reset(vcpu, vcpu->silicon);
}

bool ds_rule_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	switch (index) {
	case MSR_MISC_ENABLE:
		*value = ds_enumerate(vcpu).unavailable;
		return true;
	case MSR_DEBUGCTL:
		*value = vcpu->debugctl;
		return true;
	default: /* IA32_DS_AREA: there are no others */
		*value = vcpu->ds.ds_area;
		return true;
	}
}

void ds_set_tracing(struct vcpu *vcpu, bool on)
{
	vcpu->observed &= ~(unsigned)OBSERVER_DS;
	if (on)
		vcpu->observed |= OBSERVER_DS | (vcpu->silicon->tells_stack ? OBSERVER_STACK : 0);
	else
		ds_end_skid(vcpu);
	ds_forget_fields(vcpu);
}

void ds_set_debugctl(struct vcpu *vcpu, uint64_t value)
{
	vcpu->debugctl = value;
	ds_set_tracing(vcpu, ds_rules_of(vcpu)->enabled(vcpu));
}

static bool has_lbr_with_tr(const struct vcpu *vcpu, uint64_t value)
{
	uint64_t both = DEBUGCTL_LBR | ds_layout_of(vcpu)->tr;

	return (value & both) == both;
}

/* Where last branch records are architectural the flag means nothing, and reads 0. */
static uint64_t without_lbr(const struct vcpu *vcpu, uint64_t value)
{
	bool drops = ds_behaviour_of(vcpu)->lbr == DS_LBR_DROPPED && has_lbr_with_tr(vcpu, value);

	return drops || vcpu->silicon->profile->lbr.depths ? value & ~DEBUGCTL_LBR : value;
}

static bool write_debugctl(struct vcpu *vcpu, uint64_t value)
{
	const struct ds_behaviour *behaviour = ds_behaviour_of(vcpu);
	uint64_t defined = DEBUGCTL_LBR | DEBUGCTL_BTF | ds_layout_of(vcpu)->tr |
			   ds_layout_of(vcpu)->bts | ds_layout_of(vcpu)->btint;

	/* SDM Vol 3, 17.4.7: with PDCM and version 2 of performance monitoring. */
	if (vcpu->silicon->profile->performance.capabilities)
		defined |= DEBUGCTL_FREEZE_LBRS | DEBUGCTL_FREEZE_PERFMON;
	if (behaviour->ds_cpl == DS_CPL_FILTERS)
		defined |= ds_layout_of(vcpu)->off_os | ds_layout_of(vcpu)->off_usr;
	if (value & ~defined && behaviour->reserved == DS_RESERVED_FAULTS)
		return false;
	if (behaviour->lbr == DS_LBR_FAULTS && has_lbr_with_tr(vcpu, value))
		return false;
	value = without_lbr(vcpu, value);
	ds_set_debugctl(vcpu, behaviour->reserved == DS_RESERVED_KEPT ? value : value & defined);
	return true;
}

bool ds_rule_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	switch (index) {
	case MSR_MISC_ENABLE: /* read-only */
		return true;
	case MSR_DEBUGCTL:
		return write_debugctl(vcpu, value);
	default: /* IA32_DS_AREA */
		if (!canonical(value))
			return false;
		vcpu->ds.ds_area = value;
		ds_forget_fields(vcpu);
		return true;
	}
}

bool ds_rule_enabled(const struct vcpu *vcpu)
{
	return (~vcpu->debugctl & (ds_layout_of(vcpu)->tr | ds_layout_of(vcpu)->bts)) == 0;
}

void ds_rule_event(struct vcpu *vcpu, const struct branch *event)
{
	if (event->cause == CAUSE_EXCEPTION && event->vector == VECTOR_DB)
		trace_debug_exception(vcpu);
}

/* MOV CR3 changes nothing. HLT ends a skid: its interrupt would wait for a branch that may never
   follow. A hypervisor may take the pages of the buffer at each exit. */
void ds_rule_note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	if (ds_is_exit(occasion))
		vcpu->ds.mapped = 1; /* none */
	if (occasion == DS_AT_HLT)
		ds_end_skid(vcpu);
}
