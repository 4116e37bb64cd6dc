// SPDX-License-Identifier: MIT
/*
 * The one counter of NetBurst that takes samples: IQ_COUNTER4 with IQ_CCCR4 and CRU_ESCR2, for
 * execution_event, of which every instruction here is one tagged micro-operation that is not bogus.
 * SDM Vol 3, 18.15.
 */
#include <stddef.h>

#include "monitor/pmu/rules.h"

enum { MSR_IQ_COUNTER4 = 0x310, MSR_IQ_CCCR4 = 0x370, MSR_CRU_ESCR2 = 0x3cc };

/* CCCR: figure 18-44. */
#define CCCR_ENABLE	(1ull << 12)
#define CCCR_SELECT(c)	((c) >> 13 & 7)
#define CCCR_THREADS(c) ((c) >> 16 & 3)
#define CCCR_OVF_PMI	(1ull << 26)
#define CCCR_OVF	(1ull << 31)
#define CCCR_MASK	0xcffff000ull
/* ESCR: figure 18-42. */
#define ESCR_USR      (1ull << 2)
#define ESCR_OS	      (1ull << 3)
#define ESCR_EVENT(e) ((e) >> 25 & 0x3f)
#define ESCR_NBOGUS   (0xfull << 9)
#define ESCR_MASK     0x7ffffffcull

enum { EXECUTION_EVENT = 0x0c, ESCR_OF_CRU = 5, ACTIVE_THREADS = 3 };

uint64_t *netburst_register(struct vcpu *vcpu, uint32_t index, uint64_t *mask)
{
	*mask = pmu_counter_mask(vcpu);
	if (index == MSR_IQ_COUNTER4)
		return &vcpu->pmu.value[0];
	*mask = CCCR_MASK;
	if (index == MSR_IQ_CCCR4)
		return &vcpu->pmu.cccr;
	*mask = ESCR_MASK;
	return index == MSR_CRU_ESCR2 ? &vcpu->pmu.escr : NULL;
}

bool netburst_runs(const struct vcpu *vcpu)
{
	uint64_t cccr = vcpu->pmu.cccr, escr = vcpu->pmu.escr;

	return cccr & CCCR_ENABLE && CCCR_SELECT(cccr) == ESCR_OF_CRU &&
	       CCCR_THREADS(cccr) == ACTIVE_THREADS && ESCR_EVENT(escr) == EXECUTION_EVENT &&
	       escr & ESCR_NBOGUS;
}

bool netburst_counts(const struct vcpu *vcpu, unsigned cpl)
{
	return vcpu->pmu.escr & (cpl ? ESCR_USR : ESCR_OS);
}

bool netburst_interrupts(const struct vcpu *vcpu)
{
	return vcpu->pmu.cccr & CCCR_OVF_PMI;
}

void netburst_overflow(struct vcpu *vcpu)
{
	vcpu->pmu.cccr |= CCCR_OVF;
}
