// SPDX-License-Identifier: MIT
/*
 * The answers of CPUID: the Intel processor of the profile, with DS, in front of what the real one
 * can execute. What the monitor neither provides nor can let through is masked out.
 */
#include "abi/hypervisor.h"
#include "lib/string.h"
#include "monitor/host/cpu.h"
#include "monitor/interp/interp.h"
#include "monitor/present.h"
#include "monitor/silicon.h"
#include "monitor/svm/guest.h"
#include "monitor/svm/lapic.h"
#include "monitor/unit.h"

#define LAST_EXTENDED_LEAF 0x80000008u
#define LIMITED_LEAF	   2u /* SDM Vol 3, table 35-2: IA32_MISC_ENABLE */

/* Leaf 1, ECX. */
#define MONITOR	     (1u << 3)
#define VMX	     (1u << 5)
#define EIST	     (1u << 7)
#define TM2	     (1u << 8)
#define PCID	     (1u << 17)
#define X2APIC	     (1u << 21)
#define TSC_DEADLINE (1u << 24)
#define XSAVE	     (1u << 26)
#define OSXSAVE	     (1u << 27)
#define HYPERVISOR   (1u << 31)
/* Leaf 1, EDX. */
#define APIC_FLAG    (1u << 9)
#define ACPI_THERMAL (1u << 22)
#define TM	     (1u << 29)
/* Leaf 7. */
#define LEAF_7_EBX_HIDDEN (1u << 2 | 1u << 4 | 1u << 11) /* SGX, HLE, RTM */
#define LEAF_7_ECX_KEPT	  (1u << 2)			 /* UMIP */
#define FSRM		  (1u << 4)			 /* EDX */
#define LEAF_7_EDX_KEPT	  FSRM
#define ERMS		  (1u << 9) /* EBX */
#define HYBRID		  (1u << 15)
/* Leaf 1AH. */
#define LEAF_KIND	0x1au
#define CORE_TYPE_SHIFT 24
/* Leaf 0DH. */
#define PAGE_BYTES 4096u
#define LEAF_STATE 0xdu
#define XSAVES	   (1u << 3) /* subleaf 1, EAX */
#define IN_XSS	   (1u << 0) /* of a component, ECX */
/* Leaf 8000_0001H. */
#define EXTENDED_ECX_KEPT (1u << 0 | 1u << 5 | 1u << 8) /* LAHF, LZCNT, PREFETCHW */
#define EXTENDED_EDX_KEPT (1u << 11 | 1u << 20 | 1u << 26 | 1u << 27 | 1u << 29)
#define XD		  (1u << 20)
#define INVARIANT_TSC	  (1u << 8)
#define ARAT		  (1u << 2)

#define CR4_OSXSAVE (1ull << 18)

/* EBX, ECX, EDX of leaf 4000_0000H; EBX, EDX, ECX of leaf 0. */
static struct cpuid text_leaf(uint32_t eax, const char *text)
{
	struct cpuid leaf = {.eax = eax};

	memcpy(&leaf.ebx, text, 12);
	return leaf;
}

static const struct profile *profile_of(const struct vcpu *vcpu)
{
	return vcpu->silicon->profile;
}

static uint32_t last_leaf(const struct vcpu *vcpu)
{
	if (vcpu->taken_away & MISC_ENABLE_LIMIT_CPUID)
		return LIMITED_LEAF;
	if (vcpu->silicon->core_type)
		return LEAF_KIND;
	return vcpu->silicon->last_leaf;
}

static struct cpuid brand_leaf(const struct profile *profile, unsigned part)
{
	struct cpuid leaf;

	memcpy(&leaf, profile->brand + part * sizeof(leaf), sizeof(leaf));
	return leaf;
}

static struct cpuid features(const struct vcpu *vcpu)
{
	struct cpuid leaf = cpuid(1, 0);

	leaf.eax = profile_of(vcpu)->signature;
	leaf.ecx &= ~(MONITOR | VMX | EIST | TM2 | PCID | TSC_DEADLINE | OSXSAVE);
	leaf.ecx |= X2APIC | HYPERVISOR;
	if (vcpu->cr4 & CR4_OSXSAVE)
		leaf.ecx |= OSXSAVE;
	leaf.edx &= ~(ACPI_THERMAL | TM | (apic_is_on(vcpu) ? 0 : APIC_FLAG));
	return leaf;
}

/* SDM Vol 2, CPUID: the TSC over the crystal. Bus clock and crystal have 100 and 24 MHz. 0 where
   there is none. */
static struct cpuid crystal(const struct silicon *silicon)
{
	if (!silicon->crystal)
		return (struct cpuid){0};
	return (struct cpuid){.eax = 24, .ebx = 100u * silicon->ratio};
}

/* That of processors that say their ratio, and QEMU's own, which does not say so. */
static bool is_tsc_invariant(const struct vcpu *vcpu)
{
	return cpuid(0x80000007, 0).edx & INVARIANT_TSC || (vcpu->silicon->ratio && is_emulator());
}

/* One page holds an XSAVE area, also in the interpreter. */
uint64_t virtual_xss(const struct silicon *silicon)
{
	uint32_t bytes = cpuid(LEAF_STATE, 0).ecx;
	uint64_t components = 0;

	for (unsigned i = 0; i < UNITS; i++)
		if (units[i]->component.number && units[i]->component.is_in(silicon)) {
			components |= 1ull << units[i]->component.number;
			bytes += units[i]->component.bytes;
		}
	if (!(cpuid(1, 0).ecx & XSAVE) || cpuid(LEAF_STATE, 1).eax & XSAVES || bytes > PAGE_BYTES ||
	    hypervisor_hides_states(silicon->hypervisor))
		return 0;
	return components;
}

/* Beside the components of the processor underneath: SDM Vol 1, 13.2. */
static struct cpuid extended_state(const struct vcpu *vcpu, uint32_t subleaf, struct cpuid leaf)
{
	if (!vcpu->xss_supported)
		return leaf;
	for (unsigned i = 0; i < UNITS; i++)
		if (units[i]->component.number && units[i]->component.number == subleaf)
			return (struct cpuid){.eax = units[i]->component.bytes, .ecx = IN_XSS};
	if (subleaf == 1)
		return (struct cpuid){.eax = leaf.eax | XSAVES,
				      .ebx = interp_xsave_bytes(vcpu),
				      .ecx = (uint32_t)vcpu->xss_supported};
	return leaf;
}

/* ERMS and FSRM say that REP MOVSB and STOSB are fast, and nothing of what code may do. QEMU's
   translator moves one byte a turn, and a kernel that believes them clears pages by bytes. */
static struct cpuid extended_features(const struct vcpu *vcpu, struct cpuid leaf)
{
	bool slow = is_emulator();

	leaf.eax = 0;
	leaf.ebx &= ~(LEAF_7_EBX_HIDDEN | (slow ? ERMS : 0));
	leaf.ecx &= LEAF_7_ECX_KEPT;
	leaf.edx &= LEAF_7_EDX_KEPT & ~(slow ? FSRM : 0);
	leaf.edx |= vcpu->silicon->core_type ? HYBRID : 0;
	return leaf;
}

static struct cpuid processor(const struct vcpu *vcpu, uint32_t index, uint32_t subleaf)
{
	struct cpuid leaf = cpuid(index, subleaf);

	switch (index) {
	case 0:
		return text_leaf(last_leaf(vcpu), "Genu"
						  "ntel"
						  "ineI");
	case 1:
		return features(vcpu);
	case 5: /* MONITOR */
	case 9: /* direct cache access */
	case 0xc:
	case 0x16: /* frequencies, sockets, key locker */
	case 0x17:
	case 0x18:
	case 0x19:
	case 0x1b:
	case 0xa: /* of a unit */
	case 0x14:
	case 0x1c:
		return (struct cpuid){0};
	case 6:
		return (struct cpuid){.eax = leaf.eax & ARAT};
	case 7:
		return subleaf ? (struct cpuid){0} : extended_features(vcpu, leaf);
	case LEAF_STATE:
		return extended_state(vcpu, subleaf, leaf);
	case 0x15:
		return crystal(vcpu->silicon);
	case LEAF_KIND:
		return (struct cpuid){.eax = (uint32_t)vcpu->silicon->core_type << CORE_TYPE_SHIFT};
	default:
		return leaf;
	}
}

static struct cpuid basic(const struct vcpu *vcpu, uint32_t index, uint32_t subleaf)
{
	struct cpuid leaf = processor(vcpu, index, subleaf);
	uint32_t value[4] = {leaf.eax, leaf.ebx, leaf.ecx, leaf.edx};

	for (unsigned i = 0; i < UNITS; i++)
		if (units[i]->cpuid)
			units[i]->cpuid(vcpu, index, subleaf, value);
	hypervisor_cpuid(vcpu, index, value);
	return (struct cpuid){value[0], value[1], value[2], value[3]};
}

static struct cpuid extended(const struct vcpu *vcpu, uint32_t index)
{
	bool no_xd = vcpu->taken_away & MISC_ENABLE_XD_DISABLE;
	struct cpuid leaf = cpuid(index, 0);

	switch (index & 0xffff) {
	case 0:
		return (struct cpuid){.eax = LAST_EXTENDED_LEAF};
	case 1:
		return (struct cpuid){.ecx = leaf.ecx & EXTENDED_ECX_KEPT,
				      .edx = leaf.edx & EXTENDED_EDX_KEPT & ~(no_xd ? XD : 0)};
	case 2:
	case 3:
	case 4:
		return brand_leaf(profile_of(vcpu), (index & 0xffff) - 2);
	case 6:
		return (struct cpuid){.ecx = leaf.ecx};
	case 7:
		return (struct cpuid){.edx = is_tsc_invariant(vcpu) ? INVARIANT_TSC : 0};
	case 8:
		return (struct cpuid){.eax = leaf.eax};
	default:
		return (struct cpuid){0};
	}
}

/* The hypervisor's leaves: none where it has none. */
static struct cpuid software(const struct vcpu *vcpu, uint32_t index)
{
	const struct hypervisor *hypervisor = vcpu->silicon->hypervisor;

	if (index == (hypervisor ? HYPERVISOR_LEAF_REHEARSAL : HYPERVISOR_LEAF))
		return text_leaf(index, HYPERVISOR_SIGNATURE);
	if (hypervisor && index == HYPERVISOR_LEAF)
		return text_leaf(HYPERVISOR_LEAF + 1, hypervisor->signature);
	return (struct cpuid){
		.eax = hypervisor && index == HYPERVISOR_LEAF + 1 ? hypervisor->version : 0};
}

void platform_cpuid(struct vcpu *vcpu)
{
	uint32_t index = (uint32_t)vcpu->gpr[RAX], subleaf = (uint32_t)vcpu->gpr[RCX];
	uint32_t last = last_leaf(vcpu);
	struct cpuid leaf;

	vcpu->cpuids++;
	saw_exit(vcpu);
	if (index >> 16 == HYPERVISOR_LEAF >> 16)
		leaf = software(vcpu, index);
	else if (index >= 0x80000000 && index <= LAST_EXTENDED_LEAF)
		leaf = extended(vcpu, index);
	else
		/* Beyond the last leaf Intel's processors answer with the last basic one: SDM Vol
		   2, CPUID. */
		leaf = basic(vcpu, index <= last ? index : last, subleaf);
	vcpu->gpr[RAX] = leaf.eax;
	vcpu->gpr[RBX] = leaf.ebx;
	vcpu->gpr[RCX] = leaf.ecx;
	vcpu->gpr[RDX] = leaf.edx;
}
