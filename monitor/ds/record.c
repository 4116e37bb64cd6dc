/* SPDX-License-Identifier: MIT */
/* Which branches are recorded, and as what: SDM Vol 3, 17.4.4, 17.4.8 and 17.4.9.1. */
#include "monitor/silicon.h"

#define FLAGS_PREDICTED (1u << 4)

/* Table 17-6, "CPL-Qualified Branch Trace Store Encodings". */
static bool is_off(const struct vcpu *vcpu, unsigned cpl)
{
	return vcpu->debugctl & (cpl ? ds_layout_of(vcpu)->off_usr : ds_layout_of(vcpu)->off_os);
}

static bool has_wanted_privilege(const struct vcpu *vcpu, const struct branch *branch)
{
	bool from_off = is_off(vcpu, branch->from_cpl), to_off = is_off(vcpu, branch->to_cpl);

	switch (ds_behaviour_of(vcpu)->filter) {
	case DS_FILTER_BY_SOURCE:
		return !from_off;
	case DS_FILTER_BY_BOTH:
		return !from_off && !to_off;
	case DS_FILTER_BY_EITHER:
		return !from_off || !to_off;
	default:
		return !to_off;
	}
}

bool ds_rule_filter(const struct vcpu *vcpu, const struct branch *branch)
{
	const struct ds_behaviour *behaviour = ds_behaviour_of(vcpu);

	if (branch->cause == CAUSE_SOFTWARE_INTERRUPT &&
	    behaviour->software == DS_SOFTWARE_NOT_RECORDED)
		return false;
	if (branch->cause == CAUSE_EXCEPTION && branch->vector == VECTOR_DB &&
	    behaviour->debug == DS_DEBUG_NOT_RECORDED)
		return false;
	if (!(vcpu->debugctl & (ds_layout_of(vcpu)->off_os | ds_layout_of(vcpu)->off_usr)))
		return true;
	return ds_behaviour_of(vcpu)->ds_cpl == DS_CPL_ABSENT || has_wanted_privilege(vcpu, branch);
}

/* What followed each branch when it was last taken, for as many as there is room. */
static bool predicted(struct vcpu *vcpu, uint64_t from)
{
	struct ds_history *history = &vcpu->ds.history;
	uint64_t *followed_by = &history->followed_by[history->last % DS_HISTORY];
	bool as_before = *followed_by == from;

	*followed_by = from;
	history->last = from;
	return as_before;
}

static uint64_t flags(struct vcpu *vcpu, const struct branch *branch)
{
	switch (ds_behaviour_of(vcpu)->predicted) {
	case DS_PREDICTED_SET:
		return FLAGS_PREDICTED;
	case DS_PREDICTED_MIXED:
		return branch->from & 2 ? FLAGS_PREDICTED : 0;
	case DS_PREDICTED_BY_HISTORY:
		return predicted(vcpu, branch->from) ? FLAGS_PREDICTED : 0;
	default:
		return 0;
	}
}

void ds_rule_record(struct vcpu *vcpu, const struct branch *branch, uint64_t record[RECORD_WORDS])
{
	bool from_next = branch->cause == CAUSE_SOFTWARE_INTERRUPT &&
			 ds_behaviour_of(vcpu)->software == DS_SOFTWARE_FROM_NEXT;

	record[0] = from_next ? branch->return_rip : branch->from;
	record[1] = branch->to;
	record[2] = flags(vcpu, branch);
}
