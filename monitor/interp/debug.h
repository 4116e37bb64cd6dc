/* SPDX-License-Identifier: MIT */
/* Breakpoints by DR0 to DR3 and DR7 (SDM Vol 3, 17.2 and 17.3). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vcpu;

enum {
	DR6_BREAKPOINTS = 0xf,
	DR6_BD = 1 << 13,
	DR6_BS = 1 << 14,
	DR7_ENABLE = 0xff,
	DR7_GD = 1 << 13
};

/* DR7 may have changed: interp.breakpoints says whether any is enabled. */
void debug_changed(struct vcpu *vcpu);

/* An access to data or to a port: what it hits goes into interp.hits, for the trap after it. */
void debug_access(struct vcpu *vcpu, uint64_t linear, unsigned bytes, bool write);
void debug_port(struct vcpu *vcpu, uint16_t port, unsigned bytes);

/* A #DB is about to be delivered that is no trap: those that an instruction has hit go into DR6
   with it, and raise none of their own. */
void debug_merge(struct vcpu *vcpu);

/* The enabled breakpoints, as in DR6, on the instruction at RIP. */
unsigned debug_fetch(const struct vcpu *vcpu);
