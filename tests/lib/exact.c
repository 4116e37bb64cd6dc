// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

#define MSR_SMI_COUNT 0x34u /* SDM Vol 3, chapter 35: Nehalem and later */
#define MOST_TRIES    20

uint64_t smi_count(void)
{
	uint64_t count = 0;

	rdmsr_safe(MSR_SMI_COUNT, &count);
	return count & 0xffffffff;
}

static struct exact begin(struct rig *rig)
{
	return (struct exact){.rig = rig};
}

bool exact_again(struct exact *exact)
{
	uint64_t count = smi_count();

	if (exact->tries && count == exact->smi_count)
		return false;
	if (exact->tries++ == MOST_TRIES)
		test_error("a system management interrupt came in each of %d tries", MOST_TRIES);
	exact->smi_count = count;
	rig_reset(exact->rig);
	return true;
}

struct exact exact_begin(struct rig *rig)
{
	for (struct exact control = begin(rig); exact_again(&control);)
		TRACED(rig_all(), "nop");
	REQUIRE_EQ(rig_index(rig), rig->base);
	return begin(rig);
}
