// SPDX-License-Identifier: MIT
#include "monitor/present.h"

#include <stddef.h>

#include "lib/string.h"
#include "monitor/silicon.h"

/*
 * KVM (docs/sources.md: Linux KVM, KVM BTS series): vmx_is_valid_debugctl() drops LBR and BTF and
 * refuses what it does not know; the series of 2022 adds BTS to what it knows, and its
 * vmx_handle_guest_intr() hands a PMI on only where TR, BTS and BTINT are all set.
 * intel_is_valid_msr(): IA32_DS_AREA is there if the guest's CPUID has DS. kvm_set_msr_common(): no
 * change of the two UNAVAILABLE bits of IA32_MISC_ENABLE, the rest is kept.
 *
 * Xen (Xen vpmu): vmx_msr_write_intercept() takes TR, BTS and BTINT with vpmu=bts only, and of
 * IA32_MISC_ENABLE the value that is read. vpmu_do_msr() without vpmu: IA32_DS_AREA reads 0, a
 * write is dropped. vpmu_do_interrupt() leaves the guest's LVT entry as it is; the real one is
 * masked until the guest writes its own (vpmu_lvtpc_update()).
 */
#define KVM                                                                                        \
	.signature = "KVMKVMKVM\0\0\0", .drops_lbr = true, .keeps_misc_enable = true,              \
	.silent_in_circular = true
#define XEN                                                                                        \
	.signature = "XenVMMXenVMM", .version = 4 << 16 | 17, .ignores_hidden = true,              \
	.leaves_lvt_mask = true

static const struct hypervisor hypervisors[] = {
	{.name = "kvm", .says = "as KVM with the BTS series of 2022", KVM},
	{.name = "kvm-mainline", .says = "as KVM, which hides BTS", .hides_ds = true, KVM},
	{.name = "xen", .says = "as Xen with vpmu=bts", XEN},
	{.name = "xen-default", .says = "as Xen, which hides BTS", .hides_ds = true, XEN},
};

const struct hypervisor *hypervisor_get(unsigned n)
{
	return n < sizeof(hypervisors) / sizeof(hypervisors[0]) ? &hypervisors[n] : NULL;
}

const struct hypervisor *hypervisor_find(const char *name)
{
	const struct hypervisor *hypervisor;

	for (unsigned n = 0; (hypervisor = hypervisor_get(n)); n++)
		if (strcmp(hypervisor->name, name) == 0)
			break;
	return hypervisor;
}

void hypervisor_adjust(const struct hypervisor *hypervisor, struct ds_behaviour *behaviour)
{
	if (hypervisor->silent_in_circular)
		behaviour->circular = DS_CIRCULAR_IS_SILENT;
}

/* TR, BTS and BTINT, and where DS-CPL is enumerated the filters. */
static uint64_t bts_controls(const struct vcpu *vcpu)
{
	const struct ds_layout *layout = ds_layout_of(vcpu);
	uint64_t filters = ds_enumerate(vcpu).ds_cpl ? layout->off_os | layout->off_usr : 0;

	return layout->tr | layout->bts | layout->btint | filters;
}

static enum msr_answer write_debugctl(const struct vcpu *vcpu, uint64_t *value)
{
	const struct hypervisor *hypervisor = vcpu->silicon->hypervisor;
	uint64_t known = hypervisor->hides_ds ? 0 : bts_controls(vcpu);

	if (*value & ~(known | DEBUGCTL_LBR | DEBUGCTL_BTF))
		return MSR_REFUSED;
	if (hypervisor->drops_lbr)
		*value &= known;
	return MSR_GOES_ON;
}

static enum msr_answer write_misc_enable(const struct hypervisor *hypervisor, uint64_t value,
					 uint64_t old)
{
	const uint64_t unavailable = MISC_ENABLE_BTS_UNAVAILABLE | MISC_ENABLE_PEBS_UNAVAILABLE;
	uint64_t fixed = hypervisor->keeps_misc_enable ? unavailable : UINT64_MAX;

	return (value ^ old) & fixed ? MSR_REFUSED : MSR_DONE;
}

/* BTS alone is passed through: KVM has no IA32_PEBS_ENABLE then, of Xen it takes 0 and reads 0. */
enum msr_answer hypervisor_reads(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	const struct hypervisor *hypervisor = vcpu->silicon->hypervisor;

	if (!hypervisor ||
	    (index != MSR_PEBS_ENABLE && !(hypervisor->hides_ds && index == MSR_DS_AREA)))
		return MSR_GOES_ON;
	*value = 0;
	return hypervisor->ignores_hidden ? MSR_DONE : MSR_REFUSED;
}

enum msr_answer hypervisor_writes(const struct vcpu *vcpu, uint32_t index, uint64_t *value,
				  uint64_t old)
{
	const struct hypervisor *hypervisor = vcpu->silicon->hypervisor;
	uint64_t ignored;

	if (!hypervisor)
		return MSR_GOES_ON;
	switch (index) {
	case MSR_DEBUGCTL:
		return write_debugctl(vcpu, value);
	case MSR_MISC_ENABLE:
		return write_misc_enable(hypervisor, *value, old);
	case MSR_PEBS_ENABLE:
		return *value ? MSR_REFUSED : hypervisor_reads(vcpu, index, &ignored);
	default:
		return hypervisor_reads(vcpu, index, &ignored);
	}
}
