// SPDX-License-Identifier: MIT
/* The LBR stack: SDM Vol 3, 17.4.8 and 17.5 to 17.13. */
#include <stddef.h>

#include "lib/string.h"
#include "monitor/pmu/rules.h"
#include "monitor/silicon.h"

static const struct lbr_layout *layout_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->profile->lbr;
}

bool pmu_lbr_runs(const struct vcpu *vcpu)
{
	return vcpu->debugctl & DEBUGCTL_LBR && !(vcpu->pmu.global_status & STATUS_LBR_FRZ);
}

unsigned pmu_lbr_levels(const struct vcpu *vcpu)
{
	uint64_t select = vcpu->pmu.lbr_select;

	if (!pmu_lbr_runs(vcpu))
		return 0;
	return (select & LBR_NOT_CPL0 ? 0 : LEVEL_OS) | (select & LBR_NOT_USER ? 0 : LEVELS_USER);
}

static bool within(uint32_t index, uint32_t first, uint32_t count)
{
	return first && index >= first && index - first < count;
}

/* The register `index` of a stack that is `layout`; NULL: it has none. */
static uint64_t *find(const struct lbr_layout *layout, struct pmu_state *pmu, uint32_t index,
		      uint64_t *mask)
{
	*mask = ~0ull;
	if (within(index, layout->from, layout->depth))
		return &pmu->lbr[index - layout->from].from;
	if (within(index, layout->to, layout->depth))
		return &pmu->lbr[index - layout->to].to;
	if (within(index, layout->info, layout->depth))
		return &pmu->lbr[index - layout->info].info;
	*mask = layout->depth - 1;
	if (index == layout->top)
		return &pmu->lbr_top;
	*mask = layout->select;
	return index == MSR_LBR_SELECT && layout->select ? &pmu->lbr_select : NULL;
}

void pmu_lbr_reset(struct vcpu *vcpu)
{
	memset(vcpu->pmu.lbr, 0, sizeof(vcpu->pmu.lbr));
	vcpu->pmu.lbr_top = 0;
}

uint64_t *pmu_lbr_register(struct vcpu *vcpu, uint32_t index, uint64_t *mask)
{
	return find(layout_of(vcpu), &vcpu->pmu, index, mask);
}

/* Whether some profile has it: those of others raise #GP. */
bool pmu_lbr_owns(uint32_t index)
{
	static struct pmu_state none;
	const struct profile *profile;
	uint64_t mask;

	for (unsigned n = 0; (profile = profile_get(n)); n++)
		if (find(&profile->lbr, &none, index, &mask))
			return true;
	return false;
}

/* The flag of LBR_SELECT that leaves this kind of branch out: table 17-9. */
static unsigned left_out_by(unsigned kind)
{
	bool indirect = kind & RETIRED_INDIRECT;

	if (kind & RETIRED_FAR)
		return LBR_NOT_FAR;
	if (kind & RETIRED_CONDITIONAL)
		return LBR_NOT_JCC;
	if (kind & RETIRED_RETURN)
		return LBR_NOT_RETURN;
	if (kind & RETIRED_CALL)
		return indirect ? LBR_NOT_CALL_INDIRECT : LBR_NOT_CALL;
	return indirect ? LBR_NOT_JUMP_INDIRECT : LBR_NOT_JUMP;
}

static bool is_selected(const struct vcpu *vcpu, const struct retired *branch)
{
	uint64_t select = vcpu->pmu.lbr_select;

	return !(select & (branch->to_cpl ? LBR_NOT_USER : LBR_NOT_CPL0)) &&
	       !(select & left_out_by(branch->kind));
}

/* A call of the next instruction, which reads its own address, has no return: 17.9. */
static bool is_zero_length(const struct retired *branch)
{
	return branch->kind & RETIRED_CALL && branch->to == branch->from + branch->length;
}

/* With the call stack a return takes off what its call put on: 17.11.2. */
void pmu_rule_lbr(struct vcpu *vcpu, const struct retired *branch)
{
	const struct lbr_layout *layout = layout_of(vcpu);
	struct pmu_state *pmu = &vcpu->pmu;
	uint64_t missed = branch->kind & RETIRED_MISPREDICTED ? LBR_MISPREDICTED : 0;
	struct lbr_entry *entry;

	if (!is_selected(vcpu, branch))
		return;
	if (pmu->lbr_select & LBR_CALL_STACK && is_zero_length(branch))
		return;
	if (pmu->lbr_select & LBR_CALL_STACK && branch->kind & RETIRED_RETURN) {
		pmu->lbr[pmu->lbr_top] = (struct lbr_entry){0};
		pmu->lbr_top = (pmu->lbr_top - 1) & (layout->depth - 1);
		return;
	}
	pmu->lbr_top = (pmu->lbr_top + 1) & (layout->depth - 1);
	entry = &pmu->lbr[pmu->lbr_top];
	entry->from = branch->from;
	entry->to = branch->to;
	entry->info = missed;
	if (layout->flags)
		entry->from = (branch->from & ~LBR_MISPREDICTED) | missed;
}
