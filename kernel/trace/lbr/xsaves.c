// SPDX-License-Identifier: MIT
// A call stack by XSAVES and XRSTORS, as component 15.
#include "kernel/trace/lbr/private.h"

#define LBR_STATE (1ul << 15)

void stack_state_init(void)
{
	if (lbr_caps()->xsaves)
		xsaves_enable(LBR_STATE);
}

static void take_registers(struct stack_tracer *tracer)
{
	for (unsigned i = 0; i < LBR_MOST; i++) {
		tracer->saved.from[i] = tracer->state.entry[i][0];
		tracer->saved.to[i] = tracer->state.entry[i][1];
		tracer->saved.info[i] = tracer->state.entry[i][2];
	}
}

/*
 * The depth is written first: XRSTORS may refuse another one than there is. That empties the stack,
 * and a component that is not in the area is of an empty one (13.11).
 */
void stack_restore(struct stack_tracer *tracer)
{
	struct xsaves_header *area = &tracer->state.header;

	if (!(area->xcomp_bv & LBR_STATE)) {
		lbr_restore(&tracer->saved);
		return;
	}
	lbr_clear(lbr_caps()->depth);
	if (!(area->xstate_bv & LBR_STATE) || xsaves_restore(area, LBR_STATE))
		return;
	take_registers(tracer);
	lbr_restore(&tracer->saved);
}

void stack_save(struct stack_tracer *tracer)
{
	tracer->state.header.xcomp_bv = 0;
	if (!lbr_caps()->xsaves || !xsaves_save(&tracer->state.header, LBR_STATE))
		lbr_save(&tracer->saved);
}
