// SPDX-License-Identifier: MIT
/* Counting, and the effects of an overflow: SDM Vol 3, 18.2 and 17.4.7. */
#include <stddef.h>

#include "lib/string.h"
#include "monitor/ds/ds.h"
#include "monitor/ds/memory.h"
#include "monitor/lbr/rules.h"
#include "monitor/pebs/rules.h"
#include "monitor/pmu/rules.h"
#include "monitor/silicon.h"

/* struct pmu_behaviour */
enum { SLOWER = 64, LATE_INSTRUCTIONS = 100 };
#define COARSE 0xfffffull

static uint16_t place(unsigned n)
{
	return (uint16_t)(1u << n);
}

static unsigned fixed_control(const struct vcpu *vcpu, unsigned n)
{
	return (unsigned)(vcpu->pmu.fixed_control >> FIXED_SHIFT(n)) & 0xf;
}

static bool interrupts(const struct vcpu *vcpu, unsigned n)
{
	if (is_netburst(vcpu))
		return netburst_interrupts(vcpu);
	return n < PMU_GENERAL ? vcpu->pmu.event_select[n] & SELECT_INT
			       : fixed_control(vcpu, n) & FIXED_PMI;
}

/* Where no instruction is looked at an overflow interrupts at once. */
static void interrupt(struct vcpu *vcpu)
{
	unsigned late = pmu_behaviour_of(vcpu)->late;
	unsigned levels = vcpu->pmu.counting ? vcpu->pmu.levels : 0;
	bool looks =
		vcpu->cpl ? late == PMU_LATE_ANYWHERE && levels & LEVELS_USER : levels & LEVEL_OS;

	if (late == PMU_LATE_NONE || !looks)
		platform_performance_interrupt(vcpu);
	else if (!vcpu->pmu.late)
		vcpu->pmu.late = LATE_INSTRUCTIONS;
}

static void end_late(struct vcpu *vcpu)
{
	if (!vcpu->pmu.late)
		return;
	vcpu->pmu.late = 0;
	platform_performance_interrupt(vcpu);
}

bool pmu_rule_privilege(const struct vcpu *vcpu, unsigned n, unsigned cpl)
{
	if (is_netburst(vcpu))
		return netburst_counts(vcpu, cpl);
	if (n < PMU_GENERAL)
		return vcpu->pmu.event_select[n] & (cpl ? SELECT_USR : SELECT_OS);
	return fixed_control(vcpu, n) & (cpl ? FIXED_USR : FIXED_OS);
}

/* Version 4 leaves IA32_PERF_GLOBAL_CTRL alone and says in the status that all is frozen. */
static bool is_running(const struct vcpu *vcpu, unsigned n)
{
	const struct pmu_state *pmu = &vcpu->pmu;

	if (is_netburst(vcpu))
		return !n && netburst_runs(vcpu);
	return pmu->global_control & pmu_bit(n) && !(pmu->global_status & STATUS_CTR_FRZ) &&
	       (n >= PMU_GENERAL || pmu->event_select[n] & SELECT_EN);
}

static bool detects_edges(const struct vcpu *vcpu, uint64_t select)
{
	return select & SELECT_EDGE &&
	       (SELECT_CMASK(select) || pmu_behaviour_of(vcpu)->edge == PMU_EDGE_DETECTED);
}

/* A cycle is one event of itself, SDM Vol 3, 18.2.1.1: CMASK = 2 is never met, and where each one
   meets the condition there is no edge. */
static bool is_met_by_cycles(const struct vcpu *vcpu, unsigned n)
{
	uint64_t select = vcpu->pmu.event_select[n];
	bool holds = SELECT_CMASK(select) <= 1;

	if (SELECT_CMASK(select) && select & SELECT_INV)
		holds = !holds;
	return holds && !detects_edges(vcpu, select);
}

static void take_up(struct vcpu *vcpu, unsigned n)
{
	const struct pmu_rules *rules = &vcpu->silicon->pmu;
	const struct pmu_event *event = is_running(vcpu, n) ? pmu_event_of(vcpu, n) : NULL;
	bool kernel = rules->privilege(vcpu, n, 0), user = rules->privilege(vcpu, n, 3);

	vcpu->pmu.event[n] = event;
	if (!event || !(kernel || user))
		return;
	if (event->kind == EVENT_CYCLES) {
		if (!is_met_by_cycles(vcpu, n))
			return;
		vcpu->pmu.cycles |= place(n);
		if (kernel == user)
			return;
		vcpu->pmu.filtered |= place(n);
	} else {
		vcpu->pmu.counting |= place(n);
		if (event->has & (RETIRED_LOAD | RETIRED_STORE))
			vcpu->observed |= OBSERVER_PEBS;
	}
	if (kernel)
		vcpu->pmu.levels |= LEVEL_OS;
	if (user)
		vcpu->pmu.levels |= LEVELS_USER;
}

/* A rule that is replaced may look at every instruction. */
static bool is_clean(const struct silicon *silicon)
{
	return !memcmp(&silicon->pmu, &pmu_clean, sizeof(pmu_clean)) &&
	       !memcmp(&silicon->pebs, &pebs_clean, sizeof(pebs_clean)) &&
	       !memcmp(&silicon->lbr, &lbr_clean, sizeof(lbr_clean));
}

unsigned pmu_levels(const struct vcpu *vcpu)
{
	return vcpu->pmu.levels;
}

void pmu_update(struct vcpu *vcpu)
{
	struct pmu_state *pmu = &vcpu->pmu;

	pmu_tick(vcpu);
	pmu->counting = pmu->cycles = pmu->filtered = 0;
	pmu->levels = is_clean(vcpu->silicon) ? (uint8_t)lbr_levels(vcpu) : EVERY_LEVEL;
	vcpu->observed &= ~(unsigned)(OBSERVER_PMU | OBSERVER_PEBS);
	for (unsigned n = 0; n < PMU_COUNTERS; n++)
		take_up(vcpu, n);
	if (pmu->counting | pmu->filtered || lbr_runs(vcpu))
		vcpu->observed |= OBSERVER_PMU;
	else
		end_late(vcpu);
}

bool pmu_rule_add(struct vcpu *vcpu, unsigned n, uint64_t count)
{
	uint64_t value = vcpu->pmu.value[n] + count, mask = pmu_counter_mask(vcpu);

	vcpu->pmu.value[n] = value & mask;
	return value > mask;
}

void pmu_rule_overflow(struct vcpu *vcpu, unsigned n)
{
	vcpu->pmu.global_status |= pmu_bit(n);
	if (is_netburst(vcpu))
		netburst_overflow(vcpu);
	pebs_overflow(vcpu, n);
	if (interrupts(vcpu, n))
		interrupt(vcpu);
}

static void count(struct vcpu *vcpu, unsigned n, uint64_t events)
{
	if (events && vcpu->silicon->pmu.add(vcpu, n, events))
		vcpu->silicon->pmu.overflow(vcpu, n);
}

/* Whether counter `n` counts what this instruction does. */
static bool is_of_level(const struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	bool by_target = pmu_behaviour_of(vcpu)->counted == PMU_COUNTED_BY_TARGET;

	return vcpu->silicon->pmu.privilege(vcpu, n,
					    by_target ? retired->to_cpl : retired->from_cpl);
}

/* The events of counter `n` up to this TSC, and the first TSC by which there are so many. */
static uint64_t cycles_at(const struct vcpu *vcpu, unsigned n, uint64_t tsc)
{
	const struct pmu_behaviour *behaviour = pmu_behaviour_of(vcpu);

	if (n == PMU_GENERAL + 2)
		return behaviour->reference == PMU_REFERENCE_COARSE ? tsc & ~COARSE : tsc;
	if (behaviour->core == PMU_CORE_FASTER)
		return 2 * tsc;
	return behaviour->core == PMU_CORE_SLOWER ? tsc / SLOWER : tsc;
}

static uint64_t tsc_of(const struct vcpu *vcpu, unsigned n, uint64_t cycles)
{
	const struct pmu_behaviour *behaviour = pmu_behaviour_of(vcpu);

	if (n == PMU_GENERAL + 2)
		return behaviour->reference == PMU_REFERENCE_COARSE ? (cycles + COARSE) & ~COARSE
								    : cycles;
	if (behaviour->core == PMU_CORE_FASTER)
		return (cycles + 1) / 2;
	return behaviour->core == PMU_CORE_SLOWER ? cycles * SLOWER : cycles;
}

/* Cycles are no event of an instruction: an overflow is sampled where the program is, or where it
   first is at a level that the counter is for. It may have run natively, with other page tables.
   With an LBR stack the guest is interpreted: the samples of one period would take longer than the
   next one lasts, and the guest would do nothing else. */
static void sample_cycles(struct vcpu *vcpu)
{
	uint16_t armed = vcpu->pmu.cycles & vcpu->pebs.armed;
	struct retired here = {.from = vcpu_code_linear(vcpu, vcpu->rip),
			       .rip = vcpu->rip,
			       .from_cpl = vcpu->cpl,
			       .to_cpl = vcpu->cpl,
			       .kind = RETIRED};

	if (!armed || lbr_runs(vcpu))
		return;
	ds_forget(vcpu);
	for (unsigned n = 0; armed >> n; n++)
		if (armed & place(n) && is_of_level(vcpu, n, &here))
			pebs_take(vcpu, n, &here);
}

void pmu_tick(struct vcpu *vcpu)
{
	struct pmu_state *pmu = &vcpu->pmu;
	uint64_t now = __builtin_ia32_rdtsc(), before = pmu->clock;
	unsigned cpl = pmu->cpl;

	pmu->clock = now;
	pmu->cpl = vcpu->cpl;
	for (unsigned n = 0; pmu->cycles >> n && !pmu->waits; n++)
		if (pmu->cycles & place(n) &&
		    (!(pmu->filtered & place(n)) || vcpu->silicon->pmu.privilege(vcpu, n, cpl)))
			count(vcpu, n, cycles_at(vcpu, n, now) - cycles_at(vcpu, n, before));
	sample_cycles(vcpu);
}

/* The cycles up to here are of the level that was left. */
static void tick_if_left(struct vcpu *vcpu)
{
	if (vcpu->pmu.cpl == vcpu->cpl)
		return;
	pmu_tick(vcpu);
	end_late(vcpu);
}

uint64_t pmu_deadline(const struct vcpu *vcpu)
{
	const struct pmu_state *pmu = &vcpu->pmu;
	uint64_t least = 0, left, at;

	for (unsigned n = 0; pmu->cycles >> n && !pmu->waits; n++) {
		if (!(pmu->cycles & ~pmu->filtered & place(n)) ||
		    !(interrupts(vcpu, n) || (pebs_arms(vcpu, n) && !lbr_runs(vcpu))))
			continue;
		left = pmu_counter_mask(vcpu) - pmu->value[n] + 1;
		at = tsc_of(vcpu, n, cycles_at(vcpu, n, pmu->clock) + left);
		if (!least || at < least)
			least = at;
	}
	return least;
}

void pmu_wait(struct vcpu *vcpu, bool waits)
{
	pmu_tick(vcpu);
	end_late(vcpu);
	vcpu->pmu.waits = waits;
}

unsigned pmu_rule_occurs(const struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	const struct pmu_event *event = vcpu->pmu.event[n];

	if (event->kind == EVENT_LATENCY && vcpu->pebs.latency >= LOAD_LATENCY)
		return 0;
	return (retired->kind & event->has) == event->has && !(retired->kind & event->without);
}

/* Edge, INV and CMASK of this silicon, on which one instruction retires a cycle: SDM Vol 3,
   18.2.1.1. */
static unsigned by_condition(struct vcpu *vcpu, unsigned n, unsigned occurs)
{
	struct pmu_state *pmu = &vcpu->pmu;
	uint64_t select = pmu->event_select[n];
	bool before = pmu->asserted & place(n), holds;

	if (!SELECT_CMASK(select) && !detects_edges(vcpu, select))
		return occurs;
	holds = occurs >= (SELECT_CMASK(select) ? SELECT_CMASK(select) : 1);
	if (SELECT_CMASK(select) && select & SELECT_INV)
		holds = !holds;
	pmu->asserted = (uint16_t)((pmu->asserted & ~place(n)) | (holds ? place(n) : 0));
	return detects_edges(vcpu, select) ? holds && !before : holds;
}

static void count_instruction(struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	unsigned events;

	if (!is_of_level(vcpu, n, retired))
		return;
	events = by_condition(vcpu, n, vcpu->silicon->pmu.occurs(vcpu, n, retired));
	if (events && !pebs_take(vcpu, n, retired))
		count(vcpu, n, events);
}

static void freeze_if_interrupted(struct vcpu *vcpu)
{
	if (!vcpu->pmu.interrupted)
		return;
	vcpu->pmu.interrupted = false;
	vcpu->silicon->pmu.freeze(vcpu);
}

/* Apart, so that there is one copy of it. */
static __attribute__((noinline)) void count_each(struct vcpu *vcpu, uint16_t counting,
						 const struct retired *retired)
{
	for (unsigned n = 0; counting >> n; n++)
		if (counting >> n & 1)
			count_instruction(vcpu, n, retired);
}

void pmu_pass(struct vcpu *vcpu)
{
	pmu_tick(vcpu);
	freeze_if_interrupted(vcpu);
}

/* Counters that start with this instruction, by WRMSR, count it; those that it stops do not. */
void pmu_retired(struct vcpu *vcpu, const struct retired *retired)
{
	struct retired seen = *retired;
	uint16_t counting = vcpu->pmu.counting;

	if (seen.kind & RETIRED_BRANCH && !vcpu->silicon->pmu.predict(vcpu, &seen))
		seen.kind |= RETIRED_MISPREDICTED;
	tick_if_left(vcpu);
	if (vcpu->pmu.late == 1)
		end_late(vcpu);
	else if (vcpu->pmu.late)
		vcpu->pmu.late--;
	count_each(vcpu, counting, &seen);
	lbr_retired(vcpu, &seen);
	freeze_if_interrupted(vcpu);
}

/* INT n is an instruction, and has counted. No sample is of an event. */
static void count_event(struct vcpu *vcpu, const struct branch *event)
{
	const struct retired seen = {.from_cpl = event->from_cpl,
				     .to_cpl = event->to_cpl,
				     .kind = RETIRED | RETIRED_BRANCH | RETIRED_TAKEN |
					     RETIRED_FAR};
	uint16_t armed = vcpu->pebs.armed;

	if (pmu_behaviour_of(vcpu)->events == PMU_EVENTS_UNCOUNTED ||
	    event->cause == CAUSE_SOFTWARE_INTERRUPT)
		return;
	vcpu->pebs.armed = 0;
	count_each(vcpu, vcpu->pmu.counting, &seen);
	vcpu->pebs.armed |= armed;
}

void pmu_event(struct vcpu *vcpu, const struct branch *event)
{
	if (event->cause == CAUSE_EXCEPTION && event->vector == VECTOR_DB)
		pmu_update(vcpu);
	tick_if_left(vcpu);
	count_event(vcpu, event);
	lbr_event(vcpu, event);
	if (event->cause == CAUSE_SOFTWARE_INTERRUPT)
		return;
	freeze_if_interrupted(vcpu);
}

void pmu_buffer_overflow(struct vcpu *vcpu)
{
	vcpu->pmu.global_status |= STATUS_OVFBUF;
}

void pmu_trace_interrupt(struct vcpu *vcpu)
{
	vcpu->pmu.global_status |= STATUS_TOPA;
	platform_performance_interrupt(vcpu);
}

/* NetBurst has no status. */
static bool by_status(const struct vcpu *vcpu)
{
	return ds_behaviour_of(vcpu)->masked == DS_MASKED_STATUS &&
	       vcpu->silicon->profile->performance.version;
}

/* OvfBuf is of PEBS. The manual says of BTS only that it asks at each record past the threshold:
   those of the handler itself do not wait. */
static bool has_cause(const struct vcpu *vcpu)
{
	bool ovfbuf = vcpu->pebs.enable || by_status(vcpu);
	uint64_t causes = STATUS_TOPA | (ovfbuf ? STATUS_OVFBUF : 0);

	for (unsigned n = 0; n < PMU_COUNTERS; n++)
		if (interrupts(vcpu, n))
			causes |= pmu_bit(n);
	return vcpu->pmu.global_status & causes;
}

bool pmu_awaits_unmasking(const struct vcpu *vcpu)
{
	return vcpu->pmu.masked || by_status(vcpu);
}

void pmu_unmasked(struct vcpu *vcpu)
{
	bool masked = vcpu->pmu.masked || by_status(vcpu);

	vcpu->pmu.masked = false;
	if (masked && has_cause(vcpu))
		platform_performance_interrupt(vcpu);
}

/* Its own records and counts come first where an instruction is under way: pmu_retired() and
   pmu_event() freeze, or pmu_pass() after it. */
void pmu_interrupted(struct vcpu *vcpu, bool waits, bool shown)
{
	vcpu->pmu.masked |= waits;
	if (shown)
		pmu_buffer_overflow(vcpu);
	vcpu->pmu.interrupted = true;
}

void pmu_rule_freeze(struct vcpu *vcpu)
{
	struct pmu_state *pmu = &vcpu->pmu;
	bool streamlined = vcpu->silicon->profile->performance.version >= 4;

	if (vcpu->debugctl & DEBUGCTL_FREEZE_PERFMON) {
		if (streamlined)
			pmu->global_status |= STATUS_CTR_FRZ;
		else
			pmu->global_control = 0;
	}
	if (vcpu->debugctl & DEBUGCTL_FREEZE_LBRS) {
		if (streamlined)
			pmu->global_status |= STATUS_LBR_FRZ;
		else
			vcpu->debugctl &= ~DEBUGCTL_LBR;
	}
	pmu_update(vcpu);
}

/* A near branch whose target is not in the instruction goes where it last went; a conditional one
   that was not met before is not taken. Direct and far branches are always known. */
bool pmu_rule_predict(struct vcpu *vcpu, const struct retired *retired)
{
	struct pmu_prediction *last =
		&vcpu->pmu.predicted[!!retired->from_cpl][retired->from % PMU_PREDICTOR];
	bool known = last->from == retired->from && last->to;
	bool right = known ? last->to == retired->to : !(retired->kind & RETIRED_TAKEN);

	if (!(retired->kind & (RETIRED_CONDITIONAL | RETIRED_INDIRECT | RETIRED_RETURN)))
		return true;
	*last = (struct pmu_prediction){retired->from, retired->to};
	return right;
}
