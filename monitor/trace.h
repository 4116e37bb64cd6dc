/* SPDX-License-Identifier: MIT */
/* The trace units of one virtual processor together. */
#ifndef SPOOR_MONITOR_TRACE_H
#define SPOOR_MONITOR_TRACE_H

#include "monitor/vcpu.h"

/* RESET of a processor: its counters too, which INIT leaves alone (SDM Vol 3, table 9-1). */
void trace_power_on(struct vcpu *vcpu, const struct silicon *silicon);

/* RESET and INIT of a processor of `silicon`: nothing is traced. Before anything of monitor/ds. */
void trace_reset(struct vcpu *vcpu, const struct silicon *silicon);

/* A delivered #DB clears LBR and BTF and leaves TR as it is: SDM Vol 3, 17.4.2 and 17.4.3. */
static inline void trace_debug_exception(struct vcpu *vcpu)
{
	vcpu->debugctl &= ~(DEBUGCTL_LBR | DEBUGCTL_BTF);
}

#endif
