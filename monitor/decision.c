/* SPDX-License-Identifier: MIT */
#include "monitor/decision.h"

#include "lib/string.h"
#include "monitor/console.h"
#include "monitor/host/cpu.h"

enum {
	LEAF_1_EDX_DS = 1 << 21,
	LEAF_7_EBX_PT = 1 << 25,
	MISC_ENABLE_BTS_UNAVAILABLE = 1 << 11,
	VM_CR_SVMDIS = 1 << 4,
};
#define LEAF_EXTENDED	      0x80000000u
#define LEAF_EXTENDED_1	      0x80000001u
#define LEAF_SVM	      0x8000000au
#define LEAF_EXTENDED_1_SVM   (1u << 2) /* ECX */
#define LEAF_EXTENDED_1_LAHF  (1u << 0) /* in 64-bit mode; ECX */
#define LEAF_SVM_NESTED_PAGES (1u << 0) /* EDX */

static bool is_intel(void)
{
	struct cpuid leaf = cpuid(0, 0);
	uint32_t vendor[3] = {leaf.ebx, leaf.edx, leaf.ecx};

	return memcmp(vendor, "GenuineIntel", 12) == 0;
}

static bool has_ds(void)
{
	return is_intel() && cpuid(1, 0).edx & LEAF_1_EDX_DS;
}

/* MISC_ENABLE is read only where DS is enumerated: elsewhere the bit means nothing. */
static bool has_bts(void)
{
	uint64_t misc_enable;

	return has_ds() && read_msr_safe(MSR_MISC_ENABLE, &misc_enable) &&
	       !(misc_enable & MISC_ENABLE_BTS_UNAVAILABLE);
}

/* NULL, or why the kernel cannot run as a guest. */
static const char *svm_missing(void)
{
	uint64_t vm_cr;

	if (cpuid(LEAF_EXTENDED, 0).eax < LEAF_SVM ||
	    !(cpuid(LEAF_EXTENDED_1, 0).ecx & LEAF_EXTENDED_1_SVM))
		return "the processor has neither BTS nor SVM; the kernel runs without BTS";
	if (!(cpuid(LEAF_SVM, 0).edx & LEAF_SVM_NESTED_PAGES))
		return "no BTS, and SVM without nested paging; the kernel runs without BTS";
	/* The interpreter has flags of it. */
	if (!(cpuid(LEAF_EXTENDED_1, 0).ecx & LEAF_EXTENDED_1_LAHF))
		return "no BTS, and no LAHF in 64-bit mode; the kernel runs without BTS";
	if (read_msr_safe(MSR_VM_CR, &vm_cr) && vm_cr & VM_CR_SVMDIS)
		return "no BTS, and SVM is disabled by firmware; the kernel runs without BTS";
	return NULL;
}

void clear_leftover_tracing(void)
{
	uint64_t value;

	if (read_msr_safe(MSR_DEBUGCTL, &value) && value) {
		say("firmware left IA32_DEBUGCTL at 0x%llx; cleared", (unsigned long long)value);
		write_msr_safe(MSR_DEBUGCTL, 0);
	}
	if (is_intel() && cpuid(0, 0).eax >= 7 && cpuid(7, 0).ebx & LEAF_7_EBX_PT &&
	    read_msr_safe(MSR_RTIT_CTL, &value) && value) {
		say("firmware left IA32_RTIT_CTL at 0x%llx; cleared", (unsigned long long)value);
		write_msr_safe(MSR_RTIT_CTL, 0);
	}
}

struct decision decide(enum vbts wanted)
{
	const char *missing;

	if (has_bts())
		return (struct decision){false, "the processor has BTS; the kernel runs on it"};
	if (wanted == VBTS_OFF)
		return (struct decision){false, "vbts=off; the kernel runs without virtual BTS"};
	missing = svm_missing();
	if (missing)
		return (struct decision){false, missing};
	if (wanted == VBTS_AUTO && !is_emulator())
		return (struct decision){false, "no BTS, and this is no emulator: vbts=on would "
						"provide virtual BTS; the kernel runs without"};
	return (struct decision){true, "the kernel runs as a guest with virtual BTS"};
}
