// SPDX-License-Identifier: MIT
/* The MSRs of PEBS. */
#include <stddef.h>

#include "monitor/pebs/rules.h"
#include "monitor/silicon.h"

const struct pebs_rules pebs_clean = {
	.read_msr = pebs_rule_read_msr,
	.write_msr = pebs_rule_write_msr,
	.arms = pebs_rule_arms,
	.sample = pebs_rule_sample,
	.record = pebs_rule_record,
	.room = pebs_rule_room,
	.advance = pebs_rule_advance,
	.reload = pebs_rule_reload,
	.clear_status = pebs_rule_clear_status,
	.threshold = pebs_rule_threshold,
	.interrupt = pebs_rule_interrupt,
};

bool pebs_present(const struct vcpu *vcpu)
{
	return (vcpu->silicon->profile->performance.capabilities || is_netburst(vcpu)) &&
	       pebs_behaviour_of(vcpu)->available == PEBS_AVAILABLE;
}

/* Table 18-10 and figure 18-21: one counter, then four with load latency each; from format 4 on
   every general counter, and with PEBS_BASELINE the fixed ones from bit 32. */
uint64_t pebs_enable_mask(const struct vcpu *vcpu)
{
	const uint64_t fixed = ((1ull << PMU_FIXED) - 1) << 32;

	if (is_netburst(vcpu))
		return NETBURST_ENABLE_MASK;
	switch (pebs_format(vcpu->silicon->profile)) {
	case 0:
		return 1;
	case 1:
	case 2:
	case 3:
		return 0xf0000000full;
	default:
		return ((1ull << vcpu->silicon->profile->performance.counters) - 1) |
		       (pebs_is_adaptive(vcpu->silicon->profile) ? fixed : 0);
	}
}

/* NetBurst: by bit 25, ENABLE_PEBS_MY_THR (tables 18-71 and 35-41; 18.15.7.3 says bit 24). */
bool pebs_enabled(const struct vcpu *vcpu, unsigned n)
{
	return vcpu->pebs.enable & (is_netburst(vcpu) ? NETBURST_MY_THREAD : pmu_bit(n));
}

/* The register of `index`, and what may be set in it. */
static uint64_t *find(struct vcpu *vcpu, uint32_t index, uint64_t *mask)
{
	unsigned format = pebs_format(vcpu->silicon->profile);

	*mask = pebs_enable_mask(vcpu);
	if (!pebs_present(vcpu))
		return NULL;
	if (index == MSR_PEBS_ENABLE)
		return &vcpu->pebs.enable;
	*mask = MATRIX_VERT_MASK;
	if (index == MSR_PEBS_DATA_CFG && is_netburst(vcpu))
		return &vcpu->pebs.data_cfg;
	*mask = LD_LAT_MASK;
	if (index == MSR_PEBS_LD_LAT && format)
		return &vcpu->pebs.latency;
	*mask = FRONTEND_MASK;
	if (index == MSR_PEBS_FRONTEND)
		return format >= 3 ? &vcpu->pebs.frontend : NULL;
	*mask = CFG_MASK;
	return index == MSR_PEBS_DATA_CFG && pebs_is_adaptive(vcpu->silicon->profile)
		       ? &vcpu->pebs.data_cfg
		       : NULL;
}

bool pebs_rule_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	uint64_t mask;
	const uint64_t *at = find((struct vcpu *)vcpu, index, &mask);

	*value = at ? *at : 0;
	return at;
}

/* A counter that is no longer enabled is no longer armed. */
bool pebs_rule_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	uint64_t mask, *at = find(vcpu, index, &mask);

	if (!at || value & ~mask)
		return false;
	*at = value;
	for (unsigned n = 0; n < PMU_COUNTERS; n++)
		if (!pebs_enabled(vcpu, n))
			vcpu->pebs.armed &= (uint16_t) ~(1u << n);
	return true;
}

bool pebs_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	return vcpu->silicon->pebs.read_msr(vcpu, index, value);
}

bool pebs_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	return vcpu->silicon->pebs.write_msr(vcpu, index, value);
}
