// SPDX-License-Identifier: MIT
// The only place that looks at the hypervisor bit.
#include "kernel/silicon.h"

#include "abi/hypervisor.h"
#include "drivers/cpuid.h"
#include "kernel/trace/trace.h"
#include "lib/string.h"

static const char *name = "none";
static char hypervisor[13];
static bool foreign;

void silicon_init(void)
{
	bool virtual = false;

	if (cpuid(1, 0).ecx & 1u << 31) {
		struct cpuid_result leaf = cpuid(0x40000000, 0);

		memcpy(hypervisor, &leaf.ebx, 4);
		memcpy(hypervisor + 4, &leaf.ecx, 4);
		memcpy(hypervisor + 8, &leaf.edx, 4);
		if (!hypervisor[0])
			memcpy(hypervisor, "unnamed", 8);
		virtual = !strcmp(hypervisor, HYPERVISOR_SIGNATURE);
		foreign = !virtual;
	}
	if (trace_is_present())
		name = virtual ? "virtual" : foreign ? "guest" : "native";
}

const char *silicon_name(void)
{
	return name;
}

bool silicon_is_foreign_guest(void)
{
	return foreign;
}

const char *silicon_hypervisor(void)
{
	return hypervisor;
}
