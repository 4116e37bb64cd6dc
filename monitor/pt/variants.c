// SPDX-License-Identifier: MIT
/* What processors differ in: enumeration by profile, and the points of struct pt_behaviour with
   their choices, by the words of vbts=; the unit's row. */
#include <stddef.h>

#include "lib/string.h"
#include "monitor/pt/rules.h"
#include "monitor/silicon.h"

#define POINT(text, field) .name = text, .offset = offsetof(struct pt_behaviour, field)

enum { LEAF_FEATURES = 7, LEAF_TRACE = 0x14, LEAF_CRYSTAL = 0x15 };

/* CPUID leaf 14H: the 36.3.1.2 processors suspend BTS. One output region, and no more, before
   Skylake. */
static const struct pt_enumeration pt_of_broadwell = {
	.ebx = 1, .ecx = 1, .ratio = 24, .suspends_bts = true};
#define SINCE_SKYLAKE                                                                              \
	.eax = 1, .ebx = 7, .ecx = 7, .eax_1 = 2, .ebx_1 = 0x003f3fff, .ratio = 24,                \
	.crystal = true, .xsaves = true
static const struct pt_enumeration pt_of_skylake = {SINCE_SKYLAKE, .suspends_bts = true};
static const struct pt_enumeration pt_of_icelake = {SINCE_SKYLAKE};

static const struct pt_enumeration *of_profile(const struct profile *profile)
{
	static const struct {
		const char *profile;
		const struct pt_enumeration *has;
	} all[] = {{"broadwell", &pt_of_broadwell},
		   {"skylake", &pt_of_skylake},
		   {"icelake", &pt_of_icelake},
		   {"sapphire-rapids", &pt_of_icelake}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(profile->name, all[i].profile) == 0)
			return all[i].has;
	return NULL;
}

static void make(struct silicon *silicon)
{
	silicon->pt = pt_clean;
}

static bool is_of(const struct profile *profile)
{
	return of_profile(profile);
}

static void add(struct silicon *silicon)
{
	const struct pt_enumeration *has = of_profile(silicon->profile);

	silicon->has_pt = has;
	silicon->ratio = has->ratio;
	silicon->crystal = has->crystal;
	if (silicon->last_leaf < LEAF_TRACE)
		silicon->last_leaf = has->crystal ? LEAF_CRYSTAL : LEAF_TRACE;
	silicon->global_status |= PT_STATUS_PMI;
}

/* It holds its MSRs and does nothing. */
static void no_bytes(struct vcpu *vcpu, const uint8_t *bytes, unsigned count)
{
	(void)vcpu, (void)bytes, (void)count;
}

static void stop(struct silicon *silicon)
{
	silicon->pt.output = no_bytes;
}

static void at_exit(struct vcpu *vcpu)
{
	if (vcpu->silicon->pt.exit)
		vcpu->silicon->pt.exit(vcpu);
}

static void show(const struct vcpu *vcpu, uint32_t leaf, uint32_t subleaf, uint32_t value[4])
{
	if (leaf == LEAF_FEATURES && !subleaf) {
		value[1] &= ~(uint32_t)LEAF_7_EBX_PT;
		value[1] |= pt_of(vcpu) ? LEAF_7_EBX_PT : 0;
	} else if (leaf == LEAF_TRACE) {
		pt_enumerate(vcpu, subleaf, value);
	}
}

static bool has_state(const struct silicon *silicon)
{
	return silicon->has_pt && silicon->has_pt->xsaves;
}

static const struct point points[] = {
	{POINT("pt-return", returns),
	 .choices = {{"empties", "a RET that is not compressed empties PT's stack of returns"},
		     {"pops", "a RET that is not compressed pops PT's stack of returns"},
		     {"never", "no RET is compressed"}}},
	{POINT("pt-leave", leave),
	 .choices = {{"target", "TIP.PGD of a Jcc out of a range has its target"},
		     {"suppressed", "TIP.PGD of a Jcc out of a range has no address"},
		     {"untold", "nor of a JMP or CALL: SKL014"}}},
	{POINT("pt-int-n", int_n),
	 .choices = {{"once", "INT n emits FUP of the instruction"},
		     {"twice", "INT n emits FUP of the instruction and of the next one"}}},
	{POINT("pt-psb", psb),
	 .choices = {{"first", "a trace begins with PSB, then TIP.PGE"},
		     {"last", "a trace begins with TIP.PGE, then PSB"},
		     {"always", "a trace begins with PSB whatever PacketByteCnt is"},
		     {"told", "PSB+ is as after TIP.PGE: BDM70"}}},
	{POINT("pt-overflow", overflow),
	 .choices = {{"never", "PT's output never overflows"},
		     {"cycles", "PT's output overflows now and then while CYCEn is set"},
		     {"long", "PT's output overflows so, for a hundred instructions each time"}}},
	{POINT("pt-interrupt", interrupt),
	 .choices = {{"once", "INT of a ToPA entry interrupts when its region is full"},
		     {"repeats", "it interrupts at each packet until Trace_ToPA_PMI is clear"},
		     {"early", "an only region does early"}}},
	{POINT("pt-tnt", tnt), .choices = {{"6", "a TNT packet has up to six bits"},
					   {"4", "a TNT packet has up to four bits"},
					   {"1", "a TNT packet has one bit"},
					   {"47", "a TNT packet has up to 47 bits"}}},
	{POINT("pt-address", address),
	 .choices = {{"shortest", "of an address PT leaves out all that it can"},
		     {"coarse", "an address of PT has four bytes or six"},
		     {"six", "an address of PT has six bytes"},
		     {"merged", "of an address PT leaves out the upper two bytes at most"}}},
	{POINT("pt-tip", tip),
	 .choices = {{"at-once", "TIP follows the TNT packet of the branches before it"},
		     {"deferred", "TNT and TIP wait until TNT is full"}}},
	{POINT("pt-period", period),
	 .choices = {{"exact", "PSB follows the bytes that PSBFreq says"},
		     {"varies", "PSB follows a quarter of the period early or late"},
		     {"extra", "there are four times as many PSB as PSBFreq says"}}},
	{POINT("pt-order", order),
	 .choices = {{"state-first", "PSB+ has times, PIP, MODE.Exec, then FUP"},
		     {"reversed", "PSB+ has them in the reverse order; MODE.Exec is before PIP"}}},
	{POINT("pt-cycles", cycles),
	 .choices = {{"before", "CYC is before the packets that may have one"},
		     {"alone", "there are CYC packets that stand alone as well"},
		     {"rare", "most packets are in the same core clock as the last CYC"}}},
	{POINT("pt-tsx", tsx),
	 .choices = {{"absent", "PSB+ has no MODE.TSX: the processor has no TSX"},
		     {"shown", "PSB+ has MODE.TSX while the context is traced"}}},
	{POINT("pt-filler", filler),
	 .choices = {{"none", "PT adds no packets of its implementation"},
		     {"pad", "PT adds PAD packets"},
		     {"mnt", "PT adds MNT packets"}}},
	{.name = NULL},
};

/* IA32_RTIT_OUTPUT_BASE to _ADDRn_B; those between belong to no unit and raise #GP as well: SDM
   Vol 2, RDMSR. */
static const struct msr_range msrs[] = {{0x560, 0x58f}, {0}};

const struct unit pt_unit = {
	.name = "pt",
	.make = make,
	.add = add,
	.is_of = is_of,
	.stop = stop,
	.msrs = msrs,
	.read_msr = pt_read_msr,
	.write_msr = pt_write_msr,
	.cpuid = show,
	.control = {"IA32_RTIT_CTL", MSR_RTIT_CTL, LEAF_7_EBX_PT},
	.power_on = pt_power_on,
	.levels = pt_levels,
	.event = pt_event,
	.retired = pt_retired,
	.cr3 = pt_cr3,
	.branches_alone = pt_branches_alone,
	.exit = at_exit,
	.component = {PT_STATE, PT_STATE_BYTES, has_state, pt_save, pt_restore},
	.points = points,
	.behaviour = offsetof(struct behaviour, pt),
};
