// SPDX-License-Identifier: MIT
// Which last branch records the processor has: architectural ones, or the stack of its model.
#include "drivers/lbr/lbr.h"
#include "drivers/lbr/registers.h"

static struct lbr_caps caps;

const struct lbr_caps *lbr_caps(void)
{
	return &caps;
}

static bool holds(uint32_t msr, uint64_t value)
{
	uint64_t read_back = 0;
	bool same = wrmsr_safe(msr, value) && rdmsr_safe(msr, &read_back) && read_back == value;

	wrmsr_safe(msr, 0);
	return same;
}

/* The registers of the last entry. */
static bool takes_address(const struct lbr_caps *found)
{
	unsigned last = found->depth - 1;

	return holds(found->from + last, 0x1000) && holds(found->to + last, 0x1000);
}

/* Of FROM and INFO: 17.4.8.1 and 17.10.1; 18.1.3 of 2022. */
static uint64_t find_flags(bool mispredicted, bool tsx)
{
	bool has_tsx = cpuid(0, 0).eax >= 7 && cpuid(7, 0).ebx & CPUID_7_EBX_TSX;

	return (mispredicted ? LBR_MISPREDICTED : 0) | (tsx && has_tsx ? LBR_TSX : 0);
}

/* --- The stack of a model --- */

/* Models of family 6 by depth: SDM Vol 3, tables 17-4, 17-10, 17-15; Linux 6.1, events/intel. */
static const struct {
	uint8_t depth, models[30];
} families[] = {
	{4, {0x0f, 0x16, 0x17, 0x1d}},
	{8, {0x1c, 0x26, 0x27, 0x35, 0x36, 0x37, 0x4a, 0x4c, 0x4d, 0x5a, 0x5d}},
	{16,
	 {0x1a, 0x1e, 0x1f, 0x25, 0x2a, 0x2c, 0x2d, 0x2e, 0x2f, 0x3a, 0x3c, 0x3d, 0x3e, 0x3f, 0x45,
	  0x46, 0x47, 0x4f, 0x56}},
	{32,
	 {0x4e, 0x55, 0x5c, 0x5e, 0x5f, 0x66, 0x6a, 0x6c, 0x7a, 0x7d, 0x7e, 0x8c, 0x8d, 0x8e, 0x9e,
	  0xa5, 0xa6, 0xa7}},
};

static unsigned find_depth(struct cpuid_signature signature)
{
	if (signature.family == 15) /* from model 3 on, with Intel 64 */
		return signature.model >= 3 && signature.model <= 6 ? 16 : 0;
	for (unsigned i = 0; signature.family == 6 && i < sizeof(families) / sizeof(*families); i++)
		for (const uint8_t *model = families[i].models; *model; model++)
			if (*model == signature.model)
				return families[i].depth;
	return 0;
}

/* NetBurst has no IA32_PERF_CAPABILITIES: it stores addresses without flags (17.11.2). */
static unsigned find_format(uint32_t ecx)
{
	uint64_t capabilities = 0;

	if (!(ecx & CPUID_1_ECX_PDCM))
		return LBR_FMT_LIP;
	rdmsr_safe(IA32_PERF_CAPABILITIES, &capabilities);
	return capabilities & CAPABILITIES_LBR_FMT;
}

/* Reserved bits raise #GP: 17.7.2. */
static uint64_t find_select(void)
{
	const uint64_t all = LBR_SELECT_BY_LEVEL | LBR_SELECT_WITHOUT(0);

	if (holds(MSR_LBR_SELECT, all | LBR_SELECT_CALL_STACK))
		return all | LBR_SELECT_CALL_STACK;
	return holds(MSR_LBR_SELECT, all) ? all : 0;
}

/* Its registers take what they should, and IA32_DEBUGCTL takes LBR. */
static bool find_stack(struct lbr_caps *found)
{
	struct cpuid_result one = cpuid(1, 0);
	struct cpuid_signature signature = cpuid_signature(one.eax);
	unsigned depth = find_depth(signature), format = depth ? find_format(one.ecx) : LBR_FMT_32;
	uint64_t top;

	if (format == LBR_FMT_32 || format > LBR_FMT_INFO2)
		return false;
	*found = (struct lbr_caps){
		.depth = depth,
		.format = format,
		.from = depth < 16 ? MSR_LASTBRANCH_FROM_C2 : MSR_LASTBRANCH_FROM,
		.to = depth < 16 ? MSR_LASTBRANCH_TO_C2 : MSR_LASTBRANCH_TO,
		.info = format == LBR_FMT_INFO || format == LBR_FMT_INFO2 ? MSR_LBR_INFO : 0,
		.top = signature.family == 15 ? MSR_LASTBRANCH_TOS_P4 : MSR_LASTBRANCH_TOS,
		.flags = find_flags(format >= LBR_FMT_FLAGS,
				    format == LBR_FMT_TSX || format == LBR_FMT_INFO),
	};
	if (!takes_address(found) || (found->info && !holds(found->info + depth - 1, 1)) ||
	    !rdmsr_safe(found->top, &top) || !debugctl_holds(DEBUGCTL_LBR))
		return false;
	found->select = find_select();
	found->freezes = debugctl_holds(DEBUGCTL_LBR | DEBUGCTL_FREEZE_LBRS);
	return true;
}

/* --- Architectural --- */

/* LBR_Frz is of version 4 of performance monitoring: 18.2.4. */
static bool has_freeze(void)
{
	return (cpuid(0xa, 0).eax & 0xff) >= 4 && debugctl_holds(DEBUGCTL_FREEZE_LBRS);
}

/* SDM Vol 1, 13.2. */
static bool has_saved_state(void)
{
	struct cpuid_result leaf = cpuid(LBR_STATE_LEAF, 1);

	return leaf.eax & LBR_STATE_XSAVES && leaf.ecx & LBR_STATE_COMPONENT;
}

/*
 * By CPUID; then IA32_LBR_CTL, which firmware may have left on, takes LBREn, and the last entry of
 * the deepest an address. There are MSRs for 32 entries.
 */
static bool find_records(struct lbr_caps *found)
{
	struct cpuid_result leaf = {0};

	if (cpuid(0, 0).eax >= LBR_LEAF && cpuid(7, 0).edx & CPUID_7_EDX_ARCH_LBR)
		leaf = cpuid(LBR_LEAF, 0);
	leaf.eax &= 0xf;
	if (!leaf.eax)
		return false;
	*found = (struct lbr_caps){
		.architectural = true,
		.depth = 8 * (32 - (unsigned)__builtin_clz(leaf.eax)),
		.depths = leaf.eax,
		.format = LBR_FMT_NONE,
		.from = IA32_LBR_0_FROM_IP,
		.to = IA32_LBR_0_TO_IP,
		.info = IA32_LBR_0_INFO,
		.select = (leaf.ebx & LBR_LEAF_BY_LEVEL ? LBR_SELECT_BY_LEVEL : 0) |
			  (leaf.ebx & LBR_LEAF_BY_KIND ? LBR_SELECT_WITHOUT(0) : 0) |
			  (leaf.ebx & LBR_LEAF_CALL_STACK ? LBR_SELECT_CALL_STACK : 0),
		.freezes = has_freeze(),
		.flags = find_flags(leaf.ecx & LBR_LEAF_MISPREDICTED, true),
		.cycles = leaf.ecx & LBR_LEAF_CYCLES,
		.kinds = leaf.ecx & LBR_LEAF_KINDS,
		.xsaves = has_saved_state(),
	};
	return holds(IA32_LBR_CTL, LBR_CTL_LBREN) && wrmsr_safe(IA32_LBR_DEPTH, found->depth) &&
	       takes_address(found);
}

/* A processor may have both. */
void lbr_init(void)
{
	struct lbr_caps found;

	caps = (struct lbr_caps){0};
	if (cpuid_is_intel() && (find_records(&found) || find_stack(&found)))
		caps = found;
}
