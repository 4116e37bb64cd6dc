// SPDX-License-Identifier: MIT
// Prints the reason why there is no BTS, and its remedy.
#include "drivers/ds/ds.h"
#include "kernel/silicon.h"
#include "kernel/trace/bts/bts.h"
#include "lib/format.h"
#include "lib/string.h"

#define HIDES	   "hides the Debug Store"
#define NO_SETTING "no setting is known that shows it"

/* How hypervisors hide BTS, and what shows it: docs/sources.md, Linux KVM and Xen vpmu. */
static const struct hides {
	const char *signature, *name, *does, *needs;
} hypervisors[] = {
	{"KVMKVMKVM", "KVM", HIDES, "it needs the BTS patches of 2022 on the host"},
	{"XenVMMXenVMM", "Xen", HIDES, "it needs vpmu=bts on Xen's command line"},
	{"TCGTCGTCGTCG", "QEMU's translator", "has no Debug Store",
	 "Spoor's monitor gives it a virtual one"},
	{"VMwareVMware", "VMware", HIDES, NO_SETTING},
	{"Microsoft Hv", "Hyper-V", HIDES, NO_SETTING},
	{"VBoxVBoxVBox", "VirtualBox", HIDES, NO_SETTING},
	{NULL, "the hypervisor", HIDES, "its documentation may know a setting"},
};

const char *bts_missing(void)
{
	static char text[120];
	enum ds_status status = ds_caps()->status;
	const struct hides *by = hypervisors;

	if (status == DS_PRESENT)
		return "";
	if (!silicon_is_foreign_guest() ||
	    (status != DS_NOT_ENUMERATED && status != DS_BTS_UNAVAILABLE))
		return ds_status_text(status);
	while (by->signature && strcmp(by->signature, silicon_hypervisor()))
		by++;
	format(text, sizeof(text), "%s %s: %s", by->name,
	       status == DS_NOT_ENUMERATED ? by->does : "shows the Debug Store without BTS",
	       by->needs);
	return text;
}
