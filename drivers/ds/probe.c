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

/*
 * SDM Vol 3, table 18-11; table 35-2, IA32_PERF_CAPABILITIES, which CPUID.1:ECX[15] announces. In a
 * virtual machine IA32_MISC_ENABLE[12] and [7] are the VMM's, which may leave both clear: a
 * record's format says that PEBS is there where [7] does not, and IA32_PEBS_ENABLE is tried.
 */
static void detect_pebs(struct ds_caps *caps, const struct cpuid_result *one)
{
	uint64_t enable = 0, capabilities = 0, ignored;

	if ((one->ecx & CPUID_1_ECX_PDCM) && rdmsr_safe(IA32_PERF_CAPABILITIES, &capabilities)) {
		caps->pebs_format = capabilities >> 8 & 0xf;
		caps->pebs_baseline =
			caps->pebs_format >= 4 && (capabilities & PERF_CAPABILITIES_PEBS_BASELINE);
		caps->pebs_fault = !(capabilities & PERF_CAPABILITIES_PEBS_TRAP);
	}
	caps->pebs = caps->configuration->pebs_counters && rdmsr_safe(IA32_MISC_ENABLE, &enable) &&
		     (caps->pebs_format || (enable & MISC_ENABLE_EMON_AVAILABLE)) &&
		     !(enable & MISC_ENABLE_PEBS_UNAVAILABLE) &&
		     rdmsr_safe(IA32_PEBS_ENABLE, &ignored);
}

/* An IA32_MISC_ENABLE that cannot be read says nothing; the active probe decides. */
static bool bts_is_unavailable(void)
{
	uint64_t enable = 0;

	return rdmsr_safe(IA32_MISC_ENABLE, &enable) && (enable & MISC_ENABLE_BTS_UNAVAILABLE);
}

/* A bit at a time, with a valid area in place: emulators raise #GP, or drop the write without a
   word. With both bits set the branches of this function go to the idle buffer. */
static bool bits_hold(struct ds_caps *caps)
{
	const uint64_t tr = caps->configuration->tr, bts = caps->configuration->bts;
	bool hold = ds_msr_holds(IA32_DEBUGCTL, tr, caps) &&
		    ds_msr_holds(IA32_DEBUGCTL, tr | bts, caps) &&
		    ds_msr_holds(IA32_DEBUGCTL, 0, caps);

	caps->excludes_lbr = debugctl_holds(DEBUGCTL_LBR) && !debugctl_holds(tr | DEBUGCTL_LBR);
	return hold;
}

/* Returns the status that CPUID and IA32_MISC_ENABLE promise, before any MSR is tried. */
static enum ds_status find_promise(const struct ds_caps *caps)
{
	if (caps->bts_unavailable)
		return DS_BTS_UNAVAILABLE;
	return caps->suspended_by_pt && ds_pt_is_active() ? DS_PT_ACTIVE : DS_PRESENT;
}

/* Both halves need the area: BTS with a PEBS that is not there, and PEBS without BTS. */
static enum ds_status try_halves(struct ds_caps *caps, struct ds_idle *idle)
{
	enum ds_status promise = find_promise(caps);
	struct ds_caps ignored;

	if (promise != DS_PRESENT && !caps->pebs)
		return promise;
	ds_set_bts_buffer(idle->area, idle->buffer, sizeof(idle->buffer));
	caps->area = ds_msr_holds(IA32_DS_AREA, (uintptr_t)idle->area, caps);
	caps->pebs &= caps->area;
	if (promise == DS_PRESENT && !(caps->area && bits_hold(caps))) {
		promise = DS_ENUMERATED_BUT_ABSENT;
		ds_msr_holds(IA32_DEBUGCTL, 0, &ignored);
	}
	caps->area = promise == DS_PRESENT || caps->pebs;
	if (!caps->area)
		ds_msr_holds(IA32_DS_AREA, 0, &ignored);
	return promise;
}

static enum ds_status detect(struct ds_caps *caps, struct ds_idle *idle)
{
	struct cpuid_signature signature;
	struct cpuid_result one;

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
	return try_halves(caps, idle);
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
	if (caps->configuration)
		ds_configuration = caps->configuration;
}

const struct ds_caps *ds_caps(void)
{
	return &adopted;
}

bool ds_has_bts(void)
{
	return adopted.status == DS_PRESENT;
}

void ds_init_cpu(struct ds_cpu *cpu, struct ds_idle *idle, const struct debugctl *debugctl)
{
	*cpu = (struct ds_cpu){.idle = idle, .debugctl = debugctl};
	if (!adopted.area)
		return;
	ds_set_bts_buffer(idle->area, idle->buffer, sizeof(idle->buffer));
	ds_load_area(cpu, idle->area);
}
