// SPDX-License-Identifier: MIT
#include "tests/framework/errata.h"

#include "drivers/cpuid.h"
#include "lib/string.h"
#include "tests/framework/test.h"

#include <stddef.h>

/* Intel Core 2 Extreme and Duo specification update; siblings of other names. */
static const unsigned char core_2[] = {0x0f, 0x16, 0x17, 0};

/* Those that gdb's linux-btrace.c refuses for it. */
static const unsigned char nehalem_to_ivy_bridge[] = {0x1a, 0x1e, 0x1f, 0x2e, 0x25, 0x2c,
						      0x2f, 0x2a, 0x2d, 0x3a, 0};

/* Those for which Linux sets pt_pmu.branch_en_always_on (arch/x86/events/intel/pt.c). */
static const unsigned char broadwell[] = {0x3d, 0x47, 0x4f, 0x56, 0};

static const struct erratum errata[] = {
	{"AR62", "with a CPL filter set `from` of a change of privilege is wrong", 6, core_2},
	{"AAJ122", "after C1E, EIST or a T-state `from` is wrong", 6, nehalem_to_ivy_bridge},
	{"BDM106", "Intel PT cannot be enabled without BranchEn", 6, broadwell},
};

static bool is_listed(const struct erratum *erratum)
{
	struct cpuid_signature signature = cpuid_signature(cpuid(1, 0).eax);

	if (signature.family != erratum->family)
		return false;
	for (const unsigned char *model = erratum->models; *model; model++)
		if (*model == signature.model)
			return true;
	return false;
}

const struct erratum *erratum_here(const char *id)
{
	for (size_t i = 0; i < sizeof(errata) / sizeof(errata[0]); i++)
		if (!strcmp(errata[i].id, id))
			return is_listed(&errata[i]) ? &errata[i] : NULL;
	test_error("no erratum is called %s", id);
}
