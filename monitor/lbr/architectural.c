// SPDX-License-Identifier: MIT
/*
 * Architectural last branch records: SDM Vol 3 of 2022, chapter 18, which is new there; CPUID leaf
 * 1CH: SDM Vol 2; their state component: SDM Vol 1, "LBR state". Entry 0 is the newest: here the
 * place `top` of a ring, whose depths are powers of two.
 */
#include <stddef.h>

#include "lib/string.h"
#include "monitor/lbr/rules.h"
#include "monitor/pmu/pmu.h"
#include "monitor/silicon.h"

/* CPUID leaf 1CH. EAX: what an MWAIT may clear, linear addresses. EBX: OS and USR, kinds, call
   stack. ECX: MISPRED, CYC_CNT, BR_TYPE. */
enum { LEAF_FEATURES = 7, LEAF_LBR = 0x1c };
#define FEATURES_EDX_LBR (1u << 19)
#define LBR_EAX_RESET	 (1u << 30)
#define LBR_EAX_LINEAR	 (1u << 31)
enum { LBR_EBX = 7, LBR_ECX = 7 };

#define INFO_CYCLES	0xffffull
#define INFO_TYPE_SHIFT 56
#define INFO_TYPE	(0xfull << INFO_TYPE_SHIFT)
#define INFO_VALID	(1ull << 60)
#define INFO_FLAGS	(7ull << 61) /* TSX_ABORT, IN_TSX, MISPRED */

enum { STATE_HEAD = 5, STATE_ENTRY = 3 }; /* words */

void lbr_cpuid(const struct vcpu *vcpu, uint32_t leaf, uint32_t subleaf, uint32_t value[4])
{
	uint32_t depths = vcpu->silicon->profile->lbr.depths;

	if (!depths || subleaf)
		return;
	if (leaf == LEAF_FEATURES) {
		value[3] |= FEATURES_EDX_LBR;
	} else if (leaf == LEAF_LBR) {
		value[0] = depths | LBR_EAX_RESET | LBR_EAX_LINEAR;
		value[1] = LBR_EBX;
		value[2] = LBR_ECX;
	}
}

/* IA32_LBR_DEPTH is the deepest that there is. */
void lbr_power_on(struct vcpu *vcpu)
{
	vcpu->lbr = (struct lbr_state){.depth = vcpu->silicon->profile->lbr.depth};
}

/* A warm reset clears LBREn and preserves the rest: so does INIT here, as of IA32_DEBUGCTL. */
void lbr_reset(struct vcpu *vcpu)
{
	vcpu->lbr.control &= ~(uint64_t)LBR_EN;
}

/* Bit n of CPUID.1CH:EAX[7:0] is of 8 * (n + 1) entries. */
static bool is_depth(const struct vcpu *vcpu, uint64_t depth)
{
	return depth && depth % 8 == 0 && depth <= LBR_MOST &&
	       vcpu->silicon->profile->lbr.depths >> (depth / 8 - 1) & 1;
}

struct lbr_entry *lbr_place(struct vcpu *vcpu, unsigned n)
{
	return &vcpu->lbr.entry[(vcpu->lbr.top - n) & (vcpu->lbr.depth - 1)];
}

uint64_t *lbr_register(struct vcpu *vcpu, uint32_t index)
{
	struct lbr_state *lbr = &vcpu->lbr;

	if (lbr_within(index, MSR_LBR_0_FROM_IP, lbr->depth))
		return &lbr_place(vcpu, index - MSR_LBR_0_FROM_IP)->from;
	if (lbr_within(index, MSR_LBR_0_TO_IP, lbr->depth))
		return &lbr_place(vcpu, index - MSR_LBR_0_TO_IP)->to;
	if (lbr_within(index, MSR_LBR_0_INFO, lbr->depth))
		return &lbr_place(vcpu, index - MSR_LBR_0_INFO)->info;
	switch (index) {
	case MSR_LBR_CTL:
		return &lbr->control;
	case MSR_LBR_DEPTH:
		return &lbr->depth;
	case MSR_LER_FROM_IP:
		return &lbr->ler.from;
	case MSR_LER_TO_IP:
		return &lbr->ler.to;
	case MSR_LER_INFO:
		return &lbr->ler.info;
	default:
		return NULL;
	}
}

static uint64_t extended(uint64_t address)
{
	return (uint64_t)((int64_t)(address << 16) >> 16);
}

/* Undefined bits of INFO take what is written without a fault, and need not keep it. */
static bool write_entry(const struct vcpu *vcpu, uint32_t index, uint64_t *at, uint64_t value)
{
	bool info = index == MSR_LER_INFO || lbr_within(index, MSR_LBR_0_INFO, LBR_MOST);

	if (!info && !canonical(value) && lbr_behaviour_of(vcpu)->address == LBR_ADDRESS_FAULTS)
		return false;
	*at = info ? value & (INFO_CYCLES | INFO_TYPE | INFO_VALID | INFO_FLAGS) : extended(value);
	return true;
}

/* Where LBREn was clear the next entry is the first one. */
static void set_control(struct vcpu *vcpu, uint64_t control)
{
	bool timed = lbr_behaviour_of(vcpu)->first == LBR_FIRST_TIMED;
	struct lbr_state *lbr = &vcpu->lbr;

	if (~lbr->control & control & LBR_EN)
		lbr->clock = timed ? platform_unit_tsc(vcpu) : 0;
	lbr->control = control;
}

bool lbr_architectural_write(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	uint64_t *at = lbr_register(vcpu, index);

	if (!at)
		return false;
	switch (index) {
	case MSR_LBR_CTL:
		if (value & ~LBR_CTL_DEFINED)
			return false;
		set_control(vcpu, value);
		return true;
	case MSR_LBR_DEPTH:
		if (!is_depth(vcpu, value))
			return false;
		vcpu->silicon->lbr.set_depth(vcpu, value);
		return true;
	default:
		return write_entry(vcpu, index, at, value);
	}
}

/* All entries are 0 then, the LER is as it was. */
void lbr_rule_set_depth(struct vcpu *vcpu, uint64_t depth)
{
	lbr_empty(vcpu);
	vcpu->lbr.depth = depth;
}

unsigned lbr_rule_type(const struct vcpu *vcpu, unsigned kind)
{
	bool indirect = kind & RETIRED_INDIRECT;

	if (kind & RETIRED_FAR)
		return lbr_behaviour_of(vcpu)->other == LBR_OTHER_15 ? 15 : LBR_TYPE_OTHER;
	if (kind & RETIRED_CONDITIONAL)
		return LBR_TYPE_COND;
	if (kind & RETIRED_RETURN)
		return LBR_TYPE_RETURN;
	if (kind & RETIRED_CALL)
		return indirect ? LBR_TYPE_CALL_INDIRECT : LBR_TYPE_CALL;
	return indirect ? LBR_TYPE_JUMP_INDIRECT : LBR_TYPE_JUMP;
}

/* The flag of IA32_LBR_CTL that lets this kind in. */
static uint64_t let_in_by(unsigned kind)
{
	bool indirect = kind & RETIRED_INDIRECT;

	if (kind & RETIRED_FAR)
		return LBR_CTL_OTHER;
	if (kind & RETIRED_CONDITIONAL)
		return LBR_CTL_COND;
	if (kind & RETIRED_RETURN)
		return LBR_CTL_RETURN;
	if (kind & RETIRED_CALL)
		return indirect ? LBR_CTL_CALL_INDIRECT : LBR_CTL_CALL;
	return indirect ? LBR_CTL_JUMP_INDIRECT : LBR_CTL_JUMP;
}

unsigned lbr_architectural_levels(const struct vcpu *vcpu)
{
	return (vcpu->lbr.control & LBR_CTL_OS ? LEVEL_OS : 0) |
	       (vcpu->lbr.control & LBR_CTL_USR ? LEVELS_USER : 0);
}

/* A branch between privilege levels is of the one that it leads to. */
bool lbr_rule_selects(const struct vcpu *vcpu, const struct retired *branch)
{
	return lbr_architectural_levels(vcpu) >> branch->to_cpl & 1 &&
	       vcpu->lbr.control & let_in_by(branch->kind);
}

/* The cycle timer counts from the newest entry on and stays at its most. Implementations may set
   low bits of a large count, by which it is at most a tenth too large. */
static uint64_t cycles(const struct vcpu *vcpu)
{
	uint64_t count = platform_unit_tsc((struct vcpu *)vcpu) - vcpu->lbr.clock;

	if (!vcpu->lbr.clock)
		return 0;
	if (count > INFO_CYCLES)
		count = INFO_CYCLES;
	if (lbr_behaviour_of(vcpu)->cycles == LBR_CYCLES_COARSE && count >= 256)
		count |= (1ull << (59 - __builtin_clzll(count))) - 1;
	return count | INFO_VALID;
}

uint64_t lbr_rule_info(const struct vcpu *vcpu, const struct retired *branch)
{
	uint64_t missed = branch->kind & RETIRED_MISPREDICTED ? LBR_MISPREDICTED : 0;

	return missed | cycles(vcpu) |
	       (uint64_t)vcpu->silicon->lbr.type(vcpu, branch->kind) << INFO_TYPE_SHIFT;
}

/* Where a branch of a level that is left out leads to one that is not, FROM_IP does not say from
   where. */
static uint64_t source_of(const struct vcpu *vcpu, const struct retired *branch)
{
	if (lbr_architectural_levels(vcpu) >> branch->from_cpl & 1)
		return branch->from;
	switch (lbr_behaviour_of(vcpu)->from) {
	case LBR_FROM_ONES:
		return ~0ull;
	case LBR_FROM_SHOWN:
		return branch->from;
	default:
		return LBR_FROM_NOWHERE;
	}
}

static void push(struct vcpu *vcpu, const struct retired *branch)
{
	struct lbr_state *lbr = &vcpu->lbr;
	struct lbr_entry entry = {source_of(vcpu, branch), branch->to,
				  vcpu->silicon->lbr.info(vcpu, branch)};

	lbr->top = (lbr->top + 1) & (lbr->depth - 1);
	*lbr_place(vcpu, 0) = entry;
	lbr->clock = platform_unit_tsc(vcpu);
	if (branch->kind & RETIRED_BRANCH)
		lbr->last = entry;
}

/* The newest entry goes, the others move up, and the last place is 0. */
void lbr_rule_pop(struct vcpu *vcpu)
{
	*lbr_place(vcpu, 0) = (struct lbr_entry){0};
	vcpu->lbr.top = (vcpu->lbr.top - 1) & (vcpu->lbr.depth - 1);
}

void lbr_architectural_record(struct vcpu *vcpu, const struct retired *branch)
{
	const struct lbr_rules *rules = &vcpu->silicon->lbr;
	bool call_stack = vcpu->lbr.control & LBR_CTL_CALL_STACK;

	if (!rules->selects(vcpu, branch))
		return;
	if (call_stack && lbr_is_zero_length(branch))
		return;
	if (call_stack && branch->kind & RETIRED_RETURN)
		rules->pop(vcpu);
	else
		push(vcpu, branch);
}

/* The last branch before an exception, an interrupt or INT n, by the same filters. */
void lbr_rule_last_event(struct vcpu *vcpu)
{
	vcpu->lbr.ler = vcpu->lbr.last;
	vcpu->lbr.ler.info &= INFO_TYPE | INFO_FLAGS;
}

/* State component 15. */

bool lbr_has_state(const struct silicon *silicon)
{
	return silicon->profile->lbr.depths;
}

/* True if anything but IA32_LBR_DEPTH is not 0. */
bool lbr_rule_save(struct vcpu *vcpu, uint64_t *area)
{
	struct lbr_state *lbr = &vcpu->lbr;
	uint64_t in_use = lbr->control;

	area[0] = lbr->control;
	area[1] = lbr->depth;
	memcpy(&area[2], &lbr->ler, sizeof(lbr->ler));
	for (unsigned n = 0; n < lbr->depth; n++)
		memcpy(&area[STATE_HEAD + n * STATE_ENTRY], lbr_place(vcpu, n),
		       sizeof(struct lbr_entry));
	for (unsigned n = 2; n < LBR_STATE_BYTES / sizeof(area[0]); n++)
		in_use |= area[n];
	if (lbr_behaviour_of(vcpu)->xsaves == LBR_XSAVES_STOPS)
		lbr->control &= ~(uint64_t)LBR_EN;
	return in_use;
}

static void load_entry(struct lbr_entry *entry, const uint64_t *words)
{
	*entry = (struct lbr_entry){extended(words[0]), extended(words[1]),
				    words[2] & (INFO_CYCLES | INFO_TYPE | INFO_VALID | INFO_FLAGS)};
}

/* The initial configuration has all but IA32_LBR_DEPTH 0. */
bool lbr_rule_restore(struct vcpu *vcpu, const uint64_t *area)
{
	struct lbr_state *lbr = &vcpu->lbr;

	if (area && (area[0] & ~LBR_CTL_DEFINED || !is_depth(vcpu, area[1])))
		return false;
	if (area && area[1] != lbr->depth && lbr_behaviour_of(vcpu)->xrstors == LBR_XRSTORS_FAULTS)
		return false;
	lbr_empty(vcpu);
	lbr->ler = (struct lbr_entry){0};
	lbr->control = 0;
	if (!area)
		return true;
	lbr->depth = area[1];
	load_entry(&lbr->ler, &area[2]);
	for (unsigned n = 0; n < lbr->depth; n++)
		load_entry(lbr_place(vcpu, n), &area[STATE_HEAD + n * STATE_ENTRY]);
	set_control(vcpu, area[0]);
	return true;
}

bool lbr_save(struct vcpu *vcpu, uint64_t rip, uint64_t *area)
{
	bool in_use = vcpu->silicon->lbr.save(vcpu, area);

	(void)rip;
	pmu_update(vcpu);
	return in_use;
}

bool lbr_restore(struct vcpu *vcpu, const uint64_t *area)
{
	bool done = vcpu->silicon->lbr.restore(vcpu, area);

	pmu_update(vcpu);
	return done;
}
