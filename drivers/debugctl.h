/* SPDX-License-Identifier: MIT */
/*
 * IA32_DEBUGCTL (SDM Vol 3, 17.4.1; MSR_DEBUGCTLA of NetBurst): each unit has its own bits. A test
 * borrows it whole: ds_checkout(). All functions are for this CPU, IF = 0.
 *
 *	bits	names					are for
 *	0	LBR					drivers/lbr
 *	1	BTF					kernel/trap/user.c: the task that runs
 *	10:6	BTS_OFF_USR, BTS_OFF_OS, BTINT, BTS, TR	drivers/ds; 6:2 on NetBurst
 *	12:11	FREEZE_PERFMON_ON_PMI, FREEZE_LBRS_...	nobody: 0; drivers/lbr
 */
#pragma once

#include "drivers/processor.h"

#define IA32_DEBUGCTL 0x1d9u
#define DEBUGCTL_LBR  (1ull << 0)
#define DEBUGCTL_BTF  (1ull << 1)

#define DEBUGCTL_FREEZE_LBRS (1ull << 11)

/* Which architectural last branch records are made: drivers/lbr. */
#define IA32_LBR_CTL 0x14ceu

/* Of a CPU. The Debug Store's bits, which change with each switch, are in the loaded lease. */
struct debugctl {
	uint64_t others;      /* what all units but that one have set */
	uint64_t lbr_control; /* IA32_LBR_CTL, where drivers/lbr has that instead of LBR */
};

/* The Debug Store's bits become `bits`, by one WRMSR. */
static inline void debugctl_record(const struct debugctl *debugctl, uint64_t bits)
{
	wrmsr(IA32_DEBUGCTL, debugctl->others | bits);
}

/*
 * Another unit's bits, `mask`, become `bits`, by one WRMSR unless they were set so before. The
 * processor clears bits too (#DB: LBR and BTF): the register says which are set.
 */
static inline void debugctl_set(struct debugctl *debugctl, uint64_t mask, uint64_t bits)
{
	if ((debugctl->others & mask) == bits)
		return;
	debugctl->others = (debugctl->others & ~mask) | bits;
	wrmsr(IA32_DEBUGCTL, (rdmsr(IA32_DEBUGCTL) & ~mask) | bits);
}

/* Clears `bits`, if any is set. Returns what debugctl_record() is given: not drivers/lbr's bits. */
static inline uint64_t debugctl_pause(uint64_t bits)
{
	uint64_t paused = rdmsr(IA32_DEBUGCTL);

	if (paused & bits)
		wrmsr(IA32_DEBUGCTL, paused & ~bits);
	return paused & ~(DEBUGCTL_LBR | DEBUGCTL_FREEZE_LBRS);
}

/*
 * Stops the LBR stack where it records, as the first act of what must not push out the branches
 * before it: without one that is taken. Returns what debugctl_go_on() is given.
 */
static inline uint64_t debugctl_hold(const struct debugctl *debugctl)
{
	const uint64_t bits = DEBUGCTL_LBR | DEBUGCTL_FREEZE_LBRS;
	uint64_t value = 0;

	if (__builtin_expect(debugctl->lbr_control != 0, 1))
		wrmsr(IA32_LBR_CTL, 0);
	if (__builtin_expect(debugctl->others & DEBUGCTL_LBR, 1)) {
		value = rdmsr(IA32_DEBUGCTL);
		wrmsr(IA32_DEBUGCTL, value & ~bits);
	}
	return value & bits;
}

static inline void debugctl_go_on(const struct debugctl *debugctl, uint64_t held)
{
	if (debugctl->lbr_control)
		wrmsr(IA32_LBR_CTL, debugctl->lbr_control);
	if (held)
		wrmsr(IA32_DEBUGCTL, rdmsr(IA32_DEBUGCTL) | held);
}

/* Clears all that is set, where there is such a register, and returns it. */
uint64_t debugctl_clear(void);

/* Whether it takes `bits`, which are cleared again; all were clear. Boot. */
static inline bool debugctl_holds(uint64_t bits)
{
	return wrmsr_safe(IA32_DEBUGCTL, bits) && debugctl_clear() == bits;
}

/* Every CPU that was probed, at boot, has BTF; a hypervisor may drop or refuse it. */
extern bool debugctl_has_btf;
void debugctl_probe(void);
