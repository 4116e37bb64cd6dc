// SPDX-License-Identifier: MIT
#include "monitor/decision.h"

#include <stddef.h>

#include "lib/string.h"
#include "monitor/console.h"
#include "monitor/defect.h"
#include "monitor/host/cpu.h"
#include "monitor/unit.h"

enum {
	VM_CR_SVMDIS = 1 << 4,
};
enum { CORE_TYPE_ATOM = 0x20, CORE_TYPE_CORE = 0x40 }; /* SDM Vol 2, CPUID leaf 1AH */
#define LEAF_EXTENDED	      0x80000000u
#define LEAF_EXTENDED_1	      0x80000001u
#define LEAF_ADDRESS_BITS     0x80000008u /* EAX[7:0]: SDM Vol 2, CPUID */
#define LEAF_SVM	      0x8000000au
#define LEAF_EXTENDED_1_SVM   (1u << 2) /* ECX */
#define LEAF_EXTENDED_1_LAHF  (1u << 0) /* in 64-bit mode; ECX */
#define LEAF_SVM_NESTED_PAGES (1u << 0) /* EDX */

static bool is_intel(void)
{
	struct cpuid leaf = cpuid(0, 0);
	uint32_t vendor[3] = {leaf.ebx, leaf.edx, leaf.ecx};

	return memcmp(vendor, "GenuineIntel", 12) == 0;
}

static bool has_ds(void)
{
	return is_intel() && cpuid(1, 0).edx & LEAF_1_EDX_DS;
}

/* MISC_ENABLE is read only where DS is enumerated: elsewhere the bit means nothing. */
static bool has_bts(void)
{
	uint64_t misc_enable;

	return has_ds() && read_msr_safe(MSR_MISC_ENABLE, &misc_enable) &&
	       !(misc_enable & MISC_ENABLE_BTS_UNAVAILABLE);
}

/* NULL, or why the kernel cannot run as a guest. */
static const char *svm_missing(void)
{
	uint64_t vm_cr;

	if (cpuid(LEAF_EXTENDED, 0).eax < LEAF_SVM ||
	    !(cpuid(LEAF_EXTENDED_1, 0).ecx & LEAF_EXTENDED_1_SVM))
		return "the processor has neither BTS nor SVM; the kernel runs without BTS";
	if (!(cpuid(LEAF_SVM, 0).edx & LEAF_SVM_NESTED_PAGES))
		return "no BTS, and SVM without nested paging; the kernel runs without BTS";
	/* The interpreter has flags of it. */
	if (!(cpuid(LEAF_EXTENDED_1, 0).ecx & LEAF_EXTENDED_1_LAHF))
		return "no BTS, and no LAHF in 64-bit mode; the kernel runs without BTS";
	if (read_msr_safe(MSR_VM_CR, &vm_cr) && vm_cr & VM_CR_SVMDIS)
		return "no BTS, and SVM is disabled by firmware; the kernel runs without BTS";
	return NULL;
}

static void clear_leftover(const struct unit *unit)
{
	uint32_t index = unit->control.index, leaf_7 = unit->control.leaf_7;
	uint64_t value;

	if (leaf_7 && (!is_intel() || cpuid(0, 0).eax < 7 || !(cpuid(7, 0).ebx & leaf_7)))
		return;
	if (read_msr_safe(index, &value) && value) {
		say("firmware left %s at 0x%llx; cleared", unit->control.name,
		    (unsigned long long)value);
		write_msr_safe(index, 0);
	}
}

void clear_leftover_tracing(void)
{
	for (unsigned i = 0; i < UNITS; i++)
		if (units[i]->control.name)
			clear_leftover(units[i]);
}

struct decision decide(enum vbts wanted)
{
	const char *missing;

	if (has_bts())
		return (struct decision){false,
					 "the processor enumerates BTS; the kernel runs on it"};
	if (wanted == VBTS_OFF)
		return (struct decision){false, "vbts=off; the kernel runs without virtual BTS"};
	missing = svm_missing();
	if (missing)
		return (struct decision){false, missing};
	if (wanted == VBTS_AUTO && !is_emulator())
		return (struct decision){false, "no BTS, and this is no emulator: vbts=on would "
						"provide virtual BTS; the kernel runs without"};
	return (struct decision){true, "the kernel runs as a guest with virtual BTS"};
}

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
		say("defect %s (%s): %s%s%s", defect->name, defect->rule, defect->says,
		    defect->profile ? ", on profile=" : "", defect->profile ? defect->profile : "");
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
	    !options->interpret && !options->other)
		return;
	if (!run_as_guest)
		end_run(VERDICT_ERROR,
			"a profile, kinds, a variant, a defect, a rehearsal or interpret= was asked "
			"for, and there is no virtual silicon to have it");
	if (other)
		say("profile=%s", options->profile->name);
	if (options->other)
		say("kinds=%s%s%s: every second processor", options->other->name,
		    options->other_added ? "+" : "",
		    options->other_added ? units[__builtin_ctz(options->other_added)]->name : "");
	if (options->hypervisor)
		say("present=%s: a rehearsal of passthrough on virtual silicon, %s",
		    options->hypervisor->name, options->hypervisor->says);
	if (options->interpret == INTERPRET_TRACED)
		say("interpret=traced: ring 0 is interpreted while ring 3 alone is traced");
	if (options->interpret == INTERPRET_ALWAYS)
		say("interpret=always: the guest never runs natively");
	if (options->variants[0])
		say("variant=%s", options->variants);
	if (options->defect)
		say("%s=%s: %s (%s)", erratum_find(options->defect->name) ? "erratum" : "defect",
		    options->defect->name, options->defect->says, options->defect->rule);
}

/* What a kind of processor is made in. */
struct kind {
	struct silicon silicon;
	struct profile profile;
};

/* With addresses as wide as those of the processor underneath. */
static const struct silicon *make(struct kind *kind, const struct options *options,
				  const struct profile *profile, const struct behaviour *behaviour,
				  unsigned added)
{
	struct silicon *silicon = &kind->silicon;

	kind->profile = *profile;
	if (options->hypervisor)
		hypervisor_limit(options->hypervisor, behaviour, &kind->profile);
	silicon_make(silicon, &kind->profile, behaviour);
	for (unsigned i = 0; i < UNITS; i++)
		if (added >> i & 1 && !(options->hypervisor && options->hypervisor->hides_added))
			units[i]->add(silicon);
	silicon->physical_bits = (uint8_t)cpuid(LEAF_ADDRESS_BITS, 0).eax;
	silicon->hypervisor = options->hypervisor;
	/* Lockstep compares all that may be interpreted. */
	silicon->native_ring_0 = options->interpret == INTERPRET_WANTED && !options->lockstep;
	silicon->interpreted = options->interpret == INTERPRET_ALWAYS;
	silicon->tells_stack = options->stack;
	if (options->inert)
		options->inert->stop(silicon);
	if (options->defect)
		options->defect->break_rules(silicon);
	return silicon;
}

const struct silicon *choice_make(const struct options *options)
{
	static struct kind kind;

	kind.silicon.core_type = options->other ? CORE_TYPE_CORE : 0;
	return make(&kind, options, options->profile, &options->behaviour, options->added);
}

const struct silicon *choice_make_other(const struct options *options)
{
	static struct kind kind;
	struct behaviour behaviour;

	if (!options->other)
		return NULL;
	behaviour_of_profile(&behaviour, options->other);
	if (options->hypervisor)
		hypervisor_adjust(options->hypervisor, options->other, &behaviour);
	kind.silicon.core_type = CORE_TYPE_ATOM;
	return make(&kind, options, options->other, &behaviour, options->other_added);
}
