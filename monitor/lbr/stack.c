// SPDX-License-Identifier: MIT
/* The LBR stack: SDM Vol 3, 17.4.8 and 17.5 to 17.13. */
#include <stddef.h>

#include "lib/string.h"
#include "monitor/lbr/rules.h"
#include "monitor/pmu/rules.h"
#include "monitor/silicon.h"

enum { FORMAT_TRANSACTIONS = 4 };

const struct lbr_rules lbr_clean = {
	.read_msr = lbr_rule_read_msr,
	.write_msr = lbr_rule_write_msr,
	.record = lbr_rule_record,
	.selects = lbr_rule_selects,
	.type = lbr_rule_type,
	.info = lbr_rule_info,
	.pop = lbr_rule_pop,
	.set_depth = lbr_rule_set_depth,
	.last_event = lbr_rule_last_event,
	.save = lbr_rule_save,
	.restore = lbr_rule_restore,
};

static const struct lbr_layout *layout_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->profile->lbr;
}

static bool is_architectural(const struct vcpu *vcpu)
{
	return layout_of(vcpu)->depths;
}

bool lbr_is_on(const struct vcpu *vcpu)
{
	if (is_architectural(vcpu))
		return vcpu->lbr.control & LBR_EN;
	return vcpu->debugctl & DEBUGCTL_LBR;
}

bool lbr_runs(const struct vcpu *vcpu)
{
	return lbr_is_on(vcpu) && !(vcpu->pmu.global_status & STATUS_LBR_FRZ);
}

static unsigned levels(const struct vcpu *vcpu)
{
	uint64_t select = vcpu->lbr.select;

	return (select & LBR_NOT_CPL0 ? 0 : LEVEL_OS) | (select & LBR_NOT_USER ? 0 : LEVELS_USER);
}

unsigned lbr_levels(const struct vcpu *vcpu)
{
	if (!lbr_runs(vcpu))
		return 0;
	return is_architectural(vcpu) ? lbr_architectural_levels(vcpu) : levels(vcpu);
}

/* The register `index`, and the bits that may be set in it; NULL: no such register. */
static uint64_t *find(struct vcpu *vcpu, uint32_t index, uint64_t *mask)
{
	const struct lbr_layout *layout = layout_of(vcpu);
	struct lbr_state *lbr = &vcpu->lbr;

	*mask = ~0ull;
	if (is_architectural(vcpu))
		return lbr_register(vcpu, index);
	if (lbr_within(index, layout->from, layout->depth))
		return &lbr->entry[index - layout->from].from;
	if (lbr_within(index, layout->to, layout->depth))
		return &lbr->entry[index - layout->to].to;
	if (lbr_within(index, layout->info, layout->depth))
		return &lbr->entry[index - layout->info].info;
	*mask = layout->depth - 1;
	if (index == layout->top)
		return &lbr->top;
	*mask = layout->select;
	return index == MSR_LBR_SELECT && layout->select ? &lbr->select : NULL;
}

void lbr_empty(struct vcpu *vcpu)
{
	memset(vcpu->lbr.entry, 0, sizeof(vcpu->lbr.entry));
}

/* MSR_LER_FROM_LIP and MSR_LER_TO_LIP of models, which can be read (table 35-3) and hold nothing:
   README.md. */
static bool is_empty_ler(uint32_t index)
{
	return index == MSR_LER_FROM_IP || index == MSR_LER_TO_IP;
}

/* SDM Vol 3, 36.3.1.2: while TraceEn suspends the stack its registers read 0, and writes are
   dropped. */
bool lbr_rule_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	uint64_t mask;
	const uint64_t *at = find(vcpu, index, &mask);

	*value = at && !vcpu->branches_suspended ? *at : 0;
	return at || is_empty_ler(index);
}

bool lbr_rule_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	uint64_t mask, *at = find(vcpu, index, &mask);

	if (!at)
		return false;
	if (vcpu->branches_suspended)
		return true;
	if (is_architectural(vcpu))
		return lbr_architectural_write(vcpu, index, value);
	if (value & ~mask)
		return false;
	*at = value;
	return true;
}

bool lbr_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	return vcpu->silicon->lbr.read_msr(vcpu, index, value);
}

bool lbr_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	return vcpu->silicon->lbr.write_msr(vcpu, index, value);
}

/* The flag of LBR_SELECT that leaves this kind of branch out: table 17-9. */
static unsigned left_out_by(unsigned kind)
{
	bool indirect = kind & RETIRED_INDIRECT;

	if (!(kind & (RETIRED_FAR | RETIRED_BRANCH)))
		return 0; /* an event, where it is no far branch */
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
	return levels(vcpu) >> branch->to_cpl & 1 &&
	       !(vcpu->lbr.select & left_out_by(branch->kind));
}

/* A call of the next instruction, which reads its own address, has no return: 17.9. */
bool lbr_is_zero_length(const struct retired *branch)
{
	return branch->kind & RETIRED_CALL && branch->to == branch->from + branch->length;
}

/* Bits 62:61 of FROM are flags, as which they are 0 here: 17.4.8.1. WRMSR takes any. */
static bool has_transactions(const struct vcpu *vcpu)
{
	uint64_t capabilities = vcpu->silicon->profile->performance.capabilities;

	return (capabilities & CAPABILITY_LBR_FORMAT) == FORMAT_TRANSACTIONS;
}

/* With the call stack a return takes off what its call put on: 17.11.2. */
void lbr_rule_record(struct vcpu *vcpu, const struct retired *branch)
{
	const struct lbr_layout *layout = layout_of(vcpu);
	struct lbr_state *lbr = &vcpu->lbr;
	uint64_t missed = branch->kind & RETIRED_MISPREDICTED ? LBR_MISPREDICTED : 0;
	struct lbr_entry *entry;

	if (is_architectural(vcpu)) {
		lbr_architectural_record(vcpu, branch);
		return;
	}
	if (vcpu->branches_suspended) /* by TraceEn: TOS stays */
		return;
	if (!is_selected(vcpu, branch))
		return;
	if (lbr->select & LBR_CALL_STACK && lbr_is_zero_length(branch))
		return;
	if (lbr->select & LBR_CALL_STACK && branch->kind & RETIRED_RETURN) {
		lbr->entry[lbr->top] = (struct lbr_entry){0};
		lbr->top = (lbr->top - 1) & (layout->depth - 1);
		return;
	}
	lbr->top = (lbr->top + 1) & (layout->depth - 1);
	entry = &lbr->entry[lbr->top];
	entry->from = branch->from;
	entry->to = branch->to;
	entry->info = missed;
	if (layout->flags)
		entry->from = (branch->from & ~LBR_MISPREDICTED) | missed;
	if (has_transactions(vcpu))
		entry->from &= ~LBR_TRANSACTION;
}

void lbr_retired(struct vcpu *vcpu, const struct retired *retired)
{
	if (retired->kind & RETIRED_TAKEN && lbr_runs(vcpu))
		vcpu->silicon->lbr.record(vcpu, retired);
}

/* The stack leaves out debug exceptions: 17.4.2. INT n is an instruction. */
void lbr_event(struct vcpu *vcpu, const struct branch *event)
{
	bool debug = event->cause == CAUSE_EXCEPTION && event->vector == VECTOR_DB;
	bool missed = lbr_behaviour_of(vcpu)->event == LBR_EVENT_MISPREDICTED;
	bool far = is_architectural(vcpu) || lbr_behaviour_of(vcpu)->exception == LBR_EXCEPTION_FAR;

	if (is_architectural(vcpu) && lbr_runs(vcpu))
		vcpu->silicon->lbr.last_event(vcpu);
	if (event->cause == CAUSE_SOFTWARE_INTERRUPT)
		return;
	if (!debug && lbr_runs(vcpu))
		vcpu->silicon->lbr.record(
			vcpu, &(struct retired){.from = event->from,
						.to = event->to,
						.from_cpl = event->from_cpl,
						.to_cpl = event->to_cpl,
						.kind = (far ? RETIRED_FAR : 0) |
							(missed ? RETIRED_MISPREDICTED : 0)});
}
