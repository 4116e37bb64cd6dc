// SPDX-License-Identifier: MIT
/* sources: monitor/svm/identity.c monitor/profile.c monitor/pmu/events.c */
/* sources: monitor/present.c lib/string.c */
#include <string.h>

#include "abi/hypervisor.h"
#include "monitor/interp/interp.h"
#include "monitor/present.h"
#include "monitor/silicon.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/lapic.h"
#include "monitor/unit.h"
#include "tests/host/host.h"

#define PERF_AVAILABLE 0x80u

static struct silicon silicon;
static uint64_t written;
static struct vcpu vcpu = {.silicon = &silicon};

struct ds_enumeration ds_enumerate(const struct vcpu *unused)
{
	return (struct ds_enumeration){.ds = true, .dtes64 = true, .ds_cpl = true};
}

static bool pebs_shown;

bool pebs_present(const struct vcpu *unused)
{
	return pebs_shown;
}

/* The rows. One has DS, one counters, one leaf 14H and a component of XSAVES, which are there while
   silicon.last_leaf says so. */
static void show_ds(const struct vcpu *unused, uint32_t leaf, uint32_t subleaf, uint32_t value[4])
{
	if (leaf == 1) {
		value[2] |= LEAF_1_ECX_DTES64 | LEAF_1_ECX_DS_CPL;
		value[3] |= LEAF_1_EDX_DS;
	}
}

static void show_counters(const struct vcpu *unused, uint32_t leaf, uint32_t subleaf,
			  uint32_t value[4])
{
	if (leaf == 0xa)
		memcpy(value, ((const uint32_t[]){0x07300403, 0x18, 0, 0x603}), 16);
}

static void show_more(const struct vcpu *unused, uint32_t leaf, uint32_t subleaf, uint32_t value[4])
{
	for (unsigned n = 0; n < 4 && leaf == 0x14; n++)
		value[n] = subleaf * 4 + n;
}

static bool has_component(const struct silicon *of)
{
	return of->last_leaf >= 0x14;
}

static const struct unit ds = {.cpuid = show_ds}, counters = {.cpuid = show_counters},
			 more = {.cpuid = show_more,
				 .component = {.number = 8, .bytes = 128, .is_in = has_component}},
			 none;
const struct unit *const units[UNITS] = {&ds, &counters, &more, &none, &none};

unsigned interp_xsave_bytes(const struct vcpu *unused)
{
	return 960;
}

/* Each CPUID is one of a guest's exits. */
static unsigned exits;

void saw_exit(struct vcpu *unused)
{
	exits++;
}

static bool apic_on = true;

bool apic_is_on(const struct vcpu *unused)
{
	return apic_on;
}

static void ask(uint32_t leaf, uint32_t subleaf)
{
	if (!silicon.profile) {
		silicon.profile = profile_get(0);
		silicon.last_leaf = silicon.profile->last_leaf;
	}
	vcpu.gpr[RAX] = 0xdeadbeef00000000 | leaf;
	vcpu.gpr[RCX] = subleaf;
	exits = 0;
	platform_cpuid(&vcpu);
	assert_int_equal(exits, 1);
	for (unsigned i = RAX; i <= RBX; i++)
		assert_int_equal(vcpu.gpr[i] >> 32, 0);
}

static bool has(unsigned reg, unsigned bit)
{
	return vcpu.gpr[reg] >> bit & 1;
}

static void assert_text(const char *text, unsigned first, unsigned second, unsigned third)
{
	const uint32_t words[3] = {(uint32_t)vcpu.gpr[first], (uint32_t)vcpu.gpr[second],
				   (uint32_t)vcpu.gpr[third]};

	assert_memory_equal(words, text, 12);
}

UNIT(is_an_intel_with_debug_store)
{
	ask(0, 0);
	assert_text("GenuineIntel", RBX, RDX, RCX);
	assert_true(vcpu.gpr[RAX] >= 10);
	ask(1, 0);
	assert_int_equal(vcpu.gpr[RAX], 0x000106a5);
	assert_true(has(RDX, 21) && has(RCX, 2) && has(RCX, 4)); /* DS, DTES64, DS-CPL */
	assert_true(has(RCX, 21));				 /* x2APIC */
	assert_true(has(RCX, 31));
}

UNIT(hides_what_it_does_not_provide)
{
	static const unsigned hidden[] = {3, 5, 17, 24};

	ask(1, 0);
	for (unsigned i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		assert_false(has(RCX, hidden[i]));
	ask(7, 0);
	assert_false(has(RCX, 3) || has(RCX, 7) || has(RCX, 16)); /* PKU, CET_SS, LA57 */
	ask(0x80000000, 0);
	assert_int_equal(vcpu.gpr[RAX], 0x80000008);
	ask(0x80000001, 0);
	assert_false(has(RCX, 2)); /* SVM */
	ask(5, 0);
	assert_int_equal(vcpu.gpr[RAX] | vcpu.gpr[RBX] | vcpu.gpr[RCX] | vcpu.gpr[RDX], 0);
}

UNIT(misc_enable_takes_away)
{
	ask(2, 0);
	uint64_t second = vcpu.gpr[RAX];

	vcpu.taken_away = MISC_ENABLE_LIMIT_CPUID;
	ask(0, 0);
	assert_int_equal(vcpu.gpr[RAX], 2);
	assert_text("GenuineIntel", RBX, RDX, RCX);
	ask(10, 0); /* beyond the last leaf: the last */
	assert_int_equal(vcpu.gpr[RAX], second);
	ask(0x80000001, 0);
	assert_true(has(RDX, 20));
	vcpu.taken_away = MISC_ENABLE_XD_DISABLE;
	ask(0x80000001, 0);
	assert_false(has(RDX, 20));
	assert_true(has(RDX, 29));
	vcpu.taken_away = 0;
	ask(10, 0);
	assert_int_equal(vcpu.gpr[RAX], 0x07300403);
}

UNIT(osxsave_follows_cr4)
{
	vcpu.cr4 = 0;
	ask(1, 0);
	assert_false(has(RCX, 27));
	vcpu.cr4 = 1u << 18;
	ask(1, 0);
	assert_true(has(RCX, 27));
	vcpu.cr4 = 0;
}

UNIT(counters_and_their_events)
{
	ask(10, 0);
	assert_int_equal(vcpu.gpr[RAX], 0x07300403);
	assert_int_equal(vcpu.gpr[RBX], 0x18); /* no cache events */
	assert_int_equal(vcpu.gpr[RDX], 0x603);
}

/* The last leaf is that of a unit that was added. Beyond it CPUID answers as of the last. */
UNIT(a_unit_adds_leaves)
{
	silicon.last_leaf = 0x14;
	silicon.profile = profile_get(0);
	ask(0, 0);
	assert_int_equal(vcpu.gpr[RAX], 0x14);
	ask(0x15, 1);
	assert_int_equal(vcpu.gpr[RAX], 4);
	ask(0x14, 1);
	assert_int_equal(vcpu.gpr[RAX], 4);
	assert_int_equal(vcpu.gpr[RDX], 7);
	silicon.last_leaf = 0x15;
	silicon.crystal = true;
	silicon.ratio = 24;
	ask(0, 0);
	assert_int_equal(vcpu.gpr[RAX], 0x15);
	ask(0x15, 0);
	assert_int_equal(vcpu.gpr[RBX] * 24, vcpu.gpr[RAX] * 24 * 100); /* MHz of crystal and bus */
	silicon = (struct silicon){0};
}

UNIT(says_whose_silicon_it_is)
{
	ask(HYPERVISOR_LEAF, 0);
	assert_int_equal(vcpu.gpr[RAX], HYPERVISOR_LEAF);
	assert_text(HYPERVISOR_SIGNATURE, RBX, RCX, RDX);
}

/* KVM: Linux, Documentation/virt/kvm/x86/cpuid.rst; Xen: xen/include/public/arch-x86/cpuid.h. */
UNIT(a_rehearsal_shows_another_hypervisor)
{
	silicon.hypervisor = hypervisor_find("kvm");
	ask(HYPERVISOR_LEAF, 0);
	assert_int_equal(vcpu.gpr[RAX], HYPERVISOR_LEAF + 1);
	assert_text("KVMKVMKVM\0\0\0", RBX, RCX, RDX);
	ask(HYPERVISOR_LEAF + 0x100, 0);
	assert_text(HYPERVISOR_SIGNATURE, RBX, RCX, RDX);
	ask(1, 0);
	assert_true(has(RDX, 21) && has(RCX, 2) && has(RCX, 4));
	silicon.hypervisor = hypervisor_find("xen");
	ask(HYPERVISOR_LEAF, 0);
	assert_text("XenVMMXenVMM", RBX, RCX, RDX);
	ask(HYPERVISOR_LEAF + 1, 0);
	assert_int_equal(vcpu.gpr[RAX], 0x40011);
	silicon.hypervisor = hypervisor_find("xen-default");
	ask(1, 0);
	assert_false(has(RDX, 21) || has(RCX, 2) || has(RCX, 4));
	silicon.hypervisor = hypervisor_find("kvm-mainline");
	ask(1, 0);
	assert_false(has(RDX, 21) || has(RCX, 2));
	pebs_shown = true;
	ask(1, 0);
	assert_true(has(RDX, 21) && has(RCX, 2));
	pebs_shown = false;
	silicon.hypervisor = NULL;
	ask(HYPERVISOR_LEAF + 0x100, 0);
	assert_int_equal(vcpu.gpr[RBX], 0);
}

enum {
	TR = 1 << 6,
	BTS = 1 << 7,
	BTINT = 1 << 8,
	OFF_OS = 1 << 9,
	LBR = 1,
	BTF = 2,
	BIT_11 = 1 << 11
};

/* What is left of a profile for a guest. */
static struct profile limited(const char *name, const char *of)
{
	struct profile profile = *profile_find(of);
	struct behaviour behaviour = {0};

	hypervisor_adjust(hypervisor_find(name), &profile, &behaviour);
	hypervisor_limit(hypervisor_find(name), &behaviour, &profile);
	silicon.profile = NULL;
	return profile;
}

static struct profile shown;

static enum msr_answer write(const char *name, uint32_t index, uint64_t value)
{
	silicon.hypervisor = hypervisor_find(name);
	silicon.profile = &shown;
	enum msr_answer answer = hypervisor_writes(&vcpu, index, &value, PERF_AVAILABLE | 1);
	written = value;
	return answer;
}

/* Linux, vmx_is_valid_debugctl(); Xen, vmx_msr_write_intercept(). */
UNIT(debug_controls_by_hypervisor)
{
	const struct profile without_lbr = shown = limited("kvm", "nehalem");

	assert_int_equal(write("kvm", MSR_DEBUGCTL, TR | BTS | BTINT | OFF_OS), MSR_GOES_ON);
	assert_int_equal(written, TR | BTS | BTINT | OFF_OS);
	assert_int_equal(write("kvm", MSR_DEBUGCTL, TR | LBR | BTF), MSR_GOES_ON);
	assert_int_equal(written, TR);
	assert_int_equal(write("kvm", MSR_DEBUGCTL, BIT_11), MSR_REFUSED);
	assert_int_equal(write("kvm-mainline", MSR_DEBUGCTL, BTINT), MSR_REFUSED);
	assert_int_equal(write("kvm-mainline", MSR_DEBUGCTL, LBR | BTF), MSR_GOES_ON);
	assert_int_equal(written, 0);
	shown = *profile_find("icelake");
	assert_int_equal(write("kvm-mainline", MSR_DEBUGCTL, LBR | BTF | BIT_11), MSR_GOES_ON);
	assert_int_equal(written, LBR | BIT_11);
	assert_int_equal(write("kvm-mainline", MSR_DEBUGCTL, BIT_11 << 1), MSR_REFUSED);
	assert_int_equal(write("kvm-mainline", MSR_DEBUGCTL, TR), MSR_REFUSED);
	shown = without_lbr;
	assert_int_equal(write("xen", MSR_DEBUGCTL, TR | LBR), MSR_GOES_ON);
	assert_int_equal(written, TR | LBR);
	assert_int_equal(write("xen", MSR_DEBUGCTL, BIT_11), MSR_REFUSED);
	assert_int_equal(write("xen-default", MSR_DEBUGCTL, TR), MSR_REFUSED);
	assert_int_equal(write("none", MSR_DEBUGCTL, BIT_11), MSR_GOES_ON);
}

UNIT(hidden_areas_by_hypervisor)
{
	uint64_t value = 7;

	assert_int_equal(write("kvm", MSR_DS_AREA, 0x1000), MSR_GOES_ON);
	assert_int_equal(written, 0x1000);
	assert_int_equal(write("xen", MSR_DS_AREA, 0x1000), MSR_GOES_ON);
	assert_int_equal(write("kvm-mainline", MSR_DS_AREA, 0x1000), MSR_REFUSED);
	assert_int_equal(hypervisor_reads(&vcpu, MSR_DS_AREA, &value), MSR_REFUSED);
	assert_int_equal(write("xen-default", MSR_DS_AREA, 0x1000), MSR_DONE);
	assert_int_equal(hypervisor_reads(&vcpu, MSR_DS_AREA, &value), MSR_DONE);
	assert_int_equal(value, 0);
	assert_int_equal(hypervisor_reads(&vcpu, MSR_DEBUGCTL, &value), MSR_GOES_ON);
	pebs_shown = true;
	assert_int_equal(write("kvm-mainline", MSR_DS_AREA, 0x1000), MSR_GOES_ON);
	assert_int_equal(write("kvm-mainline", MSR_PEBS_ENABLE, 1), MSR_GOES_ON);
	assert_int_equal(write("kvm-mainline", MSR_PEBS_FRONTEND, 0), MSR_REFUSED);
	pebs_shown = false;
	/* No PEBS, whatever is hidden. */
	assert_int_equal(write("kvm", MSR_PEBS_ENABLE, 0), MSR_REFUSED);
	assert_int_equal(write("xen", MSR_PEBS_ENABLE, 0), MSR_DONE);
	assert_int_equal(write("xen", MSR_PEBS_ENABLE, 1), MSR_REFUSED);
}

/* Linux, vmx_get_perf_capabilities() and kvm_init_pmu_capability(). */
UNIT(counters_by_hypervisor)
{
	struct profile profile = limited("kvm-mainline", "icelake");

	assert_int_equal(profile.performance.version, 2);
	assert_int_equal(profile.performance.capabilities, 0x24c5); /* no PEBS_BASELINE */
	assert_int_equal(profile.lbr.depth, 32);
	profile = limited("kvm-mainline", "haswell");
	assert_int_equal(profile.performance.capabilities, 0x2004);
	assert_int_equal(profile.lbr.depth, 16);
	profile = limited("kvm-counters", "icelake");
	assert_int_equal(profile.performance.version, 2);
	assert_int_equal(profile.performance.capabilities, 0x2000);
	assert_int_equal(profile.lbr.depth, 0);
	profile = limited("kvm-lbr", "icelake");
	assert_int_equal(profile.performance.capabilities, 0x2005);
	assert_int_equal(profile.lbr.depth, 32);
	profile = limited("kvm-pebs", "icelake");
	assert_int_equal(profile.performance.capabilities, 0x24c0);
	assert_int_equal(profile.lbr.depth, 0);
	profile = limited("kvm-6.5", "icelake");
	assert_int_equal(profile.performance.capabilities, 0x64c5);
	profile = limited("kvm-6.5-pebs", "icelake");
	assert_int_equal(profile.performance.capabilities, 0x64c0);
	assert_int_equal(profile.lbr.depth, 0);
	profile = limited("kvm-mainline", "bonnell"); /* no call stack */
	assert_int_equal(profile.performance.capabilities, 0);
	assert_int_equal(profile.lbr.depth, 0);
	profile = limited("xen-default", "skylake");
	assert_int_equal(profile.performance.version, 0);
	assert_int_equal(profile.performance.capabilities, 0);
	profile = limited("xen", "skylake");
	assert_int_equal(profile.performance.version, 4);
}

/* Linux, __do_cpuid_func() and pmc_write_counter(). */
UNIT(any_thread_by_hypervisor)
{
	shown = limited("kvm-counters", "icelake");
	assert_int_equal(write("kvm-counters", 0x30b, UINT64_MAX), MSR_GOES_ON);
	assert_int_equal(written, (1ull << 48) - 1);
	assert_int_equal(write("kvm-counters", 0x30c, UINT64_MAX), MSR_GOES_ON);
	assert_int_equal(written, UINT64_MAX);
	assert_int_equal(write("xen", 0x309, UINT64_MAX), MSR_GOES_ON);
	assert_int_equal(written, UINT64_MAX);
	ask(10, 0);
	assert_int_equal(vcpu.gpr[RDX], 0x603);
	silicon.hypervisor = hypervisor_find("kvm-counters");
	ask(10, 0);
	assert_int_equal(vcpu.gpr[RDX], 0x8603);
	silicon.hypervisor = NULL;
}

/* Linux up to 6.12, vmx_rtit_ctl_check() and vmx_set_msr(). */
UNIT(trace_registers_by_hypervisor)
{
	static const struct pt_enumeration enumeration;
	const uint64_t traced = CTL_TRACE_EN | CTL_TOPA;

	shown = *profile_get(0);
	silicon.has_pt = &enumeration;
	assert_int_equal(write("kvm-pt", MSR_RTIT_STATUS, 1 << 3), MSR_REFUSED);
	assert_int_equal(write("kvm-pt", MSR_RTIT_STATUS, 0x500000017), MSR_DONE);
	assert_int_equal(vcpu.pt.status, 0x17);
	assert_int_equal(vcpu.pt.packet_bytes, 5);
	assert_int_equal(write("kvm-pt", MSR_RTIT_CR3_MATCH, 0x101f), MSR_DONE);
	assert_int_equal(vcpu.pt.cr3_match, 0x101f);
	assert_int_equal(write("kvm-pt", MSR_RTIT_OUTPUT_MASK_PTRS, 0x80), MSR_DONE);
	assert_int_equal(vcpu.pt.output_mask_ptrs, 0x80);
	assert_int_equal(write("kvm-pt", MSR_RTIT_OUTPUT_BASE, 1), MSR_GOES_ON);
	assert_int_equal(write("xen", MSR_RTIT_CR3_MATCH, 0x101f), MSR_GOES_ON);
	/* What the processor gets with TraceEn. */
	assert_int_equal(write("kvm-pt", MSR_RTIT_CTL, traced), MSR_GOES_ON);
	assert_int_equal(vcpu.pt.status, 0x10);
	assert_int_equal(vcpu.pt.output_mask_ptrs, 0xff);
	assert_int_equal(vcpu.pt.cr3_match, 0);
	vcpu.pt.ctl = traced;
	assert_int_equal(write("kvm-pt", MSR_RTIT_CTL, 0), MSR_REFUSED);
	assert_int_equal(write("kvm-pt", MSR_RTIT_CTL, traced | CTL_USER), MSR_REFUSED);
	assert_int_equal(write("kvm-pt", MSR_RTIT_CTL, traced), MSR_GOES_ON);
	assert_int_equal(write("kvm-pt", MSR_RTIT_CTL, CTL_TOPA), MSR_GOES_ON);
	assert_int_equal(write("kvm-pt", MSR_RTIT_STATUS, 0), MSR_GOES_ON);
	vcpu.pt = (struct pt_state){0};
	silicon.has_pt = NULL;
	silicon.hypervisor = NULL;
}

/* The VMM's bits: Linux 9fc222967a39. */
UNIT(unavailable_bits_by_hypervisor)
{
	const uint64_t pebs = BIT_11 << 1, both = BIT_11 | pebs;

	silicon.hypervisor = hypervisor_find("kvm-mainline");
	assert_int_equal(hypervisor_misc_enable(&vcpu, 1), 1 | BIT_11);
	assert_int_equal(hypervisor_misc_enable(&vcpu, pebs), both);
	silicon.hypervisor = hypervisor_find("kvm-qemu-10");
	assert_int_equal(hypervisor_misc_enable(&vcpu, 1 | pebs | PERF_AVAILABLE), 1);
	ask(1, 0);
	assert_false(has(RDX, 21));
	silicon.hypervisor = hypervisor_find("kvm-qemu-10-migratable");
	assert_int_equal(hypervisor_misc_enable(&vcpu, 1 | pebs | PERF_AVAILABLE), 1);
	ask(1, 0);
	assert_true(has(RDX, 21) && has(RCX, 2));
	silicon.hypervisor = hypervisor_find("kvm");
	assert_int_equal(hypervisor_misc_enable(&vcpu, pebs), pebs);
	silicon.hypervisor = NULL;
	assert_int_equal(hypervisor_misc_enable(&vcpu, pebs), pebs);
}

/* Linux, kvm_set_msr_common(); Xen, vmx_msr_write_intercept(). */
UNIT(misc_enable_by_hypervisor)
{
	const uint64_t old = PERF_AVAILABLE | 1;

	assert_int_equal(write("kvm", MSR_MISC_ENABLE, old | BIT_11), MSR_REFUSED);
	assert_int_equal(write("kvm", MSR_MISC_ENABLE, old | BIT_11 << 1), MSR_REFUSED);
	assert_int_equal(write("kvm", MSR_MISC_ENABLE, 1 << 3), MSR_DONE);
	assert_int_equal(write("xen", MSR_MISC_ENABLE, old), MSR_DONE);
	assert_int_equal(write("xen", MSR_MISC_ENABLE, old | 1 << 3), MSR_REFUSED);
	silicon.hypervisor = NULL;
}

/* SDM Vol 3, 10.4.3. */
UNIT(apic_follows_its_enable)
{
	ask(1, 0);
	assert_true(has(RDX, 9));
	apic_on = false;
	ask(1, 0);
	assert_false(has(RDX, 9));
	apic_on = true;
}

/* SDM Vol 1, 13.2: component 8, in no processor that has XSAVES itself. */
UNIT(state_of_a_unit)
{
	uint32_t own;

	ask(0xd, 1);
	own = (uint32_t)vcpu.gpr[RAX];
	assert_int_equal(virtual_xss(&silicon), 0);
	silicon.last_leaf = 0x14;
	assert_int_equal(virtual_xss(&silicon), own >> 3 & 1 ? 0 : 1 << 8);
	silicon.hypervisor = hypervisor_find("kvm-pt"); /* Linux: kvm_caps.supported_xss */
	assert_int_equal(virtual_xss(&silicon), 0);
	silicon.hypervisor = NULL;
	vcpu.xss_supported = 1 << 8;
	ask(0xd, 1);
	assert_int_equal(vcpu.gpr[RAX], own | 1 << 3);
	assert_int_equal(vcpu.gpr[RBX], 960);
	assert_int_equal(vcpu.gpr[RCX], 1 << 8);
	ask(0xd, 8);
	assert_int_equal(vcpu.gpr[RAX], 128);
	assert_int_equal(vcpu.gpr[RBX], 0);
	assert_int_equal(vcpu.gpr[RCX], 1);
	vcpu.xss_supported = 0;
	silicon = (struct silicon){0};
}

/* SDM Vol 2, CPUID: a leaf beyond the last answers as the last basic one. */
UNIT(leaves_beyond_the_last)
{
	uint64_t last[2];

	ask(0xd, 0);
	last[0] = vcpu.gpr[RAX];
	last[1] = vcpu.gpr[RCX];
	ask(0x12345, 0);
	assert_int_equal(vcpu.gpr[RAX], last[0]);
	ask(0x8000001f, 0);
	assert_int_equal(vcpu.gpr[RCX], last[1]);
}
