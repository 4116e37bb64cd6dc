// SPDX-License-Identifier: MIT
/* What processors differ in: enumeration, and the points of struct pmu_behaviour with their
   choices, by the words of vbts=; the unit's row. */
#include <stddef.h>

#include "monitor/pmu/rules.h"
#include "monitor/silicon.h"
#include "monitor/unit.h"

enum { LEAF_FEATURES = 1, LEAF_PERFORMANCE = 0xa };
#define PDCM (1u << 15) /* ECX */

#define POINT(text, field) .name = text, .offset = offsetof(struct pmu_behaviour, field)

static void make(struct silicon *silicon)
{
	silicon->pmu = pmu_clean;
}

static void show(const struct vcpu *vcpu, uint32_t leaf, uint32_t subleaf, uint32_t value[4])
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

/* Cycles that are counted end with HLT. */
static unsigned exits(const struct vcpu *vcpu)
{
	return vcpu->pmu.cycles ? EXIT_AT_HLT : 0;
}

static void forget(struct vcpu *vcpu)
{
	vcpu->pmu.masked = false;
}

static const struct point points[] = {
	{POINT("counted", counted),
	 .choices = {{"source", "an instruction counts at the CPL where it began"},
		     {"target", "an instruction counts at the CPL that it leads to"}}},
	{POINT("interrupts", events),
	 .choices = {{"uncounted", "no counter counts interrupts and exceptions"},
		     {"counted", "they count as instructions and branches"}}},
	{POINT("core-clock", core),
	 .choices = {{"tsc", "the core's clock is the TSC's"},
		     {"turbo", "two core cycles pass in each cycle of the TSC"},
		     {"slow", "a core cycle takes 64 cycles of the TSC"}}},
	{POINT("reference", reference),
	 .choices = {{"each", "the fixed counter of reference cycles counts one by one"},
		     {"coarse", "it counts 2^20 of them at once, when they are over"}}},
	{POINT("pmi-late", late),
	 .choices = {{"0", "a counter's interrupt follows its overflow at once"},
		     {"100", "in ring 0 it is a hundred instructions late"},
		     {"anywhere", "it is a hundred instructions of any ring late"}}},
	{POINT("edge", edge), .choices = {{"detected", "E detects edges where CMASK is 0 too"},
					  {"ignored", "a counter whose CMASK is 0 ignores E"}}},
	{.name = NULL},
};

/* And what follows the last counter: it raises #GP here, and might not on the processor underneath.
 */
static const struct msr_range msrs[] = {
	{0xc1, 0xc9},	/* IA32_PMC0.. */
	{0x186, 0x18e}, /* IA32_PERFEVTSEL0.. */
	{0x309, 0x30c}, /* IA32_FIXED_CTR0.. */
	{0x310, 0x310}, /* MSR_IQ_COUNTER4 */
	{0x345, 0x345}, /* IA32_PERF_CAPABILITIES */
	{0x370, 0x370}, /* MSR_IQ_CCCR4 */
	{0x38d, 0x392}, /* IA32_FIXED_CTR_CTRL to IA32_PERF_GLOBAL_INUSE */
	{0x3cc, 0x3cc}, /* MSR_CRU_ESCR2 */
	{0x4c1, 0x4c9}, /* IA32_A_PMC0.. */
	{0},
};

const struct unit pmu_unit = {
	.name = "pmu",
	.make = make,
	.stop = pmu_stop,
	.msrs = msrs,
	.read_msr = pmu_read_msr,
	.write_msr = pmu_write_msr,
	.written = pmu_update,
	.cpuid = show,
	.power_on = pmu_power_on,
	.reset = pmu_update,
	.levels = pmu_levels,
	.event = pmu_event,
	.retired = pmu_retired,
	.read_counter = pmu_read_counter,
	.pass = pmu_pass,
	.wait = pmu_wait,
	.deadline = pmu_deadline,
	.tick = pmu_tick,
	.unmasked = pmu_unmasked,
	.awaits_unmasking = pmu_awaits_unmasking,
	.interrupted = pmu_interrupted,
	.exits = exits,
	.forget = forget,
	.points = points,
	.behaviour = offsetof(struct behaviour, pmu),
};
