/* SPDX-License-Identifier: MIT */
/* How a kernel finds out that it runs on Spoor's own virtual silicon: by a leaf of CPUID. */
#pragma once

/* EBX, ECX, EDX of that leaf, in this order; 12 characters without the NUL. */
#define HYPERVISOR_LEAF	     0x40000000u
#define HYPERVISOR_SIGNATURE "SpoorMonitor"

/*
 * In a rehearsal (the monitor's word present=) HYPERVISOR_LEAF is another hypervisor's, and the
 * signature is here: 100H leaves further, as a second interface is found by Linux and Xen.
 */
#define HYPERVISOR_LEAF_REHEARSAL 0x40000100u

_Static_assert(sizeof(HYPERVISOR_SIGNATURE) == 13, "three registers");
