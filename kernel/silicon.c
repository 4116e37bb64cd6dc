// SPDX-License-Identifier: MIT
// The only place that looks at the hypervisor bit.
#include "kernel/silicon.h"

#include "abi/hypervisor.h"
#include "drivers/processor.h"
#include "kernel/trace/trace.h"
#include "lib/format.h"
#include "lib/string.h"

static const char *name = "none";
static char hypervisor[13];
static bool virtual, foreign, rehearsal;

static void read_signature(uint32_t leaf, char signature[13])
{
	struct cpuid_result at = cpuid(leaf, 0);
	uint32_t words[] = {at.ebx, at.ecx, at.edx};

	memcpy(signature, words, sizeof(words));
	format_plain(signature);
}

void silicon_init(void)
{
	char second[13] = "";

	if (cpuid(1, 0).ecx & 1u << 31) {
		read_signature(HYPERVISOR_LEAF, hypervisor);
		read_signature(HYPERVISOR_LEAF_REHEARSAL, second);
		if (!hypervisor[0])
			memcpy(hypervisor, "unnamed", 8);
		virtual = !strcmp(hypervisor, HYPERVISOR_SIGNATURE);
		foreign = !virtual;
		rehearsal = foreign && !strcmp(second, HYPERVISOR_SIGNATURE);
	}
	if (trace_is_present())
		name = virtual ? "virtual" : foreign ? "guest" : "native";
}

const char *silicon_name(void)
{
	return name;
}

const char *silicon_mark(void)
{
	return rehearsal ? " rehearsal=yes" : "";
}

bool silicon_is_foreign_guest(void)
{
	return foreign;
}

bool silicon_is_virtual(void)
{
	return virtual;
}

const char *silicon_hypervisor(void)
{
	return hypervisor;
}
