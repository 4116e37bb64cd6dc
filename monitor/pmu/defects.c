// SPDX-License-Identifier: MIT
/* Counters: SDM Vol 3, 17.4.7 and 18.2. */
#include "monitor/defect.h"

#include "monitor/pmu/rules.h"

/* `events` events where the clean rule sees one. */
#define OCCURS(name, rule, says, events)                                                           \
	static unsigned name(const struct vcpu *vcpu, unsigned n, const struct retired *retired)   \
	{                                                                                          \
		return pmu_clean.occurs(vcpu, n, retired) ? (events) : 0;                          \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS_COUNTERS(occurs, name))

static bool counts_branches(const struct vcpu *vcpu, unsigned n)
{
	return pmu_event_of(vcpu, n)->has & RETIRED_BRANCH;
}

OCCURS(counts_taken_only, "SDM Vol 3, 18.2 and table 18-1",
       "a branch that is not taken is not counted",
       !counts_branches(vcpu, n) || retired->kind & RETIRED_TAKEN)
OCCURS(counts_near_only, "SDM Vol 3, 18.2 and table 18-1",
       "far branches are not counted as branches",
       !counts_branches(vcpu, n) || !(retired->kind & RETIRED_FAR))
OCCURS(counts_calls_twice, "SDM Vol 3, 18.2 and table 18-1", "a call counts as two instructions",
       retired->kind &RETIRED_CALL && !counts_branches(vcpu, n) ? 2 : 1)
OCCURS(counts_no_far_instruction, "SDM Vol 3, 18.2 and table 18-1",
       "CALL and RET are not counted as instructions",
       !(retired->kind & (RETIRED_CALL | RETIRED_RETURN)) || counts_branches(vcpu, n))
OCCURS(fixed_skips_branches, "SDM Vol 3, 18.2.2",
       "fixed counter 0 does not count instructions that branch",
       n < PMU_GENERAL || !(retired->kind & RETIRED_BRANCH))

/* The counter may count at this level if `condition` holds. */
#define PRIVILEGE(name, rule, says, condition)                                                     \
	static bool name(const struct vcpu *vcpu, unsigned n, unsigned cpl)                        \
	{                                                                                          \
		return (condition);                                                                \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS_COUNTERS(privilege, name))

PRIVILEGE(counts_every_level, "SDM Vol 3, 18.2.1.1", "OS and USR each count both privilege levels",
	  pmu_clean.privilege(vcpu, n, cpl) || pmu_clean.privilege(vcpu, n, cpl ? 0 : 3))
PRIVILEGE(counts_other_level, "SDM Vol 3, 18.2.1.1", "OS counts ring 3, and USR the kernel",
	  pmu_clean.privilege(vcpu, n, cpl ? 0 : 3))
PRIVILEGE(counts_user_with_os, "SDM Vol 3, 18.2.1.1", "USR counts only where OS is set as well",
	  pmu_clean.privilege(vcpu, n, cpl) && (!cpl || pmu_clean.privilege(vcpu, n, 0)))

static bool overflow_one_early(struct vcpu *vcpu, unsigned n, uint64_t count)
{
	bool overflowed = pmu_clean.add(vcpu, n, count);

	return overflowed || vcpu->pmu.value[n] == pmu_counter_mask(vcpu);
}
DEFECT(overflow_one_early, "SDM Vol 3, 18.4.4", "a counter overflows when all its bits are set",
       BREAKS_COUNTERS(add, overflow_one_early))

static bool overflow_stays_at_most(struct vcpu *vcpu, unsigned n, uint64_t count)
{
	if (!pmu_clean.add(vcpu, n, count))
		return false;
	vcpu->pmu.value[n] = pmu_counter_mask(vcpu);
	return true;
}
DEFECT(overflow_stays_at_most, "SDM Vol 3, 18.2.2", "a counter that overflows stops at its most",
       BREAKS_COUNTERS(add, overflow_stays_at_most))

static void overflow_without_status(struct vcpu *vcpu, unsigned n)
{
	uint64_t status = vcpu->pmu.global_status;

	pmu_clean.overflow(vcpu, n);
	vcpu->pmu.global_status = status;
}
DEFECT(overflow_without_status, "SDM Vol 3, 18.2.2", "an overflow does not show in the status",
       BREAKS_COUNTERS(overflow, overflow_without_status))

static void overflow_of_next(struct vcpu *vcpu, unsigned n)
{
	uint64_t status = vcpu->pmu.global_status;

	pmu_clean.overflow(vcpu, n);
	vcpu->pmu.global_status = status | pmu_bit(n) << 1;
}
DEFECT(overflow_of_next, "SDM Vol 3, 18.2.2", "an overflow sets the status bit of the next counter",
       BREAKS_COUNTERS(overflow, overflow_of_next))

static void overflow_without_interrupt(struct vcpu *vcpu, unsigned n)
{
	vcpu->pmu.global_status |= pmu_bit(n);
}
DEFECT(overflow_without_interrupt, "SDM Vol 3, 18.2", "no overflow interrupts or takes a sample",
       BREAKS_COUNTERS(overflow, overflow_without_interrupt))

static bool status_cleared_whole(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (!pmu_clean.write_msr(vcpu, index, value))
		return false;
	if (index == MSR_PERF_GLOBAL_OVF_CTRL)
		vcpu->pmu.global_status = 0;
	return true;
}
DEFECT(status_cleared_whole, "SDM Vol 3, 18.2.2",
       "a write of IA32_PERF_GLOBAL_OVF_CTRL clears every status bit",
       BREAKS_COUNTERS(write_msr, status_cleared_whole))

static bool counter_not_extended(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (!pmu_clean.write_msr(vcpu, index, value))
		return false;
	if (index >= MSR_PMC0 && index < MSR_PMC0 + PMU_GENERAL)
		vcpu->pmu.value[index - MSR_PMC0] = (uint32_t)value;
	return true;
}
DEFECT(counter_not_extended, "SDM Vol 3, 18.2.5", "a write of a counter clears its upper bits",
       BREAKS_COUNTERS(write_msr, counter_not_extended))

static bool global_takes_reserved(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	return pmu_clean.write_msr(vcpu, index, value) || index == MSR_PERF_GLOBAL_CTRL;
}
DEFECT(global_takes_reserved, "SDM Vol 3, 18.2.2",
       "reserved bits of IA32_PERF_GLOBAL_CTRL are ignored",
       BREAKS_COUNTERS(write_msr, global_takes_reserved))

static bool rdpmc_12_bits(struct vcpu *vcpu, uint32_t selector, uint64_t *value)
{
	bool done = pmu_clean.read_counter(vcpu, selector, value);

	*value &= 0xfff;
	return done;
}
DEFECT(rdpmc_12_bits, "SDM Vol 3, 18.2.5", "RDPMC reads twelve bits",
       BREAKS_COUNTERS(read_counter, rdpmc_12_bits))

static void freeze_ignored(struct vcpu *vcpu)
{
	(void)vcpu;
}
DEFECT(freeze_ignored, "SDM Vol 3, 17.4.7", "an interrupt freezes nothing",
       BREAKS_COUNTERS(freeze, freeze_ignored))

static void freeze_keeps_control(struct vcpu *vcpu)
{
	uint64_t control = vcpu->pmu.global_control;

	pmu_clean.freeze(vcpu);
	vcpu->pmu.global_control = control;
}
DEFECT_ON("broadwell", freeze_keeps_control, "SDM Vol 3, 17.4.7",
	  "freezing leaves IA32_PERF_GLOBAL_CTRL set before version 4 too",
	  BREAKS_COUNTERS(freeze, freeze_keeps_control))

static bool predicts_never(struct vcpu *vcpu, const struct retired *retired)
{
	(void)vcpu;
	(void)retired;
	return false;
}
DEFECT(predicts_never, "SDM Vol 3, 18.2 and table 18-1", "every branch counts as mispredicted",
       BREAKS_COUNTERS(predict, predicts_never))

static bool predicts_always(struct vcpu *vcpu, const struct retired *retired)
{
	(void)vcpu;
	(void)retired;
	return true;
}
DEFECT(predicts_always, "SDM Vol 3, 18.2 and table 18-1", "no branch counts as mispredicted",
       BREAKS_COUNTERS(predict, predicts_always))

/* What holds its MSRs and does nothing. */

static bool adds_nothing(struct vcpu *vcpu, unsigned n, uint64_t count)
{
	(void)vcpu, (void)n, (void)count;
	return false;
}

void pmu_stop(struct silicon *silicon)
{
	silicon->pmu.add = adds_nothing;
}
