/* SPDX-License-Identifier: MIT */
/* The parts of a processor, unchanged while it runs; kinds= makes a second one. */
#ifndef SPOOR_MONITOR_SILICON_H
#define SPOOR_MONITOR_SILICON_H

#include "monitor/ds/rules.h"
#include "monitor/pebs/rules.h"
#include "monitor/pmu/rules.h"
#include "monitor/present.h"
#include "monitor/profile.h"
#include "monitor/pt/rules.h"

/* Of struct silicon: a defect leaves these ways to ring 3 unnoticed. */
enum { UNNOTICED_SYSRET = 1 << 0, UNNOTICED_IRET = 1 << 1 };

struct silicon {
	const struct profile *profile;
	const struct hypervisor *hypervisor; /* of a rehearsal; NULL: the monitor is no other */
	bool interpreted;		     /* it never runs natively */
	bool native_ring_0;		     /* struct vcpu has one of this name */
	unsigned unnoticed;
	struct ds_silicon ds;
	struct pmu_rules pmu;
	struct pebs_rules pebs;
	struct pt_rules pt;
	bool tells_stack;  /* stack=on */
	uint8_t core_type; /* CPUID.1AH:EAX[31:24]; 0: all processors are of one kind */
};

static inline const struct ds_behaviour *ds_behaviour_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->ds.behaviour;
}

static inline const struct ds_layout *ds_layout_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->profile->layout;
}

static inline const struct ds_rules *ds_rules_of(const struct vcpu *vcpu)
{
	return &vcpu->silicon->ds.rules;
}

#endif
