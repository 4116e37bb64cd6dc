// SPDX-License-Identifier: MIT
/* The points of struct lbr_behaviour with their choices, by the words of vbts=. */
#include <stddef.h>

#include "monitor/lbr/rules.h"
#include "monitor/silicon.h"

#define POINT(text, field) .name = text, .offset = offsetof(struct lbr_behaviour, field)

void lbr_make(struct silicon *silicon)
{
	silicon->lbr = lbr_clean;
}

const struct point lbr_points[] = {
	{POINT("lbr-event", event),
	 .choices = {{"predicted", "the LBR entry of an event has MISPRED clear"},
		     {"mispredicted", "the LBR entry of an event has MISPRED set"}}},
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
