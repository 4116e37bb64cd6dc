// SPDX-License-Identifier: MIT
/* The code that is traced, and the packets of an instruction or event: SDM Vol 3, 36.2.4, 36.2.5
   and table 36-50. Addresses are those within the code segment (RIP): ECX.LIP is 0. */
#include "lib/string.h"
#include "monitor/pt/rules.h"
#include "monitor/silicon.h"

/* No address is it: of the next IP nothing is left out; nor a CR3: the next one is reported. */
#define NONE (1ull << 63)

enum { NOT_DIRECT = RETIRED_FAR | RETIRED_INDIRECT | RETIRED_RETURN };

static const struct pt_rules *rules_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->pt;
}

bool pt_rule_context(const struct vcpu *vcpu)
{
	const struct pt_state *pt = &vcpu->pt;

	if (!(pt->ctl & (vcpu->cpl ? CTL_USER : CTL_OS)))
		return false;
	return !(pt->ctl & CTL_CR3_FILTER) || !((vcpu->cr3 ^ pt->cr3_match) & pt_cr3_bits(vcpu));
}

static bool within(const struct pt_state *pt, unsigned range, uint64_t ip)
{
	return ip >= pt->address[range][0] && ip <= pt->address[range][1];
}

bool pt_rule_filter(const struct vcpu *vcpu, uint64_t ip)
{
	bool filters = false;

	for (unsigned n = 0; n < PT_RANGES; n++) {
		if (CTL_ADDR_CFG(vcpu->pt.ctl, n) != ADDR_FILTER)
			continue;
		if (within(&vcpu->pt, n, ip))
			return true;
		filters = true;
	}
	return !filters;
}

bool pt_rule_stop(const struct vcpu *vcpu, uint64_t ip)
{
	for (unsigned n = 0; n < PT_RANGES; n++)
		if (CTL_ADDR_CFG(vcpu->pt.ctl, n) == ADDR_STOP && within(&vcpu->pt, n, ip))
			return true;
	return false;
}

bool pt_branches_alone(struct vcpu *vcpu)
{
	struct pt_state *pt = &vcpu->pt;
	bool alone = pt->packet_enabled && !pt->awaited;

	pt->tnt_end = alone && pt->plain && pt_triggers(vcpu) ? 1 << PT_TNT_BITS : 0;
	return alone;
}

/*
 * Ring 0 that is not traced emits nothing, and no range makes its addresses a part of
 * IA32_RTIT_STATUS. While work is due at the end of an instruction every level is interpreted.
 */
unsigned pt_levels(const struct vcpu *vcpu)
{
	const struct pt_state *pt = &vcpu->pt;

	if (pt->ctl & (CTL_OS | CTL_ADDR_CFGS) || pt->awaited || !pt->clean ||
	    (pt->packet_enabled && !vcpu->cpl))
		return EVERY_LEVEL;
	return LEVELS_USER;
}

/* The enables, the processor being about to execute `ip` after a transfer to it: 36.2.5. ContextEn
   stays while TriggerEn is 0, FilterEn while ContextEn is 0. */
static void take_up(struct vcpu *vcpu, uint64_t ip)
{
	struct pt_state *pt = &vcpu->pt;
	bool filter;

	pt->context_enabled = pt_triggers(vcpu) && rules_of(vcpu)->context(vcpu);
	filter = rules_of(vcpu)->filter(vcpu, ip);
	pt->packet_enabled = pt->context_enabled && filter && pt->ctl & CTL_BRANCH_EN;
	if (!pt_triggers(vcpu))
		return;
	pt->status &= ~STATUS_CONTEXT_EN;
	pt->status |= pt->context_enabled ? STATUS_CONTEXT_EN : 0;
	if (!pt->context_enabled && pt->ctl & CTL_ANY_FILTER)
		return;
	pt->status &= ~STATUS_FILTER_EN;
	pt->status |= filter ? STATUS_FILTER_EN : 0;
}

/* A decoder begins anew after it. */
static void end_at(struct vcpu *vcpu, uint64_t ip, bool with_ip)
{
	rules_of(vcpu)->ip(vcpu, TIP_PGD, ip, with_ip && vcpu->pt.context_enabled);
	vcpu->pt.reported_mode = PT_MODE_NONE;
	pt_forget_returns(&vcpu->pt);
}

/* True if a TraceStop range begins here: 36.4.2.9. */
static bool stops(struct vcpu *vcpu, uint64_t to, bool was_enabled)
{
	struct pt_state *pt = &vcpu->pt;

	if (!pt->context_enabled || !rules_of(vcpu)->stop(vcpu, to))
		return false;
	if (was_enabled)
		end_at(vcpu, to, true);
	pt_trace_stop(vcpu);
	pt->status |= STATUS_STOPPED;
	pt->packet_enabled = pt->context_enabled = false;
	pt->status &= ~STATUS_FILTER_EN; /* 36.4.2.9 */
	return true;
}

/* "Order of middle packets may vary": table 36-15. */
static void pip_and_mode(struct vcpu *vcpu)
{
	bool mode_first = pt_behaviour_of(vcpu)->order == PT_ORDER_REVERSED;

	if (mode_first)
		rules_of(vcpu)->mode(vcpu);
	if (vcpu->pt.ctl & CTL_OS && vcpu->pt.context_enabled && vcpu->cr3 != vcpu->pt.reported_cr3)
		rules_of(vcpu)->pip(vcpu);
	if (!mode_first)
		rules_of(vcpu)->mode(vcpu);
}

static void begin_at(struct vcpu *vcpu, uint64_t ip)
{
	pip_and_mode(vcpu);
	rules_of(vcpu)->ip(vcpu, TIP_PGE, ip, true);
}

void pt_rule_far(struct vcpu *vcpu, uint64_t to, bool was_enabled)
{
	if (vcpu->pt.packet_enabled && was_enabled) {
		pip_and_mode(vcpu);
		rules_of(vcpu)->ip(vcpu, TIP, to, true);
	} else if (vcpu->pt.packet_enabled) {
		begin_at(vcpu, to);
	} else if (was_enabled) {
		end_at(vcpu, to, true);
	}
}

/* 36.4.2.3 and table 36-23: `from` is where the handler returns to, or INT n itself. */
void pt_rule_event(struct vcpu *vcpu, uint64_t from, uint64_t to, bool was_enabled)
{
	if (was_enabled)
		rules_of(vcpu)->ip(vcpu, FUP, from, true);
	rules_of(vcpu)->far(vcpu, to, was_enabled);
}

/* A near branch that was taken, traced before and after. */
static void near(struct vcpu *vcpu, unsigned kind, uint64_t next, uint64_t to)
{
	const struct pt_rules *rules = rules_of(vcpu);

	if (kind & RETIRED_CONDITIONAL)
		rules->tnt(vcpu, true);
	else if (kind & RETIRED_RETURN && rules->returns(vcpu, to))
		rules->tnt(vcpu, true);
	else if (kind & RETIRED_RETURN) /* waits never: 36.4.2.3 */
		rules->ip(vcpu, TIP, to, true);
	else if (kind & RETIRED_INDIRECT)
		pt_tip(vcpu, to);
	if (kind & RETIRED_CALL && (kind & RETIRED_INDIRECT || to != next))
		rules->call(vcpu, next);
}

/* The enables are true before a near branch, and so after it: no rule has an address to look at. */
static bool changes_nothing(const struct vcpu *vcpu, unsigned kind)
{
	return !(kind & RETIRED_FAR) && vcpu->pt.packet_enabled && pt_triggers(vcpu) &&
	       !(vcpu->pt.ctl & CTL_ADDR_CFGS) && vcpu->pt.clean;
}

static void branch(struct vcpu *vcpu, const struct retired *retired, uint64_t to)
{
	bool was_enabled = vcpu->pt.packet_enabled;

	if (!(retired->kind & RETIRED_TAKEN)) {
		if (was_enabled && retired->kind & RETIRED_CONDITIONAL)
			rules_of(vcpu)->tnt(vcpu, false);
		return;
	}
	if (changes_nothing(vcpu, retired->kind)) {
		near(vcpu, retired->kind, retired->rip + retired->length, to);
		return;
	}
	take_up(vcpu, to);
	if (stops(vcpu, to, was_enabled))
		return;
	if (was_enabled && !vcpu->pt.packet_enabled && retired->kind & RETIRED_CONDITIONAL)
		end_at(vcpu, to, pt_behaviour_of(vcpu)->leave == PT_LEAVE_TARGET);
	else if (was_enabled && !vcpu->pt.packet_enabled && !(retired->kind & NOT_DIRECT) &&
		 pt_behaviour_of(vcpu)->leave == PT_LEAVE_UNTOLD)
		end_at(vcpu, to, false);
	else if (retired->kind & RETIRED_FAR || !was_enabled || !vcpu->pt.packet_enabled)
		rules_of(vcpu)->far(vcpu, to, was_enabled);
	else
		near(vcpu, retired->kind, retired->rip + retired->length, to);
}

/* TraceEn was set: 36.2.7.2 and 36.3.7. */
static void enable(struct vcpu *vcpu, uint64_t next)
{
	struct pt_state *pt = &vcpu->pt;
	unsigned psb = pt_behaviour_of(vcpu)->psb;
	bool last = psb == PT_PSB_LAST, syncs;

	pt->enabling = false;
	pt->overflowing = 0;
	pt_encode(vcpu);
	pt->last_ip = NONE; /* until sync(): a decoder has that of the last packet of this trace */
	pt->reported_cr3 = NONE;
	pt->cycles = platform_unit_tsc(vcpu);
	if (pt_triggers(vcpu)) /* no offset is an error while Stopped is set: 36.2.6.2 */
		pt_check_output(vcpu);
	if (!pt_triggers(vcpu))
		return;
	pt->context_enabled = rules_of(vcpu)->context(vcpu);
	syncs = !pt->packet_bytes || !(pt_of(vcpu)->ebx & EBX_PSB_CYC) || psb == PT_PSB_ALWAYS;
	if (psb == PT_PSB_TOLD && !rules_of(vcpu)->stop(vcpu, next))
		take_up(vcpu, next);
	if (!syncs)
		pt_time(vcpu);
	else if (!last)
		rules_of(vcpu)->sync(vcpu, next);
	if (psb == PT_PSB_TOLD)
		pt->last_ip = NONE; /* libipt does not count the FUP */
	take_up(vcpu, next);
	if (!stops(vcpu, next, false) && pt->packet_enabled)
		begin_at(vcpu, next);
	pt->sync_due |= syncs && last;
}

void pt_disable(struct vcpu *vcpu, uint64_t from)
{
	struct pt_state *pt = &vcpu->pt;

	if (pt->overflowing)
		pt_overflow(vcpu, from);
	if (pt->packet_enabled) {
		rules_of(vcpu)->ip(vcpu, FUP, from, true);
		end_at(vcpu, from, false);
	}
	pt->disabling = pt->packet_enabled = pt->context_enabled = false;
	if (pt->overflowing) /* with these very packets */
		pt_overflow(vcpu, from);
	if (vcpu->branches_suspended)
		platform_unit_resumes(vcpu);
	vcpu->branches_suspended = false;
	pt->ctl = pt->next_ctl;
	vcpu->observed &= ~(unsigned)OBSERVER_FLOW;
}

/* MOV to CR3: 36.4.2.7, table 36-50, case 5: PIP first; with CR3Filter it may begin or end the
   trace, as it may where an address range was left or entered without a branch. */
static void moved_cr3(struct vcpu *vcpu, uint64_t next)
{
	bool was_enabled = vcpu->pt.packet_enabled;

	vcpu->pt.cr3_written = false;
	take_up(vcpu, next);
	if (vcpu->pt.context_enabled && vcpu->pt.ctl & CTL_OS)
		rules_of(vcpu)->pip(vcpu);
	if (stops(vcpu, next, was_enabled))
		return;
	if (was_enabled && !vcpu->pt.packet_enabled)
		end_at(vcpu, next, true);
	if (vcpu->pt.packet_enabled && !was_enabled)
		begin_at(vcpu, next);
}

static void retired_awaited(struct vcpu *vcpu, const struct retired *retired)
{
	struct pt_state *pt = &vcpu->pt;

	if (pt->enabling)
		enable(vcpu, vcpu->rip);
	else if (pt->disabling)
		pt_disable(vcpu, retired->rip);
	else if (pt->cr3_written)
		moved_cr3(vcpu, vcpu->rip);
	else if (retired->kind & RETIRED_BRANCH && !pt->interrupted_itself)
		branch(vcpu, retired, vcpu->rip);
}

static void finish(struct vcpu *vcpu)
{
	struct pt_state *pt = &vcpu->pt;

	if (pt->overflowing && !--pt->overflowing && pt_triggers(vcpu))
		pt_overflow(vcpu, vcpu->rip);
	if (pt->sync_due && !pt->overflowing && pt_triggers(vcpu))
		rules_of(vcpu)->sync(vcpu, vcpu->rip);
	pt->interrupted_itself = false;
}

void pt_retired(struct vcpu *vcpu, const struct retired *retired)
{
	struct pt_state *pt = &vcpu->pt;

	if (pt->awaited)
		retired_awaited(vcpu, retired);
	else if (retired->kind & RETIRED_BRANCH)
		branch(vcpu, retired, vcpu->rip);
	finish(vcpu);
	pt->code_base = vcpu_code_base(vcpu);
}

/* Outside 64-bit mode an offset has 32 bits: SDM Vol 3, 3.4.2.1. */
static uint64_t offset_in_code(const struct pt_state *pt, uint64_t linear)
{
	return pt->code_base ? (uint32_t)(linear - pt->code_base) : linear;
}

void pt_event(struct vcpu *vcpu, const struct branch *event)
{
	struct pt_state *pt = &vcpu->pt;
	bool was_enabled = pt->packet_enabled, stopping;
	uint64_t from = offset_in_code(pt, event->from);
	uint64_t next = offset_in_code(pt, event->return_rip);

	pt->interrupted_itself = event->cause == CAUSE_SOFTWARE_INTERRUPT;
	take_up(vcpu, vcpu->rip);
	pt->code_base = vcpu_code_base(vcpu);
	stopping = pt->context_enabled && rules_of(vcpu)->stop(vcpu, vcpu->rip);
	if (was_enabled && pt->packet_enabled && !stopping && pt->interrupted_itself &&
	    pt_behaviour_of(vcpu)->int_n == PT_INT_N_TWICE) { /* table 36-50, case 12e */
		rules_of(vcpu)->ip(vcpu, FUP, from, true);
		from = next;
	}
	if (was_enabled && stopping)
		rules_of(vcpu)->ip(vcpu, FUP, from, true);
	if (!stops(vcpu, vcpu->rip, was_enabled))
		rules_of(vcpu)->event(vcpu, from, vcpu->rip, was_enabled);
}

void pt_cr3(struct vcpu *vcpu)
{
	vcpu->pt.cr3_written = true;
}
