// SPDX-License-Identifier: MIT
/* When a counter is armed, and what the assist does: SDM Vol 3, 18.4.2, 18.4.4 and 18.8.1.1. */
#include "monitor/ds/memory.h"
#include "monitor/pebs/rules.h"
#include "monitor/silicon.h"

enum { PDIR_EVENT = 0x01c0, SKID_EVENTS = 3, SKIDS = 8 };

static const struct pebs_rules *rules_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->pebs;
}

/* The event must be a precise one of this counter; with PEBS_BASELINE any is. */
bool pebs_rule_arms(const struct vcpu *vcpu, unsigned n)
{
	const struct pmu_event *event = pmu_event_of(vcpu, n);

	if (!pebs_enabled(vcpu, n) || !event)
		return false;
	if (pebs_is_adaptive(vcpu->silicon->profile))
		return true;
	return n < PMU_GENERAL && event->precise >> n & 1 &&
	       (event->kind != EVENT_LATENCY || vcpu->pebs.enable >> 32 & 1u << n);
}

bool pebs_arms(const struct vcpu *vcpu, unsigned n)
{
	return rules_of(vcpu)->arms(vcpu, n);
}

/* "Precise Distribution of Instructions Retired": 18.9.4.4; with PEBS_BASELINE fixed counter 0. */
static bool is_distributed(const struct vcpu *vcpu, unsigned n)
{
	const struct pmu_event *event = pmu_event_of(vcpu, n);

	return n == PMU_GENERAL || (n == 1 && event && event->code == PDIR_EVENT);
}

/* Cycles are no event of an instruction: they are sampled late in any case. */
static unsigned skid(struct vcpu *vcpu, unsigned n)
{
	const struct pmu_event *event = pmu_event_of(vcpu, n);
	bool cycles = event && event->kind == EVENT_CYCLES;

	if (pebs_behaviour_of(vcpu)->skid == PEBS_SKID_NONE || cycles || is_distributed(vcpu, n))
		return 0;
	if (pebs_behaviour_of(vcpu)->skid == PEBS_SKID_VARIES)
		return vcpu->pebs.turn++ * 5 % SKIDS;
	return SKID_EVENTS;
}

void pebs_overflow(struct vcpu *vcpu, unsigned n)
{
	if (!pebs_arms(vcpu, n))
		return;
	vcpu->pebs.armed |= (uint16_t)(1u << n);
	vcpu->pebs.skid[n] = (uint8_t)skid(vcpu, n);
}

bool pebs_take(struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	uint16_t armed = vcpu->pebs.armed & (uint16_t)(1u << n);

	if (armed && vcpu->pebs.skid[n]) {
		vcpu->pebs.skid[n]--;
		return false;
	}
	/* First, since the interrupt that follows looks at the counters again. */
	vcpu->pebs.armed &= (uint16_t)~armed;
	if (armed && rules_of(vcpu)->sample(vcpu, n, retired))
		return true;
	vcpu->pebs.armed |= armed;
	return false;
}

bool pebs_rule_room(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS], unsigned bytes)
{
	(void)vcpu;
	return field[PEBS_INDEX] >= field[PEBS_BASE] && field[PEBS_MAXIMUM] >= bytes &&
	       field[PEBS_INDEX] <= field[PEBS_MAXIMUM] - bytes;
}

uint64_t pebs_rule_advance(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS],
			   unsigned bytes)
{
	(void)vcpu;
	return field[PEBS_INDEX] + bytes;
}

/* Formats 0 to 2 of one counter have one value; fixed counters follow eight general ones. */
unsigned pebs_reset_offset(const struct vcpu *vcpu, unsigned n)
{
	(void)vcpu;
	return n < PMU_GENERAL ? PEBS_RESET + n * 8 : PEBS_RESET_FIXED + (n - PMU_GENERAL) * 8;
}

void pebs_rule_reload(struct vcpu *vcpu, unsigned n)
{
	uint64_t value;

	if (ds_load(vcpu, &vcpu->ds.seen.area, vcpu->ds.ds_area + pebs_reset_offset(vcpu, n),
		    &value, 1))
		vcpu->pmu.value[n] = value & pmu_counter_mask(vcpu);
}

void pebs_rule_clear_status(struct vcpu *vcpu, unsigned n)
{
	vcpu->pmu.global_status &= ~pmu_bit(n);
}

bool pebs_rule_threshold(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS])
{
	bool crossed_only = pebs_behaviour_of(vcpu)->trigger == PEBS_CROSSED;

	return crossed_only ? field[PEBS_INDEX] == field[PEBS_THRESHOLD]
			    : field[PEBS_INDEX] >= field[PEBS_THRESHOLD];
}

void pebs_rule_interrupt(struct vcpu *vcpu)
{
	pmu_buffer_overflow(vcpu);
	platform_performance_interrupt(vcpu);
}

/* Without room everything is skipped: 18.4.2. The index is in memory before the counter runs
   again. */
bool pebs_rule_sample(struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	const struct pebs_rules *rules = rules_of(vcpu);
	uint64_t area = vcpu->ds.ds_area + PEBS_AREA;
	uint64_t field[PEBS_FIELDS], record[PEBS_MOST_WORDS];
	unsigned words;

	ds_refresh(vcpu);
	words = rules->record(vcpu, n, retired, record);
	if (!ds_load(vcpu, &vcpu->ds.seen.area, area, field, PEBS_FIELDS))
		return false;
	if (!rules->room(vcpu, field, words * 8)) {
		if (pebs_behaviour_of(vcpu)->full == PEBS_FULL_SAYS_SO)
			pmu_buffer_overflow(vcpu);
		else if (pebs_behaviour_of(vcpu)->full == PEBS_FULL_INTERRUPTS)
			rules->interrupt(vcpu);
		return false;
	}
	if (!ds_store(vcpu, &vcpu->ds.seen.buffer, field[PEBS_INDEX], record, words))
		return false;
	field[PEBS_INDEX] = rules->advance(vcpu, field, words * 8);
	ds_store(vcpu, &vcpu->ds.seen.area, area + PEBS_INDEX * 8, &field[PEBS_INDEX], 1);
	rules->clear_status(vcpu, n);
	rules->reload(vcpu, n);
	if (rules->threshold(vcpu, field))
		rules->interrupt(vcpu);
	return true;
}
