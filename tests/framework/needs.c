// SPDX-License-Identifier: MIT
#include "tests/framework/needs.h"

#include "drivers/ds/ds.h"
#include "drivers/lbr/lbr.h"
#include "drivers/lbr/registers.h"
#include "drivers/pmu/pmu.h"
#include "drivers/processor.h"
#include "drivers/pt/pt.h"
#include "kernel/cpu.h"
#include "kernel/options.h"
#include "kernel/silicon.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/cpu.h"
#include "kernel/trace/lbr/branch_stack.h"
#include "kernel/trace/pebs/pebs.h"
#include "kernel/trace/unit.h"
#include "lib/format.h"
#include "lib/string.h"
#include "tests/framework/test.h"

#include <stddef.h>

static const struct {
	unsigned need;
	const char *name;
} names[] = {
	{NEED_BTS, "BTS"},	 {NEED_DS, "DS"},
	{NEED_DTES64, "DTES64"}, {NEED_DSCPL, "DSCPL"},
	{NEED_LA57, "LA57"},	 {NEED_NO_DS, "NO_DS"},
	{NEED_UNSAFE, "unsafe"}, {NEED_SELFTEST, "selftest"},
	{NEED_SMP, "SMP"},	 {NEED_PEBS, "PEBS"},
	{NEED_PT, "PT"},	 {NEED_SAMPLES, "SAMPLES"},
	{NEED_LBR, "LBR"},	 {NEED_UNIT, "UNIT"},
};

static bool has_la57(void)
{
	return cpuid(0, 0).eax >= 7 && cpuid(7, 0).ecx & 1u << 16;
}

static const char *missing_unsafe(void)
{
	if (options.unsafe == UNSAFE_NO || (options.unsafe == UNSAFE_AUTO && !silicon_is_virtual()))
		return "can hang a host: run it with unsafe=1";
	if (options.unsafe == UNSAFE_YES && silicon_is_foreign_guest())
		return "can hang the host of this virtual machine: unsafe=force runs it all the same";
	return NULL;
}

static const char *missing_pebs(void)
{
	return silicon_is_foreign_guest()
		       ? "the hypervisor shows no PEBS: docs/hypervisors.md names those that can"
		       : "the processor takes no samples (PEBS)";
}

static const char *missing_lbr(void)
{
	return silicon_is_foreign_guest()
		       ? "the hypervisor shows no LBR stack: docs/hypervisors.md names those that can"
		       : "the processor has no LBR stack that is known here";
}

const char *needs_lbr_filters(void)
{
	const struct lbr_caps *caps = lbr_caps();

	return caps->architectural && ~caps->select & (LBR_SELECT_BY_LEVEL | LBR_SELECT_WITHOUT(0))
		       ? "CPUID.1CH:EBX has no filter by level, or none by kind"
		       : NULL;
}

static bool has_unit(void)
{
	return ds_has_bts() || pebs_present() || pt_caps()->topa || branch_stack_present();
}

static const char *missing(unsigned needs)
{
	const struct ds_caps *caps = ds_caps();

	if (needs & NEED_UNSAFE && missing_unsafe())
		return missing_unsafe();
	if (needs & NEED_SMP && cpu_count() < 2)
		return "only one CPU";
	if (needs & NEED_NO_DS && caps->ds)
		return "the Debug Store is there";
	if ((needs & NEED_DS && !caps->ds) || (needs & NEED_BTS && !ds_has_bts()) ||
	    (needs & NEED_UNIT && !has_unit()))
		return bts_missing();
	if (needs & (NEED_PEBS | NEED_SAMPLES) && !caps->pebs)
		return missing_pebs();
	if (needs & NEED_SAMPLES && !pebs_present())
		return "samples need counters of architectural performance monitoring (CPUID.0AH)";
	if (needs & NEED_SAMPLES && pmu_caps()->version && pmu_caps()->general < 2)
		return "tests of samples use two general counters (CPUID.0AH:EAX[15:8])";
	if (needs & NEED_PT && !pt_caps()->topa)
		return "the processor has no Intel Processor Trace (CPUID leaf 14H)";
	if (needs & NEED_LBR && !branch_stack_present())
		return missing_lbr();
	if (needs & NEED_LBR && needs_lbr_filters())
		return needs_lbr_filters();
	if (needs & NEED_DTES64 && !caps->dtes64)
		return "the processor has no 64-bit format of the DS area (DTES64)";
	if (needs & NEED_DSCPL && !caps->dscpl)
		return "the processor does not filter by CPL (DS-CPL)";
	if (needs & NEED_LA57 && !has_la57())
		return "the processor has no 57-bit addresses (LA57)";
	return NULL;
}

/* The need of a unit, and the unit. */
static const struct {
	unsigned needs, unit;
} units[] = {
	{NEED_BTS | NEED_DS, TRACE_BTS},
	{NEED_PEBS | NEED_SAMPLES, TRACE_PEBS},
	{NEED_PT, TRACE_PT},
	{NEED_LBR, TRACE_LBR},
};

/* The tests run on the boot CPU and its kind. */
const char *needs_missing(unsigned needs)
{
	const char *reason = missing(needs);
	static char text[200];

	for (size_t i = 0; reason && i < sizeof(units) / sizeof(units[0]); i++) {
		unsigned kind = needs & units[i].needs ? kind_with(units[i].unit) : 0;

		if (!kind)
			continue;
		format(text, sizeof(text), "%s; CPUs of kind=%u have it", reason, kind);
		return text;
	}
	return reason;
}

void needs_names(unsigned needs, char *buffer, size_t size)
{
	size_t used = 0;

	buffer[0] = 0;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (needs & names[i].need && used < size)
			used += (size_t)format(buffer + used, size - used, "%s%s", used ? "," : "",
					       names[i].name);
	if (!used)
		format(buffer, size, "none");
}

/* Intel Core 2 Extreme and Duo specification update; siblings of other names. */
static const unsigned char core_2[] = {0x0f, 0x16, 0x17, 0};

/* Those that gdb's linux-btrace.c refuses for it. */
static const unsigned char nehalem_to_ivy_bridge[] = {0x1a, 0x1e, 0x1f, 0x2e, 0x25, 0x2c,
						      0x2f, 0x2a, 0x2d, 0x3a, 0};

/* Those for which Linux sets pt_pmu.branch_en_always_on (arch/x86/events/intel/pt.c). */
static const unsigned char broadwell[] = {0x3d, 0x47, 0x4f, 0x56, 0};

/* Those for which libipt sets errata.bdm70. */
static const unsigned char broadwell_and_later[] = {
	0x3d, 0x47, 0x4f, 0x56, 0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6, 0x55, 0x6a, 0x6c,
	0x8f, 0xcf, 0xad, 0xae, 0x66, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7, 0xa8, 0x97, 0x9a,
	0xba, 0xb7, 0xbf, 0xc5, 0xc6, 0xb5, 0xaa, 0xac, 0xbd, 0xcc, 0xd5, 0};

/* And errata.skl014. */
static const unsigned char skylake_to_rocket_lake[] = {0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6,
						       0x55, 0x6a, 0x6c, 0x66, 0x7d, 0x7e,
						       0x8c, 0x8d, 0xa7, 0xa8, 0};

static const struct erratum errata[] = {
	{"AR62", "with a CPL filter set `from` of a change of privilege is wrong", 6, core_2},
	{"AAJ122", "after C1E, EIST or a T-state `from` is wrong", 6, nehalem_to_ivy_bridge},
	{"BDM106", "Intel PT cannot be enabled without BranchEn", 6, broadwell},
	{"BDM70", "PSB+ before TIP.PGE has FUP and MODE.Exec", 6, broadwell_and_later},
	{"SKL014", "TIP.PGD of a direct branch out of a range has no target", 6,
	 skylake_to_rocket_lake},
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
