/* SPDX-License-Identifier: MIT */
/*
 * The last branch records of one virtual processor: SDM Vol 3, 17.4 to 17.13; architectural ones:
 * SDM Vol 3 of 2022, chapter 18. Written from the manual, not from the
 * kernel's driver. The guest is interpreted while the stack runs, at the privilege levels that may
 * enter it. monitor/pmu hands on what it saw, since it knows what was predicted, and freezes the
 * stack at its interrupts.
 */
#pragma once

#include "monitor/unit.h"

enum lbr_msr {
	MSR_LBR_SELECT = 0x1c8,
	MSR_LER_FROM_IP = 0x1dd, /* the others are of architectural ones */
	MSR_LER_TO_IP = 0x1de,
	MSR_LER_INFO = 0x1e0,
	MSR_LBR_0_INFO = 0x1200,
	MSR_LBR_CTL = 0x14ce,
	MSR_LBR_DEPTH = 0x14cf,
	MSR_LBR_0_FROM_IP = 0x1500,
	MSR_LBR_0_TO_IP = 0x1600,
};

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
#define LBR_TRANSACTION	 (3ull << 61) /* in one; its abort: format 4 */

/* IA32_LBR_CTL beside LBREn. A set bit lets something in. */
#define LBR_CTL_OS	      (1ull << 1)
#define LBR_CTL_USR	      (1ull << 2)
#define LBR_CTL_CALL_STACK    (1ull << 3)
#define LBR_CTL_COND	      (1ull << 16)
#define LBR_CTL_JUMP	      (1ull << 17)
#define LBR_CTL_JUMP_INDIRECT (1ull << 18)
#define LBR_CTL_CALL	      (1ull << 19)
#define LBR_CTL_CALL_INDIRECT (1ull << 20)
#define LBR_CTL_RETURN	      (1ull << 21)
#define LBR_CTL_OTHER	      (1ull << 22)
#define LBR_CTL_DEFINED	      0x7f000full

/* IA32_LBR_x_INFO.BR_TYPE; 1xxxB is another branch, an interrupt or an exception. */
enum lbr_type {
	LBR_TYPE_COND,
	LBR_TYPE_JUMP_INDIRECT,
	LBR_TYPE_JUMP,
	LBR_TYPE_CALL_INDIRECT,
	LBR_TYPE_CALL,
	LBR_TYPE_RETURN,
	LBR_TYPE_OTHER = 8,
};

/* FROM_IP of a branch out of a level that is left out. */
#define LBR_FROM_NOWHERE 0xffffffffull

/* What the manual leaves open. variants.c holds its names. */
struct lbr_behaviour {
	/* MISPRED of the entry of an interrupt or exception, of which 17.4.8.1 says from where it
	   is and where to, not whether it was predicted. */
	enum { LBR_EVENT_PREDICTED, LBR_EVENT_MISPREDICTED } event;

	/* Whether FAR_BRANCH of LBR_SELECT leaves that entry out: 17.7.2 names far branches alone.
	 */
	enum { LBR_EXCEPTION_FAR, LBR_EXCEPTION_ENTERS } exception;

	/* Of architectural ones: the low bits of BR_TYPE of what is no near branch; */
	enum { LBR_OTHER_8, LBR_OTHER_15 } other;
	/* whether the first entry after LBREn was set has a count of cycles; low bits of large
	   ones; */
	enum { LBR_FIRST_UNTIMED, LBR_FIRST_TIMED } first;
	enum { LBR_CYCLES_EXACT, LBR_CYCLES_COARSE } cycles;
	/* an address that is not canonical, written by WRMSR; */
	enum { LBR_ADDRESS_EXTENDED, LBR_ADDRESS_FAULTS } address;
	/* FROM_IP of a branch out of a level that is left out; */
	enum { LBR_FROM_HIDDEN, LBR_FROM_ONES, LBR_FROM_SHOWN } from;
	/* LBREn after XSAVES; an area of another depth for XRSTORS. */
	enum { LBR_XSAVES_GOES_ON, LBR_XSAVES_STOPS } xsaves;
	enum { LBR_XRSTORS_LOADS, LBR_XRSTORS_FAULTS } xrstors;
};
extern const struct unit lbr_unit;

struct lbr_rules {
	bool (*read_msr)(struct vcpu *vcpu, uint32_t index, uint64_t *value);
	bool (*write_msr)(struct vcpu *vcpu, uint32_t index, uint64_t value);
	/* A branch enters the stack, if it is selected. */
	void (*record)(struct vcpu *vcpu, const struct retired *branch);

	/* The rest is of architectural ones. Whether a branch is selected; its BR_TYPE; its INFO;
	   the newest entry goes; a valid value is written to IA32_LBR_DEPTH. */
	bool (*selects)(const struct vcpu *vcpu, const struct retired *branch);
	unsigned (*type)(const struct vcpu *vcpu, unsigned kind);
	uint64_t (*info)(const struct vcpu *vcpu, const struct retired *branch);
	void (*pop)(struct vcpu *vcpu);
	void (*set_depth)(struct vcpu *vcpu, uint64_t depth);
	/* An event is delivered: the LER. State component 15. */
	void (*last_event)(struct vcpu *vcpu);
	bool (*save)(struct vcpu *vcpu, uint64_t *area);
	bool (*restore)(struct vcpu *vcpu, const uint64_t *area);
};
extern const struct lbr_rules lbr_clean;

/* Whether the processor is to record; whether branches enter the stack now; the CPLs of those, one
   bit each. */
bool lbr_is_on(const struct vcpu *vcpu);
bool lbr_runs(const struct vcpu *vcpu);
unsigned lbr_levels(const struct vcpu *vcpu);

/* Take the reports of saw_retired(), with RETIRED_MISPREDICTED, and of saw_event(). */
void lbr_retired(struct vcpu *vcpu, const struct retired *retired);
void lbr_event(struct vcpu *vcpu, const struct branch *event);

/* The entry that `n` newer ones follow: IA32_LBR_n_* of an architectural stack. */
struct lbr_entry *lbr_place(struct vcpu *vcpu, unsigned n);

/* The stack is empty, as after it was suspended. */
void lbr_empty(struct vcpu *vcpu);

/* For the row. False: #GP(0), nothing changed. */
void lbr_stop(struct silicon *silicon);
bool lbr_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool lbr_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);
void lbr_cpuid(const struct vcpu *vcpu, uint32_t leaf, uint32_t subleaf, uint32_t value[4]);
void lbr_power_on(struct vcpu *vcpu);
void lbr_reset(struct vcpu *vcpu);

/* State component 15: IA32_LBR_CTL, IA32_LBR_DEPTH, the LER, the entries; as of monitor/unit.h. */
enum { LBR_STATE = 15, LBR_STATE_BYTES = (5 + 3 * LBR_MOST) * 8 };
bool lbr_has_state(const struct silicon *silicon);
bool lbr_save(struct vcpu *vcpu, uint64_t rip, uint64_t *area);
bool lbr_restore(struct vcpu *vcpu, const uint64_t *area);

static inline bool lbr_within(uint32_t index, uint32_t first, uint64_t count)
{
	return index - first < count; /* modulo 2^32: an index below `first` is far above it */
}

/* stack.c */
bool lbr_rule_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool lbr_rule_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);
void lbr_rule_record(struct vcpu *vcpu, const struct retired *branch);
bool lbr_is_zero_length(const struct retired *branch);

/* architectural.c */
uint64_t *lbr_register(struct vcpu *vcpu, uint32_t index); /* NULL: there is none */
bool lbr_architectural_write(struct vcpu *vcpu, uint32_t index, uint64_t value);
unsigned lbr_architectural_levels(const struct vcpu *vcpu);
void lbr_architectural_record(struct vcpu *vcpu, const struct retired *branch);
bool lbr_rule_selects(const struct vcpu *vcpu, const struct retired *branch);
unsigned lbr_rule_type(const struct vcpu *vcpu, unsigned kind);
uint64_t lbr_rule_info(const struct vcpu *vcpu, const struct retired *branch);
void lbr_rule_pop(struct vcpu *vcpu);
void lbr_rule_set_depth(struct vcpu *vcpu, uint64_t depth);
void lbr_rule_last_event(struct vcpu *vcpu);
bool lbr_rule_save(struct vcpu *vcpu, uint64_t *area);
bool lbr_rule_restore(struct vcpu *vcpu, const uint64_t *area);
