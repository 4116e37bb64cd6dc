// SPDX-License-Identifier: MIT
#include "monitor/present.h"

#include <stddef.h>

#include "lib/string.h"
#include "monitor/pebs/pebs.h"
#include "monitor/silicon.h"

/*
 * KVM (docs/sources.md: Linux KVM, KVM BTS series, QEMU BTS_UNAVAIL): vmx_is_valid_debugctl() drops
 * BTF, and LBR where there is no stack, and refuses what it does not know. The series of 2022 adds
 * BTS to what it knows, and its vmx_handle_guest_intr() hands a PMI on only where TR, BTS and BTINT
 * are all set. vmx_get_perf_capabilities(): LBR of stacks with call-stack mode, PEBS where it
 * survives an EPT violation (Ice Lake server and later), without PEBS_BASELINE since 9e985cbf2942;
 * kvm_pmu_cap has version 2 at most. DS and DTES64 are in CPUID, and IA32_DS_AREA is there, with
 * PEBS. kvm_set_msr_common(): a guest cannot change the two UNAVAILABLE bits of IA32_MISC_ENABLE.
 * Since 9fc222967a39 the VMM says what they are, as of bit 7, and QEMU up to 10 leaves all three
 * clear; `-cpu host` without migratable=no has DS and DTES64, and no format of PEBS records.
 *
 * Xen (Xen vpmu): vmx_msr_write_intercept() takes TR, BTS and BTINT with vpmu=bts only, and of
 * IA32_MISC_ENABLE the value that is read. vpmu_do_msr() without vpmu: IA32_DS_AREA reads 0, a
 * write is dropped. vpmu_do_interrupt() leaves the guest's LVT entry as it is; the real one is
 * masked until the guest writes its own (vpmu_lvtpc_update()).
 */
#define KVM_COUNTERS                                                                               \
	.version_most = 2,                                                                         \
	.capabilities = CAPABILITY_FULL_WIDTH | CAPABILITY_LBR_FORMAT | CAPABILITY_PEBS
#define KVM .signature = "KVMKVMKVM\0\0\0", .is_kvm = true, .silent_in_circular = true, KVM_COUNTERS
#define XEN                                                                                        \
	.signature = "XenVMMXenVMM", .version = 4 << 16 | 17, .ignores_hidden = true,              \
	.leaves_lvt_mask = true, .hides_pebs = true

static const struct hypervisor hypervisors[] = {
	{.name = "kvm", .says = "as KVM with the BTS series of 2022", KVM},
	{.name = "kvm-mainline", .says = "as KVM, which hides BTS", .hides_bts = true, KVM},
	{.name = "kvm-qemu-10",
	 .says = "as KVM, which hides BTS, under a QEMU that leaves IA32_MISC_ENABLE[11] clear",
	 .hides_bts = true,
	 .leaves_available = true,
	 KVM},
	{.name = "kvm-qemu-10-migratable",
	 .says = "as KVM under -cpu host of QEMU 10, with DS and neither BTS nor PEBS",
	 .hides_bts = true,
	 .hides_pebs = true,
	 .shows_ds = true,
	 .leaves_available = true,
	 KVM},
	{.name = "xen", .says = "as Xen with vpmu=bts", .version_most = UINT8_MAX, XEN},
	{.name = "xen-default", .says = "as Xen, which hides BTS", .hides_bts = true, XEN},
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

/* KVM's guests have PEBS of Ice Lake on, and no filters: DS_CPL is not among KVM's features. */
void hypervisor_adjust(const struct hypervisor *hypervisor, const struct profile *profile,
		       struct behaviour *behaviour)
{
	if (hypervisor->silent_in_circular)
		behaviour->ds.circular = DS_CIRCULAR_IS_SILENT;
	if (hypervisor->hides_bts)
		behaviour->ds.ds_cpl = DS_CPL_ABSENT;
	if (hypervisor->hides_pebs || !pebs_is_adaptive(profile))
		behaviour->pebs.available = PEBS_ABSENT;
}

void hypervisor_limit(const struct hypervisor *hypervisor, const struct behaviour *behaviour,
		      struct profile *profile)
{
	struct performance *performance = &profile->performance;

	if (performance->version > hypervisor->version_most)
		performance->version = hypervisor->version_most;
	if (hypervisor->is_kvm && !(profile->lbr.select & LBR_CALL_STACK))
		profile->lbr = (struct lbr_layout){.depth = 0};
	performance->capabilities &=
		hypervisor->capabilities & ~(profile->lbr.depth ? 0 : CAPABILITY_LBR_FORMAT) &
		~(behaviour->pebs.available == PEBS_AVAILABLE ? 0 : CAPABILITY_PEBS);
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
	uint64_t known = hypervisor->hides_bts ? 0 : bts_controls(vcpu);

	if (hypervisor->is_kvm && vcpu->silicon->profile->lbr.depth)
		known |= DEBUGCTL_LBR | DEBUGCTL_FREEZE_LBRS;
	if (*value & ~(known | DEBUGCTL_LBR | DEBUGCTL_BTF))
		return MSR_REFUSED;
	if (hypervisor->is_kvm)
		*value &= known;
	return MSR_GOES_ON;
}

static enum msr_answer write_misc_enable(const struct hypervisor *hypervisor, uint64_t value,
					 uint64_t old)
{
	const uint64_t unavailable = MISC_ENABLE_BTS_UNAVAILABLE | MISC_ENABLE_PEBS_UNAVAILABLE;
	uint64_t fixed = hypervisor->is_kvm ? unavailable : UINT64_MAX;

	return (value ^ old) & fixed ? MSR_REFUSED : MSR_DONE;
}

/* DS is that of either half; hidden, the area and IA32_PEBS_ENABLE are not there. */
static bool hides_ds(const struct vcpu *vcpu)
{
	const struct hypervisor *hypervisor = vcpu->silicon->hypervisor;

	return hypervisor->hides_bts && !hypervisor->shows_ds && !pebs_present(vcpu);
}

static bool is_hidden(const struct vcpu *vcpu, uint32_t index)
{
	switch (index) {
	case MSR_DS_AREA:
		return hides_ds(vcpu);
	case MSR_PEBS_ENABLE:
		return !pebs_present(vcpu);
	default: /* of the events that these sample neither KVM nor Xen knows */
		return index == MSR_PEBS_LD_LAT || index == MSR_PEBS_FRONTEND;
	}
}

void hypervisor_cpuid(const struct vcpu *vcpu, uint32_t leaf, uint32_t value[4])
{
	if (leaf != 1 || !vcpu->silicon->hypervisor || !hides_ds(vcpu))
		return;
	value[2] &= ~(uint32_t)(LEAF_1_ECX_DTES64 | LEAF_1_ECX_DS_CPL);
	value[3] &= ~(uint32_t)LEAF_1_EDX_DS;
}

uint64_t hypervisor_misc_enable(const struct vcpu *vcpu, uint64_t value)
{
	const struct hypervisor *hypervisor = vcpu->silicon->hypervisor;

	if (!hypervisor)
		return value;
	if (hypervisor->is_kvm)
		value &= ~MISC_ENABLE_PERF_AVAILABLE;
	if (hypervisor->leaves_available)
		return value & ~(MISC_ENABLE_BTS_UNAVAILABLE | MISC_ENABLE_PEBS_UNAVAILABLE);
	return value | (hypervisor->hides_bts ? MISC_ENABLE_BTS_UNAVAILABLE : 0);
}

/* Xen takes 0 for what it hides, and reads it. */
enum msr_answer hypervisor_reads(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	const struct hypervisor *hypervisor = vcpu->silicon->hypervisor;

	if (!hypervisor || !is_hidden(vcpu, index))
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
		if (is_hidden(vcpu, index) && *value)
			return MSR_REFUSED;
		return hypervisor_reads(vcpu, index, &ignored);
	default:
		return hypervisor_reads(vcpu, index, &ignored);
	}
}
