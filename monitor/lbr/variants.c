// SPDX-License-Identifier: MIT
/* The points of struct lbr_behaviour with their choices, by the words of vbts=; the unit's row. */
#include <stddef.h>

#include "monitor/lbr/rules.h"
#include "monitor/silicon.h"

#define POINT(text, field) .name = text, .offset = offsetof(struct lbr_behaviour, field)

static void make(struct silicon *silicon)
{
	silicon->lbr = lbr_clean;
}

/* #DB clears LBR, so it has to be seen while LBR is set. */
static unsigned exits(const struct vcpu *vcpu)
{
	return lbr_is_on(vcpu) ? EXIT_AT_DEBUG_EXCEPTION : 0;
}

static const struct point points[] = {
	{POINT("lbr-event", event),
	 .choices = {{"predicted", "the LBR entry of an event has MISPRED clear"},
		     {"mispredicted", "the LBR entry of an event has MISPRED set"}}},
	{POINT("lbr-exception", exception),
	 .choices = {{"far", "FAR_BRANCH of LBR_SELECT leaves out interrupts and exceptions"},
		     {"enters", "no bit of LBR_SELECT but a level's leaves them out"}}},
	{POINT("lbr-other", other),
	 .choices = {{"8", "BR_TYPE of what is no near branch is 1000B"},
		     {"15", "BR_TYPE of what is no near branch is 1111B"}}},
	{POINT("lbr-first", first),
	 .choices = {{"untimed", "the first entry after LBREn was set has CYC_CNT_VALID clear"},
		     {"timed", "the first entry after LBREn was set has the cycles since then"}}},
	{POINT("lbr-cycles", cycles), .choices = {{"exact", "CYC_CNT is exact up to FFFFH"},
						  {"coarse", "low bits of a large CYC_CNT are 1"}}},
	{POINT("lbr-address", address),
	 .choices = {{"extended", "an address written to an entry is made canonical"},
		     {"fault", "an address that is not canonical raises #GP"}}},
	{POINT("lbr-from", from),
	 .choices = {{"hidden", "FROM_IP is FFFFFFFFH for a branch out of a level left out"},
		     {"ones", "FROM_IP is all ones for a branch out of a level left out"},
		     {"shown", "FROM_IP is the address of a branch out of a level left out"}}},
	{POINT("lbr-xsaves", xsaves),
	 .choices = {{"goes-on", "XSAVES of the LBR state leaves LBREn"},
		     {"stops", "XSAVES of the LBR state clears LBREn"}}},
	{POINT("lbr-xrstors", xrstors),
	 .choices = {{"loads", "XRSTORS loads another IA32_LBR_DEPTH"},
		     {"fault", "XRSTORS of another IA32_LBR_DEPTH raises #GP"}}},
	{.name = NULL},
};

static const struct msr_range msrs[] = {
	{0x40, 0x47},	  /* MSR_LASTBRANCH_0_FROM_IP.. of Core and Atom */
	{0x60, 0x67},	  /* MSR_LASTBRANCH_0_TO_IP.. */
	{0x1c8, 0x1c9},	  /* MSR_LBR_SELECT, MSR_LASTBRANCH_TOS */
	{0x1da, 0x1da},	  /* MSR_LASTBRANCH_TOS of NetBurst */
	{0x1dd, 0x1de},	  /* IA32_LER_FROM_IP, IA32_LER_TO_IP */
	{0x1e0, 0x1e0},	  /* IA32_LER_INFO */
	{0x680, 0x69f},	  /* MSR_LASTBRANCH_0_FROM_IP.. */
	{0x6c0, 0x6df},	  /* MSR_LASTBRANCH_0_TO_IP.. */
	{0xdc0, 0xddf},	  /* MSR_LBR_INFO_0.. */
	{0x1200, 0x121f}, /* IA32_LBR_0_INFO.. */
	{0x14ce, 0x14cf}, /* IA32_LBR_CTL, IA32_LBR_DEPTH */
	{0x1500, 0x151f}, /* IA32_LBR_0_FROM_IP.. */
	{0x1600, 0x161f}, /* IA32_LBR_0_TO_IP.. */
	{0},
};

const struct unit lbr_unit = {
	.name = "lbr",
	.make = make,
	.stop = lbr_stop,
	.msrs = msrs,
	.read_msr = lbr_read_msr,
	.write_msr = lbr_write_msr,
	.cpuid = lbr_cpuid,
	.power_on = lbr_power_on,
	.reset = lbr_reset,
	.component = {LBR_STATE, LBR_STATE_BYTES, lbr_has_state, lbr_save, lbr_restore},
	.exits = exits,
	.points = points,
	.behaviour = offsetof(struct behaviour, lbr),
};
