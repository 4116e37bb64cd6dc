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
	{.name = NULL},
};
