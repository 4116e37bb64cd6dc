// SPDX-License-Identifier: MIT
/* Detection, in the manual's order: nothing is touched that what came before did not announce. */
#include "drivers/ds/private.h"
#include "drivers/ds/registers.h"
#include "drivers/processor.h"
#include "drivers/pt/registers.h"

bool ds_pt_is_active(void)
{
	uint64_t control = 0;

	return cpuid(0, 0).eax >= 7 && (cpuid(7, 0).ebx & CPUID_7_EBX_PT) &&
	       rdmsr_safe(IA32_RTIT_CTL, &control) && (control & RTIT_CTL_TRACE_EN);
}

/* SDM Vol 3, table 18-11; table 35-2, IA32_PERF_CAPABILITIES, which CPUID.1:ECX[15] announces. */
static void detect_pebs(struct ds_caps *caps, const struct cpuid_result *one)
{
	uint64_t enable = 0, capabilities = 0;

	caps->pebs = caps->configuration->pebs_counters && rdmsr_safe(IA32_MISC_ENABLE, &enable) &&
		     (enable & MISC_ENABLE_EMON_AVAILABLE) &&
		     !(enable & MISC_ENABLE_PEBS_UNAVAILABLE);
	if (caps->pebs && (one->ecx & CPUID_1_ECX_PDCM) &&
	    rdmsr_safe(IA32_PERF_CAPABILITIES, &capabilities)) {
		caps->pebs_format = capabilities >> 8 & 0xf;
		caps->pebs_fault = !(capabilities & PERF_CAPABILITIES_PEBS_TRAP);
	}
}

/* An IA32_MISC_ENABLE that cannot be read says nothing; the active probe decides. */
static bool bts_is_unavailable(void)
{
	uint64_t enable = 0;

	return rdmsr_safe(IA32_MISC_ENABLE, &enable) && (enable & MISC_ENABLE_BTS_UNAVAILABLE);
}

/*
 * One bit at a time, with a valid area in place: emulators raise #GP or drop the write without a
 * word. With both bits set the branches of this function go to the idle buffer.
 */
static bool bits_hold(struct ds_caps *caps, struct ds_idle *idle)
{
	const struct ds_configuration *c = caps->configuration;

	return ds_msr_holds(IA32_DS_AREA, (uintptr_t)idle->area, caps) &&
	       ds_msr_holds(IA32_DEBUGCTL, c->tr, caps) &&
	       ds_msr_holds(IA32_DEBUGCTL, c->tr | c->bts, caps) &&
	       ds_msr_holds(IA32_DEBUGCTL, 0, caps);
}

static enum ds_status detect(struct ds_caps *caps, struct ds_idle *idle)
{
	struct cpuid_signature signature;
	struct cpuid_result one;
	struct ds_caps ignored;

	if (!cpuid_is_intel())
		return DS_NOT_INTEL;
	one = cpuid(1, 0);
	caps->ds = one.edx & CPUID_1_EDX_DS;
	if (!caps->ds)
		return DS_NOT_ENUMERATED;
	caps->dtes64 = one.ecx & CPUID_1_ECX_DTES64;
	caps->dscpl = one.ecx & CPUID_1_ECX_DS_CPL;
	signature = cpuid_signature(one.eax);
	caps->configuration = ds_find_configuration(signature.family, signature.model);
	ds_configuration = caps->configuration;
	caps->suspended_by_pt = ds_is_suspended_by_pt(signature.family, signature.model);
	caps->filters =
		caps->dscpl && ds_configuration->off_os && !ds_configuration->filter_changes_from;

	detect_pebs(caps, &one);
	caps->bts_unavailable = bts_is_unavailable();
	if (caps->bts_unavailable)
		return DS_BTS_UNAVAILABLE;
	if (caps->suspended_by_pt && ds_pt_is_active())
		return DS_PT_ACTIVE;

	ds_set_bts_buffer(idle->area, idle->buffer, sizeof(idle->buffer));
	if (bits_hold(caps, idle))
		return DS_PRESENT;
	ds_msr_holds(IA32_DEBUGCTL, 0, &ignored);
	ds_msr_holds(IA32_DS_AREA, 0, &ignored);
	return DS_ENUMERATED_BUT_ABSENT;
}

void ds_probe(struct ds_caps *caps, struct ds_idle *idle)
{
	*caps = (struct ds_caps){.status = DS_NOT_PROBED};
	caps->status = detect(caps, idle);
}

const char *ds_status_text(enum ds_status status)
{
	static const char *const texts[] = {
		[DS_NOT_PROBED] = "not probed",
		[DS_PRESENT] = "present",
		[DS_NOT_INTEL] = "not an Intel processor: only these have BTS",
		[DS_NOT_ENUMERATED] = "this processor has no Debug Store",
		[DS_BTS_UNAVAILABLE] = "BTS is turned off in the BIOS, or not there",
		[DS_PT_ACTIVE] = "Processor Trace is on and suspends BTS: turn it off in the BIOS, "
				 "or on the host",
		[DS_ENUMERATED_BUT_ABSENT] = "BTS is enumerated but absent: "
					     "bts_enumerated_is_present says which MSR refuses it",
	};

	return texts[status];
}

static struct ds_caps adopted;

void ds_init(const struct ds_caps *caps)
{
	adopted = *caps;
}

const struct ds_caps *ds_caps(void)
{
	return &adopted;
}

bool ds_present(void)
{
	return adopted.status == DS_PRESENT;
}

void ds_init_cpu(struct ds_cpu *cpu, struct ds_idle *idle)
{
	*cpu = (struct ds_cpu){.idle = idle};
	if (!ds_present())
		return;
	ds_set_bts_buffer(idle->area, idle->buffer, sizeof(idle->buffer));
	ds_load_area(cpu, idle->area);
}
