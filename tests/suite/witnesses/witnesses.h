/* SPDX-License-Identifier: MIT */
/*
 * BTS, Intel PT and the LBR stack of this CPU for tests that let them record at once. From
 * units_open() to units_close() preemption is off and IA32_DEBUGCTL is the test's.
 */
#pragma once

#include "tests/lib/pmu_rig.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/rig.h"

enum unit { BTS_UNIT = 1, LBR_UNIT = 2, PT_UNIT = 4 };

struct units {
	unsigned have;
	struct rig rig;
	struct pt_rig pt;
	const struct lbr_stack *lbr; /* NULL: no table here has it */
	bool opened_bts, opened_pt;
};

/* Ends the test as SKIP where the processor has none. A unit that it lacks is named in a note. */
void units_open(struct units *units, size_t slots);
void units_close(struct units *units);

/* The bits of IA32_DEBUGCTL of these, and whether it holds them together. */
uint64_t units_debugctl(unsigned units);
bool units_hold_together(unsigned units);

/*
 * Calls `check` with the units that record together; with each alone where two exclude each other.
 * Intel PT suspends BTS and LBR on some processors, and LBR cannot be set beside TR on others.
 */
void units_each(const struct units *units, void (*check)(unsigned units, uint64_t seed),
		uint64_t seed);

/* All entries 0, all kinds of branches. */
void units_clear_lbr(const struct lbr_stack *lbr);

/* Whether the entry `back` before the newest is this branch, whatever its flags. */
bool units_lbr_is(const struct lbr_stack *lbr, unsigned back, uint64_t from, uint64_t to);
