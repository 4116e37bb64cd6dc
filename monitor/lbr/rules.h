/* SPDX-License-Identifier: MIT */
/*
 * The last branch records of one virtual processor: SDM Vol 3, 17.4 to 17.13. Written from the
 * manual, not from the kernel's driver. The guest is interpreted while the stack runs, at the
 * privilege levels that may enter it. monitor/pmu hands on what it saw, since it knows what was
 * predicted, and freezes the stack at its interrupts.
 */
#ifndef SPOOR_MONITOR_LBR_RULES_H
#define SPOOR_MONITOR_LBR_RULES_H

#include "monitor/unit.h"

enum { MSR_LBR_SELECT = 0x1c8 };

/* LBR_SELECT: table 17-9. A set bit leaves something out, but the last. */
enum {
	LBR_NOT_CPL0 = 1 << 0,
	LBR_NOT_USER = 1 << 1,
	LBR_NOT_JCC = 1 << 2,
	LBR_NOT_CALL = 1 << 3,
	LBR_NOT_CALL_INDIRECT = 1 << 4,
	LBR_NOT_RETURN = 1 << 5,
	LBR_NOT_JUMP_INDIRECT = 1 << 6,
	LBR_NOT_JUMP = 1 << 7,
	LBR_NOT_FAR = 1 << 8,
	LBR_CALL_STACK = 1 << 9,
};
#define LBR_MISPREDICTED (1ull << 63)

/* What the manual leaves open. variants.c holds its names. */
struct lbr_behaviour {
	/* MISPRED of the entry of an interrupt or exception, of which 17.4.8.1 says from where it
	   is and where to, not whether it was predicted. */
	enum { LBR_EVENT_PREDICTED, LBR_EVENT_MISPREDICTED } event;
};
extern const struct point lbr_points[];

struct lbr_rules {
	bool (*read_msr)(struct vcpu *vcpu, uint32_t index, uint64_t *value);
	bool (*write_msr)(struct vcpu *vcpu, uint32_t index, uint64_t value);
	/* A branch enters the stack, if it is selected. */
	void (*record)(struct vcpu *vcpu, const struct retired *branch);
};
extern const struct lbr_rules lbr_clean;

/* Whether branches enter it now; the CPLs of those, one bit each. */
bool lbr_runs(const struct vcpu *vcpu);
unsigned lbr_levels(const struct vcpu *vcpu);

/* Take the reports of saw_retired(), with RETIRED_MISPREDICTED, and of saw_event(). */
void lbr_retired(struct vcpu *vcpu, const struct retired *retired);
void lbr_event(struct vcpu *vcpu, const struct branch *event);

/* The entry that `n` newer ones follow. */
const struct lbr_entry *lbr_entry_of(const struct vcpu *vcpu, unsigned n);

/* The stack is empty, as after it was suspended. */
void lbr_empty(struct vcpu *vcpu);

/* For the row of units.c. False: #GP(0), nothing changed. */
void lbr_make(struct silicon *silicon);
void lbr_stop(struct silicon *silicon);
bool lbr_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool lbr_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);
void lbr_power_on(struct vcpu *vcpu);

/* stack.c */
bool lbr_rule_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool lbr_rule_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);
void lbr_rule_record(struct vcpu *vcpu, const struct retired *branch);

#endif
