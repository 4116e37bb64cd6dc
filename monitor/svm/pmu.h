/* SPDX-License-Identifier: MIT */
/*
 * Architectural performance monitoring, version 2 or 3 (SDM Vol 3, 18.2): registers that keep what
 * is written to them. They count nothing: CPUID leaf 0AH says that no event is available.
 */
#ifndef SPOOR_MONITOR_SVM_PMU_H
#define SPOOR_MONITOR_SVM_PMU_H

#include <stdbool.h>
#include <stdint.h>

#define PMU_GENERAL 4 /* the most that a profile has */
#define PMU_FIXED   3

struct pmu {
	unsigned version, general, width; /* as CPUID leaf 0AH says; version 0: no MSRs */
	uint64_t event_select[PMU_GENERAL], counter[PMU_GENERAL], fixed[PMU_FIXED];
	uint64_t fixed_control, global_control, global_status;
};

/* One of the MSRs below: False where it is not of the PMU. */
bool pmu_owns_msr(uint32_t index);

/* The Debug Store's buffer reached its threshold: OvfBuf of IA32_PERF_GLOBAL_STATUS is set. */
void pmu_buffer_overflow(struct pmu *pmu);

/* False: #GP(0). */
bool pmu_read_msr(const struct pmu *pmu, uint32_t index, uint64_t *value);
bool pmu_write_msr(struct pmu *pmu, uint32_t index, uint64_t value);
bool pmu_read_counter(const struct pmu *pmu, uint32_t selector, uint64_t *value); /* RDPMC */

#endif
