// SPDX-License-Identifier: MIT
#include "drivers/debugctl.h"

bool debugctl_has_btf = true;

uint64_t debugctl_clear(void)
{
	uint64_t found = 0;

	if (rdmsr_safe(IA32_DEBUGCTL, &found) && found)
		wrmsr_safe(IA32_DEBUGCTL, 0);
	return found;
}

void debugctl_probe(void)
{
	debugctl_has_btf &= cpuid_is_intel() && debugctl_holds(DEBUGCTL_BTF);
}
