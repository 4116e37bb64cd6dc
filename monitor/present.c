// SPDX-License-Identifier: MIT
#include "monitor/present.h"

#include <stddef.h>

#include "lib/string.h"
#include "monitor/pebs/pebs.h"
#include "monitor/silicon.h"

#define LEAF_COUNTERS			 0xau
#define LEAF_COUNTERS_EDX_ANY_DEPRECATED (1u << 15)
#define FIXED_COUNTERS			 3u

#define RTIT_STATUS_READ_ONLY (STATUS_FILTER_EN | STATUS_CONTEXT_EN | STATUS_TRIGGER_EN)
#define CR3_MATCH_RESERVED    0x1full

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
 * Up to 6.5 kvm_apic_local_deliver() leaves the LVT entry unmasked (a16eb25b09c0), and PEBS has its
 * adaptive groups up to 6.8. CPUID.0AH: __do_cpuid_func(). pmc_write_counter() drops what a counter
 * is too narrow for. kvm_caps.supported_xss has no state of Intel PT.
 *
 * Intel PT of KVM, pt_mode=1: vmx_set_msr() holds what is written while TraceEn is clear, and the
 * processor gets it when it is set. Until then the read-only bits of IA32_RTIT_STATUS and bits 6:0
 * of IA32_RTIT_OUTPUT_MASK_PTRS read as written. Bits 4:0 of IA32_RTIT_CR3_MATCH raise no #GP.
 * vmx_rtit_ctl_check() up to 6.12 refuses a write that clears TraceEn and changes another bit.
 * Nobody has it without CONFIG_BROKEN since aa0d42cacf09 (6.12).
 *
 * Xen (Xen vpmu): vmx_msr_write_intercept() takes TR, BTS and BTINT with vpmu=bts only, and of
 * IA32_MISC_ENABLE the value that is read. vpmu_do_msr() without vpmu: IA32_DS_AREA reads 0, a
 * write is dropped. vpmu_do_interrupt() leaves the guest's LVT entry as it is; the real one is
 * masked until the guest writes its own (vpmu_lvtpc_update()).
 */
#define KVM_WITH(more)                                                                             \
	.signature = "KVMKVMKVM\0\0\0", .is_kvm = true, .silent_in_circular = true,                \
	.version_most = 2,                                                                         \
	.capabilities = CAPABILITY_FULL_WIDTH | CAPABILITY_LBR_FORMAT | CAPABILITY_PEBS | (more)
#define KVM KVM_WITH(0)
#define XEN                                                                                        \
	.signature = "XenVMMXenVMM", .version = 4 << 16 | 17, .ignores_hidden = true,              \
	.leaves_lvt_mask = true, .hides_pebs = true, .hides_added = true

static const struct hypervisor hypervisors[] = {
	{.name = "kvm", .says = "as KVM with the BTS series of 2022", KVM},
	{.name = "kvm-mainline",
	 .says = "as KVM, which hides BTS",
	 .hides_bts = true,
	 .hides_added = true,
	 KVM},
	{.name = "kvm-no-pmu",
	 .says = "as KVM without a PMU: enable_pmu=0, or QEMU's pmu=off",
	 .signature = "KVMKVMKVM\0\0\0",
	 .is_kvm = true,
	 .hides_bts = true,
	 .hides_pebs = true,
	 .hides_lbr = true,
	 .hides_added = true},
	{.name = "kvm-counters",
	 .says = "as KVM that gives its guests counters alone",
	 .hides_bts = true,
	 .hides_pebs = true,
	 .hides_lbr = true,
	 .hides_added = true,
	 KVM},
	{.name = "kvm-lbr",
	 .says = "as KVM that gives its guests counters and LBR",
	 .hides_bts = true,
	 .hides_pebs = true,
	 .hides_added = true,
	 KVM},
	{.name = "kvm-pebs",
	 .says = "as KVM that gives its guests counters and PEBS",
	 .hides_bts = true,
	 .hides_lbr = true,
	 .hides_added = true,
	 KVM},
	{.name = "kvm-pt",
	 .says = "as KVM of Linux 6.7 to 6.11 with pt_mode=1",
	 .hides_bts = true,
	 KVM},
	{.name = "kvm-6.5",
	 .says = "as KVM of Linux 6.5, which leaves the LVT entry unmasked at a PMI",
	 .hides_bts = true,
	 .hides_added = true,
	 .leaves_lvt_armed = true,
	 KVM_WITH(CAPABILITY_PEBS_BASELINE)},
	{.name = "kvm-6.5-pebs",
	 .says = "as that KVM under a QEMU without lbr-fmt=, which hides LBR",
	 .hides_bts = true,
	 .hides_lbr = true,
	 .hides_added = true,
	 .leaves_lvt_armed = true,
	 KVM_WITH(CAPABILITY_PEBS_BASELINE)},
	{.name = "kvm-qemu-10",
	 .says = "as KVM, which hides BTS, under a QEMU that leaves IA32_MISC_ENABLE[11] clear",
	 .hides_bts = true,
	 .hides_added = true,
	 .leaves_available = true,
	 KVM},
	{.name = "kvm-qemu-10-migratable",
	 .says = "as KVM under -cpu host of QEMU 10, with DS and neither BTS nor PEBS",
	 .hides_bts = true,
	 .hides_pebs = true,
	 .hides_added = true,
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
	if (hypervisor->hides_lbr ||
	    (hypervisor->is_kvm && !(profile->lbr.select & LBR_CALL_STACK)))
		profile->lbr = (struct lbr_layout){.depth = 0};
	performance->capabilities &=
		hypervisor->capabilities & ~(profile->lbr.depth ? 0 : CAPABILITY_LBR_FORMAT) &
		~(behaviour->pebs.available == PEBS_AVAILABLE ? 0 : CAPABILITY_PEBS);
}

bool hypervisor_hides_states(const struct hypervisor *hypervisor)
{
	return hypervisor && hypervisor->is_kvm;
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
	const struct hypervisor *hypervisor = vcpu->silicon->hypervisor;

	if (leaf == LEAF_COUNTERS && hypervisor && hypervisor->is_kvm && value[0])
		value[3] |= LEAF_COUNTERS_EDX_ANY_DEPRECATED;
	if (leaf != 1 || !hypervisor || !hides_ds(vcpu))
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

/* What the processor makes of the values that it gets with TraceEn. */
static void load_rtit(struct pt_state *pt)
{
	pt->status &= ~RTIT_STATUS_READ_ONLY;
	pt->output_mask_ptrs |= MASK_PTRS_FIXED;
	if (pt->cr3_match & CR3_MATCH_RESERVED)
		pt->cr3_match = 0; /* the hypervisor's own WRMSR raises #GP */
}

static enum msr_answer write_rtit(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	struct pt_state *pt = &vcpu->pt;
	bool traced = pt->ctl & CTL_TRACE_EN;

	if (traced)
		return index == MSR_RTIT_CTL && (pt->ctl ^ value) & ~CTL_TRACE_EN ? MSR_REFUSED
										  : MSR_GOES_ON;
	switch (index) {
	case MSR_RTIT_CTL:
		if (value & CTL_TRACE_EN)
			load_rtit(pt);
		return MSR_GOES_ON;
	case MSR_RTIT_STATUS:
		if (value &
		    ~(RTIT_STATUS_READ_ONLY | STATUS_ERROR | STATUS_STOPPED | STATUS_PACKET_BYTES))
			return MSR_REFUSED;
		pt->status = value & ~STATUS_PACKET_BYTES;
		pt->packet_bytes = (uint32_t)(value >> STATUS_BYTES_SHIFT);
		return MSR_DONE;
	case MSR_RTIT_CR3_MATCH:
		pt->cr3_match = value;
		return MSR_DONE;
	case MSR_RTIT_OUTPUT_MASK_PTRS:
		pt->output_mask_ptrs = value;
		return MSR_DONE;
	default:
		return MSR_GOES_ON;
	}
}

/* What no unit of the Debug Store has. */
static enum msr_answer write_of_kvm(struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	if (index >= MSR_FIXED_CTR0 && index < MSR_FIXED_CTR0 + FIXED_COUNTERS)
		*value &= (1ull << vcpu->silicon->profile->performance.width) - 1;
	return pt_of(vcpu) ? write_rtit(vcpu, index, *value) : MSR_GOES_ON;
}

enum msr_answer hypervisor_writes(struct vcpu *vcpu, uint32_t index, uint64_t *value, uint64_t old)
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
		break;
	}
	if (is_hidden(vcpu, index))
		return hypervisor_reads(vcpu, index, &ignored);
	return hypervisor->is_kvm ? write_of_kvm(vcpu, index, value) : MSR_GOES_ON;
}
