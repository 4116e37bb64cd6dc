/* SPDX-License-Identifier: MIT */
#include "monitor/choice.h"

#include "monitor/console.h"
#include "monitor/defects/defect.h"
#include "monitor/ds/variants.h"
#include "monitor/host/cpu.h"

#define PHYSICAL_BITS_LEAF 0x80000008u /* EAX[7:0]: SDM Vol 2, CPUID */

static void list_variants(void)
{
	const struct profile *profile;
	const struct hypervisor *hypervisor;
	struct variant variant;

	for (unsigned n = 0; (profile = profile_get(n)); n++)
		say("profile %s: %s", profile->name, profile->brand);
	for (unsigned n = 0; (hypervisor = hypervisor_get(n)); n++)
		say("present %s: %s", hypervisor->name, hypervisor->says);
	for (unsigned n = 0; variant_get(n, &variant); n++)
		say("variant %s=%s%s: %s", variant.point, variant.choice,
		    variant.is_default ? " (default)" : "", variant.meaning);
}

static void list_defects(void)
{
	const struct defect *defect;

	for (unsigned n = 0; (defect = defect_get(n)); n++)
		say("defect %s (%s): %s", defect->name, defect->rule, defect->says);
}

static void list_errata(void)
{
	const struct defect *erratum;

	for (unsigned n = 0; (erratum = erratum_get(n)); n++)
		say("erratum %s (%s; %s): %s", erratum->name, erratum->profile, erratum->rule,
		    erratum->says);
}

void choice_list(const struct options *options)
{
	if (options->list_variants)
		list_variants();
	if (options->list_defects)
		list_defects();
	if (options->list_errata)
		list_errata();
	if (options->list_variants || options->list_defects || options->list_errata)
		end_run(VERDICT_LISTED, "that is all; nothing was booted");
}

void choice_announce(const struct options *options, bool run_as_guest)
{
	bool other = options->profile != profile_get(0);

	if (!options->variants[0] && !options->defect && !options->hypervisor && !other &&
	    !options->interpret)
		return;
	if (!run_as_guest)
		end_run(VERDICT_ERROR,
			"a profile, a variant, a defect, a rehearsal or interpret=always was asked "
			"for, and there is no virtual silicon to have it");
	if (other)
		say("profile=%s", options->profile->name);
	if (options->hypervisor)
		say("present=%s: a rehearsal of passthrough on virtual silicon, %s",
		    options->hypervisor->name, options->hypervisor->says);
	if (options->interpret)
		say("interpret=always: the guest never runs natively");
	if (options->variants[0])
		say("variant=%s", options->variants);
	if (options->defect)
		say("%s=%s: %s (%s)", erratum_find(options->defect->name) ? "erratum" : "defect",
		    options->defect->name, options->defect->says, options->defect->rule);
}

/* The profile as it was asked for; its addresses are as wide as those of the processor underneath.
 */
static const struct profile *profile_made(const struct options *options)
{
	static struct profile profile;
	static struct pt_enumeration pt;

	profile = *options->profile;
	if (!options->pt) {
		profile.pt = NULL;
		return &profile;
	}
	pt = *profile.pt;
	pt.physical_bits = (uint8_t)cpuid(PHYSICAL_BITS_LEAF, 0).eax;
	profile.pt = &pt;
	return &profile;
}

const struct silicon *choice_make(const struct options *options)
{
	static struct silicon silicon;

	silicon.profile = profile_made(options);
	silicon.pt = pt_clean;
	silicon.pmu = pmu_clean;
	silicon.hypervisor = options->hypervisor;
	silicon.interpreted = options->interpret;
	silicon.tells_stack = options->stack;
	silicon.pebs = pebs_clean;
	ds_make(&silicon.ds, &options->behaviour);
	if (options->defect)
		options->defect->break_rules(&silicon);
	return &silicon;
}
