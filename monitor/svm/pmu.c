/* SPDX-License-Identifier: MIT */
#include "monitor/svm/pmu.h"

#include <stddef.h>

enum {
	MSR_PMC0 = 0xc1,
	MSR_PERFEVTSEL0 = 0x186,
	MSR_FIXED_CTR0 = 0x309,
	MSR_FIXED_CTR_CTRL = 0x38d,
	MSR_PERF_GLOBAL_STATUS = 0x38e,
	MSR_PERF_GLOBAL_CTRL = 0x38f,
	MSR_PERF_GLOBAL_OVF_CTRL = 0x390,
};

#define EVENT_SELECT_MASK  0xffffffffull
#define FIXED_CONTROL_MASK 0xbbbull
#define FIXED_ANY_THREAD   0x444ull /* from version 3 on */
#define FIXED_MASK	   ((1ull << PMU_FIXED) - 1)
#define OVERFLOW_BUFFER	   (1ull << 62)
#define OVERFLOW_MASK	   (3ull << 62) /* OvfBuf, CondChgd */
#define RDPMC_FIXED	   (1u << 30)

static bool within(uint32_t index, uint32_t first, uint32_t count)
{
	return index >= first && index - first < count;
}

static uint64_t global_mask(const struct pmu *pmu)
{
	return ((1ull << pmu->general) - 1) | FIXED_MASK << 32;
}

/* The register behind `index` and the bits that may be set in it; NULL without storage. */
static uint64_t *find(struct pmu *pmu, uint32_t index, uint64_t *mask)
{
	*mask = (1ull << pmu->width) - 1;
	if (within(index, MSR_PMC0, pmu->general))
		return &pmu->counter[index - MSR_PMC0];
	if (within(index, MSR_FIXED_CTR0, PMU_FIXED))
		return &pmu->fixed[index - MSR_FIXED_CTR0];
	*mask = EVENT_SELECT_MASK;
	if (within(index, MSR_PERFEVTSEL0, pmu->general))
		return &pmu->event_select[index - MSR_PERFEVTSEL0];
	*mask = FIXED_CONTROL_MASK | (pmu->version > 2 ? FIXED_ANY_THREAD : 0);
	if (index == MSR_FIXED_CTR_CTRL)
		return &pmu->fixed_control;
	*mask = global_mask(pmu);
	if (index == MSR_PERF_GLOBAL_CTRL)
		return &pmu->global_control;
	return NULL;
}

bool pmu_owns_msr(uint32_t index)
{
	return within(index, MSR_PMC0, PMU_GENERAL) ||
	       within(index, MSR_PERFEVTSEL0, PMU_GENERAL) ||
	       within(index, MSR_FIXED_CTR0, PMU_FIXED) ||
	       within(index, MSR_FIXED_CTR_CTRL, MSR_PERF_GLOBAL_OVF_CTRL - MSR_FIXED_CTR_CTRL + 1);
}

bool pmu_read_msr(const struct pmu *pmu, uint32_t index, uint64_t *value)
{
	uint64_t mask;
	const uint64_t *at = find((struct pmu *)pmu, index, &mask);

	if (!pmu->version)
		return false;
	if (index == MSR_PERF_GLOBAL_STATUS)
		at = &pmu->global_status;
	*value = at ? *at : 0;
	return at || index == MSR_PERF_GLOBAL_OVF_CTRL;
}

void pmu_buffer_overflow(struct pmu *pmu)
{
	pmu->global_status |= OVERFLOW_BUFFER;
}

bool pmu_write_msr(struct pmu *pmu, uint32_t index, uint64_t value)
{
	uint64_t mask, *at = find(pmu, index, &mask);

	if (!pmu->version)
		return false;
	if (index == MSR_PERF_GLOBAL_OVF_CTRL) {
		if (value & ~(global_mask(pmu) | OVERFLOW_MASK))
			return false;
		pmu->global_status &= ~value;
		return true;
	}
	if (!at)
		return false;
	/* SDM Vol 3, 18.2.5: without full-width writes only bits 31:0 of a general counter are
	   written, and bit 31 is extended. */
	if (within(index, MSR_PMC0, pmu->general))
		value = (uint64_t)(int64_t)(int32_t)value & mask;
	if (value & ~mask)
		return false;
	*at = value;
	return true;
}

bool pmu_read_counter(const struct pmu *pmu, uint32_t selector, uint64_t *value)
{
	uint32_t index = selector & ~RDPMC_FIXED;

	if (selector & RDPMC_FIXED ? index >= PMU_FIXED : index >= pmu->general)
		return false;
	*value = selector & RDPMC_FIXED ? pmu->fixed[index] : pmu->counter[index];
	return true;
}
