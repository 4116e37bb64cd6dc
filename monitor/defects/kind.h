/* SPDX-License-Identifier: MIT */
/* What kind of instruction a branch left from, for defects that treat one kind otherwise. */
#ifndef SPOOR_MONITOR_DEFECTS_KIND_H
#define SPOOR_MONITOR_DEFECTS_KIND_H

#include "monitor/ds/ds.h"

enum branch_kind {
	KIND_CONDITIONAL_SHORT, /* Jcc rel8 */
	KIND_CONDITIONAL,	/* Jcc rel32 */
	KIND_COUNTING,		/* LOOP, LOOPE, LOOPNE, JRCXZ */
	KIND_JUMP,
	KIND_JUMP_INDIRECT,
	KIND_CALL,
	KIND_CALL_INDIRECT,
	KIND_RETURN,
	KIND_RETURN_POPPING, /* RET n */
	KIND_IRET,
	KIND_OTHER,
};

/* Of an instruction's branch; KIND_OTHER for events. */
enum branch_kind kind_of(struct vcpu *vcpu, const struct branch *branch);

#endif
