/* SPDX-License-Identifier: MIT */
/* How a kernel finds out that it runs on Spoor's own virtual silicon: CPUID leaf 4000_0000H. */
#ifndef SPOOR_ABI_HYPERVISOR_H
#define SPOOR_ABI_HYPERVISOR_H

/* EBX, ECX, EDX of that leaf, in this order; 12 characters without the NUL. */
#define HYPERVISOR_LEAF	     0x40000000u
#define HYPERVISOR_SIGNATURE "SpoorMonitor"

_Static_assert(sizeof(HYPERVISOR_SIGNATURE) == 13, "three registers");

#endif
