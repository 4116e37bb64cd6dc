// SPDX-License-Identifier: MIT
#include "drivers/lbr/lbr.h"

#include "drivers/lbr/registers.h"

static struct lbr_caps caps;

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

/* 17.4.8.1 and 17.10.1. */
static uint64_t find_flags(unsigned format)
{
	bool tsx = cpuid(0, 0).eax >= 7 && cpuid(7, 0).ebx & CPUID_7_EBX_TSX;

	return (format >= LBR_FMT_FLAGS ? LBR_MISPREDICTED : 0) |
	       (tsx && (format == LBR_FMT_TSX || format == LBR_FMT_INFO) ? LBR_TSX : 0);
}

static bool holds(uint32_t msr, uint64_t value)
{
	uint64_t read_back = 0;
	bool same = wrmsr_safe(msr, value) && rdmsr_safe(msr, &read_back) && read_back == value;

	wrmsr_safe(msr, 0);
	return same;
}

/* The registers of the last entry take an address, and IA32_DEBUGCTL takes LBR. */
static bool is_there(const struct lbr_caps *found)
{
	uint64_t top;
	unsigned last = found->depth - 1;

	return holds(found->from + last, 0x1000) && holds(found->to + last, 0x1000) &&
	       (!found->info || holds(found->info + last, 1)) && rdmsr_safe(found->top, &top) &&
	       debugctl_holds(DEBUGCTL_LBR);
}

/* Reserved bits raise #GP: 17.7.2. */
static uint64_t find_select(void)
{
	const uint64_t all = LBR_SELECT_CPL_EQ_0 | LBR_SELECT_CPL_NEQ_0 | LBR_SELECT_WITHOUT(0);

	if (holds(MSR_LBR_SELECT, all | LBR_SELECT_CALL_STACK))
		return all | LBR_SELECT_CALL_STACK;
	return holds(MSR_LBR_SELECT, all) ? all : 0;
}

void lbr_init(void)
{
	struct cpuid_result one = cpuid(1, 0);
	struct cpuid_signature signature = cpuid_signature(one.eax);
	unsigned depth = cpuid_is_intel() ? find_depth(signature) : 0, format;

	caps = (struct lbr_caps){0};
	format = depth ? find_format(one.ecx) : LBR_FMT_32;
	if (format == LBR_FMT_32 || format > LBR_FMT_INFO2)
		return;
	caps = (struct lbr_caps){
		.depth = depth,
		.format = format,
		.from = depth < 16 ? MSR_LASTBRANCH_FROM_C2 : MSR_LASTBRANCH_FROM,
		.to = depth < 16 ? MSR_LASTBRANCH_TO_C2 : MSR_LASTBRANCH_TO,
		.info = format == LBR_FMT_INFO || format == LBR_FMT_INFO2 ? MSR_LBR_INFO : 0,
		.top = signature.family == 15 ? MSR_LASTBRANCH_TOS_P4 : MSR_LASTBRANCH_TOS,
		.excludes_bts = depth == 4,
		.flags = find_flags(format),
	};
	if (!is_there(&caps)) {
		caps = (struct lbr_caps){0};
		return;
	}
	caps.select = find_select();
	caps.freezes = debugctl_holds(DEBUGCTL_LBR | DEBUGCTL_FREEZE_LBRS);
}

const struct lbr_caps *lbr_caps(void)
{
	return &caps;
}

static uint64_t select_value(const struct lbr_program *program)
{
	return LBR_SELECT_WITHOUT(program->kinds) |
	       (program->flags & PTRACE_LBR_KERNEL ? 0 : LBR_SELECT_CPL_EQ_0) |
	       (program->flags & PTRACE_LBR_USER ? 0 : LBR_SELECT_CPL_NEQ_0) |
	       (program->flags & PTRACE_LBR_CALL_STACK ? LBR_SELECT_CALL_STACK : 0);
}

void lbr_start(struct debugctl *debugctl, const struct lbr_program *program)
{
	bool freezes = caps.freezes && program->flags & PTRACE_LBR_KERNEL;

	if (caps.select)
		wrmsr(MSR_LBR_SELECT, select_value(program));
	debugctl_set(debugctl, DEBUGCTL_LBR | DEBUGCTL_FREEZE_LBRS,
		     DEBUGCTL_LBR | (freezes ? DEBUGCTL_FREEZE_LBRS : 0));
}

void lbr_stop(struct debugctl *debugctl)
{
	debugctl_set(debugctl, DEBUGCTL_LBR | DEBUGCTL_FREEZE_LBRS, 0);
}

/* Not between the two steps of debugctl_set(): the register has neither bit there, or both. */
bool lbr_is_frozen(void)
{
	return (rdmsr(IA32_DEBUGCTL) & (DEBUGCTL_LBR | DEBUGCTL_FREEZE_LBRS)) ==
	       DEBUGCTL_FREEZE_LBRS;
}

void lbr_unfilter(void)
{
	if (caps.select)
		wrmsr(MSR_LBR_SELECT, 0);
}

void lbr_clear(void)
{
	for (unsigned i = 0; i < caps.depth; i++)
		wrmsr(caps.from + i, 0);
}

void lbr_save(struct lbr_registers *saved)
{
	saved->top = rdmsr(caps.top);
	for (unsigned i = 0; i < caps.depth; i++) {
		saved->from[i] = rdmsr(caps.from + i);
		saved->to[i] = rdmsr(caps.to + i);
		saved->info[i] = caps.info ? rdmsr(caps.info + i) : 0;
	}
}

/* What FROM takes: bits 62:61 are those below them where they are a sign. */
static uint64_t from_to_write(uint64_t from)
{
	bool sign = caps.format == LBR_FMT_TSX && !(caps.flags & LBR_TSX);

	return sign ? (from & ~LBR_TSX) | (from << 2 & LBR_TSX) : from;
}

void lbr_restore(const struct lbr_registers *saved)
{
	for (unsigned i = 0; i < caps.depth; i++) {
		wrmsr(caps.from + i, from_to_write(saved->from[i]));
		wrmsr(caps.to + i, saved->to[i]);
		if (caps.info)
			wrmsr(caps.info + i, saved->info[i]);
	}
	wrmsr(caps.top, saved->top);
}

/* Of 48 bits, with flags above them or not. */
static uint64_t canonical_address(uint64_t value)
{
	return (uint64_t)((int64_t)(value << 16) >> 16);
}

/* Bits 63, 62 and 61 are flags 1, 2 and 4. */
static uint32_t flags_of(uint64_t word)
{
	word &= caps.flags;
	return (uint32_t)(word >> 63 | (word >> 61 & 2) | (word >> 59 & 4));
}

struct ptrace_lbr_branch lbr_decode(uint64_t from, uint64_t to, uint64_t info)
{
	return (struct ptrace_lbr_branch){
		.from = canonical_address(from),
		.to = canonical_address(to),
		.flags = flags_of(caps.info ? info : from),
		.cycles = caps.format == LBR_FMT_TIME ? (uint16_t)(to >> 48) : (uint16_t)info,
	};
}

unsigned lbr_read(struct ptrace_lbr_branch branches[LBR_MOST])
{
	unsigned top = (unsigned)rdmsr(caps.top), count = 0;

	for (; count < caps.depth; count++) {
		unsigned place = (top - count) & (caps.depth - 1);
		uint64_t from = rdmsr(caps.from + place), to, info;

		if (!from)
			break;
		to = rdmsr(caps.to + place);
		info = caps.info ? rdmsr(caps.info + place) : 0;
		branches[count] = lbr_decode(from, to, info);
	}
	return count;
}
