// SPDX-License-Identifier: MIT
#include "drivers/debugctl.h"

bool debugctl_has_btf = true;

/* The processor clears bits too (#DB: LBR and BTF), so that the register says which are set. */
void debugctl_set(struct debugctl *debugctl, uint64_t mask, uint64_t bits)
{
	uint64_t others = (debugctl->others & ~mask) | bits;

	if (others == debugctl->others)
		return;
	debugctl->others = others;
	wrmsr(IA32_DEBUGCTL, (rdmsr(IA32_DEBUGCTL) & ~mask) | bits);
}

uint64_t debugctl_clear(void)
{
	uint64_t found = 0;

	if (rdmsr_safe(IA32_DEBUGCTL, &found) && found)
		wrmsr_safe(IA32_DEBUGCTL, 0);
	return found;
}

void debugctl_probe(void)
{
	debugctl_has_btf &= cpuid_is_intel() && wrmsr_safe(IA32_DEBUGCTL, DEBUGCTL_BTF) &&
			    debugctl_clear() == DEBUGCTL_BTF;
}
