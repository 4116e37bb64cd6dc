// SPDX-License-Identifier: MIT
/* Enumeration and the MSRs: SDM Vol 3, 18.2; CPUID leaf 0AH: SDM Vol 2. */
#include <stddef.h>

#include "monitor/pmu/rules.h"
#include "monitor/silicon.h"

#define RDPMC_FIXED	  (1u << 30)
#define RDPMC_FAST	  (1u << 31) /* of NetBurst: 32 bits */
#define RDPMC_IQ_COUNTER4 0x10	     /* of NetBurst: SDM Vol 3, table 18-63 */
#define ALL_FIXED	  ((1ull << PMU_FIXED) - 1)

enum {
	EVENTS = 7,	   /* architectural ones, in EBX: 1 is unavailable */
	NO_CACHE = 3 << 3, /* references to and misses of the last cache */
	ANY_DEPRECATED = 1 << 15,
};

static const struct performance *performance_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->profile->performance;
}

const struct pmu_rules pmu_clean = {
	.read_msr = pmu_rule_read_msr,
	.write_msr = pmu_rule_write_msr,
	.read_counter = pmu_rule_read_counter,
	.privilege = pmu_rule_privilege,
	.occurs = pmu_rule_occurs,
	.add = pmu_rule_add,
	.overflow = pmu_rule_overflow,
	.freeze = pmu_rule_freeze,
	.predict = pmu_rule_predict,
};

struct pmu_enumeration pmu_enumerate(const struct vcpu *vcpu)
{
	const struct performance *has = performance_of(vcpu);

	if (!has->version)
		return (struct pmu_enumeration){0};
	return (struct pmu_enumeration){
		.eax = has->version | (uint32_t)has->counters << 8 | (uint32_t)has->width << 16 |
		       EVENTS << 24,
		.ebx = NO_CACHE,
		.ecx = has->version >= 5 ? (uint32_t)ALL_FIXED : 0,
		.edx = PMU_FIXED | (uint32_t)has->width << 5 |
		       (has->version >= 5 ? ANY_DEPRECATED : 0),
	};
}

void pmu_power_on(struct vcpu *vcpu)
{
	const struct performance *has = performance_of(vcpu);
	uint64_t general = (1ull << has->counters) - 1;

	vcpu->pmu = (struct pmu_state){.global_control = has->version ? general : 0};
}

uint64_t pmu_bit(unsigned n)
{
	return 1ull << (n < PMU_GENERAL ? n : n - PMU_GENERAL + 32);
}

uint64_t pmu_counter_mask(const struct vcpu *vcpu)
{
	return (1ull << performance_of(vcpu)->width) - 1;
}

static uint64_t global_mask(const struct vcpu *vcpu)
{
	uint64_t general = (1ull << performance_of(vcpu)->counters) - 1;

	return general | ALL_FIXED << 32;
}

/* The bits that can be cleared, and from version 4 on set. */
static uint64_t status_mask(const struct vcpu *vcpu)
{
	uint64_t mask = global_mask(vcpu) | STATUS_OVFBUF | STATUS_CONDCHGD;

	if (performance_of(vcpu)->version >= 4)
		mask |= STATUS_CTR_FRZ | STATUS_LBR_FRZ | STATUS_ASCI | STATUS_UNCORE;
	return mask | vcpu->silicon->global_status;
}

/* AnyThread is there in versions 3 and 4: SDM Vol 3, 18.2.3. */
static bool has_any_thread(const struct vcpu *vcpu)
{
	return performance_of(vcpu)->version == 3 || performance_of(vcpu)->version == 4;
}

static uint64_t select_mask(const struct vcpu *vcpu)
{
	uint64_t mask = 0xffffffffull;

	if (!has_any_thread(vcpu))
		mask &= ~SELECT_ANY;
	if (pebs_is_adaptive(vcpu->silicon->profile))
		mask |= SELECT_ADAPTIVE;
	return mask;
}

static uint64_t fixed_mask(const struct vcpu *vcpu)
{
	uint64_t each = FIXED_OS | FIXED_USR | FIXED_PMI;

	if (has_any_thread(vcpu))
		each |= FIXED_ANY;
	if (pebs_is_adaptive(vcpu->silicon->profile))
		each |= FIXED_ADAPTIVE;
	return each | each << 4 | each << 8;
}

static bool within(uint32_t index, uint32_t first, uint32_t count)
{
	return index >= first && index - first < count;
}

/* The register of `index`, and the bits that may be set in it; NULL: no such register. */
static uint64_t *find(struct vcpu *vcpu, uint32_t index, uint64_t *mask)
{
	const struct performance *has = performance_of(vcpu);
	struct pmu_state *pmu = &vcpu->pmu;

	if (is_netburst(vcpu))
		return netburst_register(vcpu, index, mask);
	*mask = pmu_counter_mask(vcpu);
	if (within(index, MSR_PMC0, has->counters))
		return &pmu->value[index - MSR_PMC0];
	if (has->capabilities & CAPABILITY_FULL_WIDTH && within(index, MSR_A_PMC0, has->counters))
		return &pmu->value[index - MSR_A_PMC0];
	if (within(index, MSR_FIXED_CTR0, PMU_FIXED))
		return &pmu->value[PMU_GENERAL + index - MSR_FIXED_CTR0];
	*mask = select_mask(vcpu);
	if (within(index, MSR_PERFEVTSEL0, has->counters))
		return &pmu->event_select[index - MSR_PERFEVTSEL0];
	*mask = fixed_mask(vcpu);
	if (index == MSR_FIXED_CTR_CTRL)
		return &pmu->fixed_control;
	*mask = global_mask(vcpu);
	return index == MSR_PERF_GLOBAL_CTRL ? &pmu->global_control : NULL;
}

/* IA32_PERF_GLOBAL_INUSE: SDM Vol 3, 18.2.4.3. */
static uint64_t in_use(const struct vcpu *vcpu)
{
	const struct pmu_state *pmu = &vcpu->pmu;
	uint64_t value = 0;
	bool interrupt = (uint32_t)vcpu->pebs.enable; /* of the general counters */

	for (unsigned n = 0; n < PMU_COUNTERS; n++) {
		uint64_t control = n < PMU_GENERAL ? pmu->event_select[n] & 0xff
						   : pmu->fixed_control >> FIXED_SHIFT(n) & 3;

		value |= control ? pmu_bit(n) : 0;
		interrupt |= n < PMU_GENERAL ? pmu->event_select[n] & SELECT_INT
					     : pmu->fixed_control >> FIXED_SHIFT(n) & FIXED_PMI;
	}
	return value | (interrupt ? INUSE_PMI : 0);
}

bool pmu_rule_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	const struct performance *has = performance_of(vcpu);
	uint64_t mask;
	const uint64_t *at = find(vcpu, index, &mask);

	*value = at ? *at : 0;
	if (at)
		return true;
	switch (index) {
	case MSR_PERF_CAPABILITIES:
		*value = has->capabilities;
		if (pebs_behaviour_of(vcpu)->ip == PEBS_IP_OF_INSTRUCTION)
			*value &= ~(uint64_t)CAPABILITY_PEBS_TRAP;
		return has->capabilities;
	case MSR_PERF_GLOBAL_STATUS:
		*value = vcpu->pmu.global_status;
		return has->version;
	case MSR_PERF_GLOBAL_OVF_CTRL:
		return has->version;
	case MSR_PERF_GLOBAL_STATUS_SET:
		return has->version >= 4;
	case MSR_PERF_GLOBAL_INUSE:
		*value = in_use(vcpu);
		return has->version >= 4;
	default:
		return false;
	}
}

bool pmu_rule_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	const struct performance *has = performance_of(vcpu);
	uint64_t mask, *at = find(vcpu, index, &mask);

	if (has->version && index == MSR_PERF_GLOBAL_OVF_CTRL) {
		if (value & ~status_mask(vcpu))
			return false;
		vcpu->pmu.global_status &= ~value;
		return true;
	}
	/* Table 35-2: CondChgd can be cleared alone. */
	if (index == MSR_PERF_GLOBAL_STATUS_SET && value & STATUS_CONDCHGD)
		return false;
	if (has->version >= 4 && index == MSR_PERF_GLOBAL_STATUS_SET) {
		if (value & ~status_mask(vcpu))
			return false;
		vcpu->pmu.global_status |= value;
		return true;
	}
	if (!at)
		return false;
	/* SDM Vol 3, 18.2.5: only bits 31:0 of a general counter are written by its old address,
	   and bit 31 is extended. */
	if (within(index, MSR_PMC0, has->counters))
		value = (uint64_t)(int64_t)(int32_t)value & mask;
	if (value & ~mask)
		return false;
	*at = value;
	return true;
}

bool pmu_rule_read_counter(struct vcpu *vcpu, uint32_t selector, uint64_t *value)
{
	uint32_t n = selector & ~RDPMC_FIXED;
	bool fixed = selector & RDPMC_FIXED;

	if (is_netburst(vcpu)) {
		*value = vcpu->pmu.value[0] & (selector & RDPMC_FAST ? UINT32_MAX : UINT64_MAX);
		return (selector & ~RDPMC_FAST) == RDPMC_IQ_COUNTER4;
	}
	if (n >= (fixed ? PMU_FIXED : performance_of(vcpu)->counters))
		return false;
	*value = vcpu->pmu.value[fixed ? PMU_GENERAL + n : n];
	return true;
}

bool pmu_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	pmu_tick(vcpu);
	return vcpu->silicon->pmu.read_msr(vcpu, index, value);
}

bool pmu_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	pmu_tick(vcpu);
	return vcpu->silicon->pmu.write_msr(vcpu, index, value);
}

bool pmu_read_counter(struct vcpu *vcpu, uint32_t selector, uint64_t *value)
{
	pmu_tick(vcpu);
	return vcpu->silicon->pmu.read_counter(vcpu, selector, value);
}
