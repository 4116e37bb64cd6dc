// SPDX-License-Identifier: MIT
// Prints the reason why there is no BTS, and its remedy.
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/processor.h"
#include "kernel/silicon.h"
#include "kernel/trace/bts/bts.h"
#include "lib/format.h"
#include "lib/string.h"

#define TRANSLATOR "TCGTCGTCGTCG"
#define HIDES	   "hides the Debug Store"
#define NO_SETTING "no setting is known that shows it"
#define PROMISED                                                                                   \
	"IA32_MISC_ENABLE[11] says that BTS is there, and %s refuses %s: the VMM%s has to set "    \
	"bit 11"

/* How hypervisors hide BTS, and what shows it: docs/sources.md, Linux KVM and Xen vpmu. */
static const struct hides {
	const char *signature, *name, *does, *needs;
} hypervisors[] = {
	{"KVMKVMKVM", "KVM", HIDES, "it needs the BTS patches of 2022 on the host"},
	{"XenVMMXenVMM", "Xen", HIDES, "it needs vpmu=bts on Xen's command line"},
	{TRANSLATOR, "QEMU's translator", "has no Debug Store",
	 "Spoor's monitor gives it a virtual one"},
	{"VMwareVMware", "VMware", HIDES, NO_SETTING},
	{"Microsoft Hv", "Hyper-V", HIDES, NO_SETTING},
	{"VBoxVBoxVBox", "VirtualBox", HIDES, NO_SETTING},
	{NULL, "the hypervisor", HIDES, "its documentation may know a setting"},
};

static const struct hides *find_hypervisor(void)
{
	const struct hides *by = hypervisors;

	while (by->signature && strcmp(by->signature, silicon_hypervisor()))
		by++;
	return by;
}

/* The bit is the VMM's, the other MSR the hypervisor's: of KVM's guests these are two programs. */
static const char *find_refused(const struct ds_caps *caps)
{
	if (caps->refused_msr == IA32_DS_AREA)
		return "IA32_DS_AREA";
	return caps->refused_value == ds_configuration->tr ? "IA32_DEBUGCTL.TR"
							   : "IA32_DEBUGCTL.BTS";
}

/* What Spoor's monitor needs and this processor lacks, or NULL. AMD APM Vol 3, E.4.2 and E.4.9. */
static const char *monitor_lacks(void)
{
	uint32_t extended = cpuid(0x80000001, 0).ecx;

	if (!(extended & 1u << 2))
		return "SVM";
	if (!(cpuid(0x8000000a, 0).edx & 1u << 0))
		return "nested paging";
	return extended & 1u << 0 ? NULL : "LAHF in 64-bit mode";
}

const char *bts_missing(void)
{
	static char text[160];
	bool is_translator = !strcmp(silicon_hypervisor(), TRANSLATOR);
	const char *lacks = is_translator ? monitor_lacks() : NULL;
	enum ds_status status = ds_caps()->status;
	const struct hides *by = find_hypervisor();

	if (status == DS_PRESENT)
		return "";
	if (lacks)
		format(text, sizeof(text),
		       "this processor model has no %s, which Spoor's monitor needs: -c max has it",
		       lacks);
	else if (!silicon_is_foreign_guest() || status == DS_NOT_INTEL || status == DS_PT_ACTIVE)
		return ds_status_text(status);
	else if (status == DS_ENUMERATED_BUT_ABSENT)
		format(text, sizeof(text), PROMISED, by->name, find_refused(ds_caps()),
		       by == hypervisors ? " (QEMU)" : "");
	else
		format(text, sizeof(text), "%s %s: %s", by->name,
		       status == DS_NOT_ENUMERATED ? by->does : "shows the Debug Store without BTS",
		       by->needs);
	return text;
}
