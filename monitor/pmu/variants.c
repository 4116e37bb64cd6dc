// SPDX-License-Identifier: MIT
/* What processors differ in: enumeration, and the points of struct pmu_behaviour with their
   choices, by the words of vbts=. */
#include <stddef.h>

#include "monitor/pmu/rules.h"
#include "monitor/silicon.h"
#include "monitor/unit.h"

enum { LEAF_FEATURES = 1, LEAF_PERFORMANCE = 0xa };
#define PDCM (1u << 15) /* ECX */

#define POINT(text, field) .name = text, .offset = offsetof(struct pmu_behaviour, field)

void pmu_make(struct silicon *silicon)
{
	silicon->pmu = pmu_clean;
}

void pmu_cpuid(const struct vcpu *vcpu, uint32_t leaf, uint32_t subleaf, uint32_t value[4])
{
	(void)subleaf;
	if (leaf == LEAF_FEATURES) {
		value[2] &= ~PDCM;
		value[2] |= vcpu->silicon->profile->performance.capabilities ? PDCM : 0;
	} else if (leaf == LEAF_PERFORMANCE) {
		struct pmu_enumeration found = pmu_enumerate(vcpu);

		value[0] = found.eax;
		value[1] = found.ebx;
		value[2] = found.ecx;
		value[3] = found.edx;
	}
}

const struct point pmu_points[] = {
	{POINT("counted", counted),
	 .choices = {{"source", "an instruction counts at the CPL where it began"},
		     {"target", "an instruction counts at the CPL that it leads to"}}},
	{POINT("core-clock", core),
	 .choices = {{"tsc", "the core's clock is the TSC's"},
		     {"turbo", "two core cycles pass in each cycle of the TSC"},
		     {"slow", "a core cycle takes 64 cycles of the TSC"}}},
	{POINT("reference", reference),
	 .choices = {{"each", "the fixed counter of reference cycles counts one by one"},
		     {"coarse", "it counts 2^20 of them at once, when they are over"}}},
	{POINT("pmi-late", late),
	 .choices = {{"0", "a counter's interrupt follows its overflow at once"},
		     {"100", "in ring 0 it is a hundred instructions late"}}},
	{.name = NULL},
};
