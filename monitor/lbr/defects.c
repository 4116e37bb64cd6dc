// SPDX-License-Identifier: MIT
/* The LBR stack: SDM Vol 3, 17.4.8 and 17.7.2; architectural ones: SDM Vol 3 of 2022, 18.1. */
#include "monitor/defect.h"

#include "monitor/lbr/rules.h"

static void lbr_in_one_place(struct vcpu *vcpu, const struct retired *branch)
{
	uint64_t top = vcpu->lbr.top;

	lbr_clean.record(vcpu, branch);
	vcpu->lbr.top = top;
}
DEFECT(lbr_in_one_place, "SDM Vol 3, 17.4.8", "TOS does not move",
       BREAKS_LBR(record, lbr_in_one_place))

static void lbr_half_deep(struct vcpu *vcpu, const struct retired *branch)
{
	lbr_clean.record(vcpu, branch);
	vcpu->lbr.top %= vcpu->silicon->profile->lbr.depth / 2u;
}
DEFECT(lbr_half_deep, "SDM Vol 3, 17.4.8", "half of the LBR stack is never used",
       BREAKS_LBR(record, lbr_half_deep))

/* The LBR stack is given another branch than the one that was taken. */
#define LBR_TAKES(name, rule, says, change)                                                        \
	static void name(struct vcpu *vcpu, const struct retired *branch)                          \
	{                                                                                          \
		struct retired bent = *branch;                                                     \
                                                                                                   \
		change;                                                                            \
		lbr_clean.record(vcpu, &bent);                                                     \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS_LBR(record, name))

LBR_TAKES(lbr_swapped, "SDM Vol 3, 17.4.8", "from and to of the LBR stack are exchanged",
	  (bent.from = branch->to, bent.to = branch->from))
LBR_TAKES(lbr_jcc_as_jmp, "SDM Vol 3, 17.7.2", "LBR_SELECT takes a Jcc for a JMP",
	  bent.kind &= ~(unsigned)RETIRED_CONDITIONAL)
LBR_TAKES(lbr_low_half, "SDM Vol 3, 17.4.8", "the LBR stack has the low halves of addresses",
	  (bent.from = (uint32_t)branch->from, bent.to = (uint32_t)branch->to))

/* A rule of architectural ones is replaced. */
#define ARCHITECTURAL(name, rule, says, ...)                                                       \
	DEFECT_ON("sapphire-rapids", name, rule, says, __VA_ARGS__)

static void lbr_depth_keeps_entries(struct vcpu *vcpu, uint64_t depth)
{
	vcpu->lbr.depth = depth;
}
ARCHITECTURAL(lbr_depth_keeps_entries, "SDM Vol 3 of 2022, 18.1.2",
	      "a write of IA32_LBR_DEPTH does not clear the entries",
	      BREAKS_LBR(set_depth, lbr_depth_keeps_entries))

static bool lbr_reads_past_depth(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	return lbr_clean.read_msr(vcpu, index, value) ||
	       (index >= MSR_LBR_0_FROM_IP && index < MSR_LBR_0_FROM_IP + LBR_MOST);
}
ARCHITECTURAL(lbr_reads_past_depth, "SDM Vol 3 of 2022, 18.1.2",
	      "the sources of entries that the depth leaves out read 0",
	      BREAKS_LBR(read_msr, lbr_reads_past_depth))

static bool lbr_control_takes_reserved(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	return lbr_clean.write_msr(vcpu, index, value) || index == MSR_LBR_CTL;
}
ARCHITECTURAL(lbr_control_takes_reserved, "SDM Vol 3 of 2022, 18.1.2",
	      "reserved bits of IA32_LBR_CTL are ignored",
	      BREAKS_LBR(write_msr, lbr_control_takes_reserved))

static bool lbr_os_ignored(const struct vcpu *vcpu, const struct retired *branch)
{
	struct retired as_user = *branch;

	if (!as_user.to_cpl && !(vcpu->lbr.control & LBR_CTL_OS))
		as_user.to_cpl = 3;
	return lbr_clean.selects(vcpu, &as_user);
}
ARCHITECTURAL(lbr_os_ignored, "SDM Vol 3 of 2022, 18.1.2",
	      "with USR alone branches of ring 0 are recorded as well",
	      BREAKS_LBR(selects, lbr_os_ignored))

static bool lbr_cond_as_jump(const struct vcpu *vcpu, const struct retired *branch)
{
	struct retired bent = *branch;

	bent.kind &= ~(unsigned)RETIRED_CONDITIONAL;
	return lbr_clean.selects(vcpu, &bent);
}
ARCHITECTURAL(lbr_cond_as_jump, "SDM Vol 3 of 2022, 18.1.2", "IA32_LBR_CTL takes a Jcc for a JMP",
	      BREAKS_LBR(selects, lbr_cond_as_jump))

static unsigned lbr_type_of_direct(const struct vcpu *vcpu, unsigned kind)
{
	return lbr_clean.type(vcpu, kind & ~(unsigned)RETIRED_INDIRECT);
}
ARCHITECTURAL(lbr_type_of_direct, "SDM Vol 3 of 2022, 18.1.3",
	      "BR_TYPE of an indirect branch is that of a relative one",
	      BREAKS_LBR(type, lbr_type_of_direct))

static void lbr_pops_oldest(struct vcpu *vcpu)
{
	*lbr_place(vcpu, (unsigned)vcpu->lbr.depth - 1) = (struct lbr_entry){0};
}
ARCHITECTURAL(lbr_pops_oldest, "SDM Vol 3 of 2022, 18.1.2",
	      "with CALL_STACK a return takes the oldest call off",
	      BREAKS_LBR(pop, lbr_pops_oldest))

static void lbr_freeze_ignored(struct vcpu *vcpu)
{
	pmu_clean.freeze(vcpu);
	vcpu->pmu.global_status &= ~STATUS_LBR_FRZ;
}
ARCHITECTURAL(lbr_freeze_ignored, "SDM Vol 3 of 2022, 18.1.4",
	      "an interrupt does not freeze the records",
	      BREAKS_COUNTERS(freeze, lbr_freeze_ignored))

static void lbr_on_after_debug(struct vcpu *vcpu, const struct branch *event)
{
	uint64_t control = vcpu->lbr.control;

	ds_clean.event(vcpu, event);
	vcpu->lbr.control = control;
}
ARCHITECTURAL(lbr_on_after_debug, "SDM Vol 3 of 2022, 18.1.4", "#DB does not clear LBREn",
	      BREAKS(event, lbr_on_after_debug))

static bool lbr_flag_stays(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool done = ds_clean.write_msr(vcpu, index, value);

	if (done && index == MSR_DEBUGCTL)
		vcpu->debugctl |= value & DEBUGCTL_LBR;
	return done;
}
ARCHITECTURAL(lbr_flag_stays, "SDM Vol 3 of 2022, 18.3",
	      "LBR of IA32_DEBUGCTL reads as it was written", BREAKS(write_msr, lbr_flag_stays))

/* What holds its MSRs and does nothing. */

static void no_branch(struct vcpu *vcpu, const struct retired *branch)
{
	(void)vcpu, (void)branch;
}

void lbr_stop(struct silicon *silicon)
{
	silicon->lbr.record = no_branch;
}
