/* SPDX-License-Identifier: MIT */
/* The parts of a processor, unchanged while it runs; kinds= makes a second one. */
#pragma once

#include "monitor/ds/rules.h"
#include "monitor/lbr/rules.h"
#include "monitor/pebs/rules.h"
#include "monitor/pmu/rules.h"
#include "monitor/profile.h"
#include "monitor/pt/rules.h"

struct hypervisor;

/* Of struct silicon: a defect leaves these ways to ring 3 unnoticed. */
enum { UNNOTICED_SYSRET = 1 << 0, UNNOTICED_IRET = 1 << 1 };

/* What each unit does where the manual leaves a choice; all zero is the default. */
struct behaviour {
#define UNIT_BEHAVIOUR(name) struct name##_behaviour name;
	EACH_UNIT(UNIT_BEHAVIOUR)
};

struct silicon {
	const struct profile *profile;
	const struct hypervisor *hypervisor; /* of a rehearsal; NULL: the monitor is no other */
	bool interpreted;		     /* it never runs natively */
	bool native_ring_0;		     /* struct vcpu has one of this name */
	unsigned unnoticed;
	struct behaviour behaviour;
	struct ds_silicon ds;
	struct pmu_rules pmu;
	struct pebs_rules pebs;
	struct pt_rules pt;
	struct lbr_rules lbr;
	const struct pt_enumeration *has_pt; /* NULL: no Intel Processor Trace */
	/* What a unit that is added brings with it. */
	uint32_t last_leaf;	/* CPUID.0:EAX */
	uint8_t ratio;		/* of TSC to bus clock: MSR_PLATFORM_INFO; 0: not said */
	bool crystal;		/* CPUID leaf 15H has that of TSC to crystal */
	uint64_t global_status; /* bits of IA32_PERF_GLOBAL_STATUS that no counter sets */
	uint8_t physical_bits;	/* MAXPHYADDR */
	bool tells_stack;	/* stack=on */
	uint8_t core_type;	/* CPUID.1AH:EAX[31:24]; 0: all processors are of one kind */
};

static inline const struct ds_behaviour *ds_behaviour_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->behaviour.ds;
}

static inline const struct pebs_behaviour *pebs_behaviour_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->behaviour.pebs;
}

static inline const struct pmu_behaviour *pmu_behaviour_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->behaviour.pmu;
}

static inline const struct pt_behaviour *pt_behaviour_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->behaviour.pt;
}

static inline const struct lbr_behaviour *lbr_behaviour_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->behaviour.lbr;
}

/* NULL: there is none. */
static inline const struct pt_enumeration *pt_of(const struct vcpu *vcpu)
{
	return vcpu->silicon->has_pt;
}

static inline const struct ds_layout *ds_layout_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->profile->layout;
}

static inline const struct ds_rules *ds_rules_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->ds.rules;
}
