// SPDX-License-Identifier: MIT
/* The LBR stack: SDM Vol 3, 17.4.8 and 17.7.2. */
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

/* What holds its MSRs and does nothing. */

static void no_branch(struct vcpu *vcpu, const struct retired *branch)
{
	(void)vcpu, (void)branch;
}

void lbr_stop(struct silicon *silicon)
{
	silicon->lbr.record = no_branch;
}
