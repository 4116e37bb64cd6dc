// SPDX-License-Identifier: MIT
/* Hands what the interpreter saw to those that watch; gives them the guest's memory. */
#include "lib/io.h"
#include "monitor/ds/quick.h"
#include "monitor/host/lock.h"
#include "monitor/interp/decode.h"
#include "monitor/interp/interp.h"
#include "monitor/interp/lockstep.h"
#include "monitor/silicon.h"
#include "monitor/unit.h"

#define STACK_PORT 0x4e9 /* 402H has the debug output of SeaBIOS */
#define UNRECORDED_MOST                                                                            \
	65536 /* calls: the kernel empties a buffer between two records of one task */

static void put_account(struct account *account, const struct told *told)
{
	static struct lock one_at_a_time;

	lock_take(&one_at_a_time);
	for (unsigned call = 0; call <= account->calls; call++) {
		const uint8_t *bytes =
			(const uint8_t *)(call < account->calls ? &account->call[call] : told);

		for (unsigned i = 0; i < sizeof(*told); i++)
			outb(STACK_PORT, bytes[i]);
	}
	lock_release(&one_at_a_time);
	account->calls = 0;
}

/*
 * The account goes on while nothing is recorded, so that it has each CALL and RET, but not forever,
 * and without what was called and has returned then.
 */
static void tell_stack(struct vcpu *vcpu, const struct branch *branch, unsigned kind)
{
	struct account *account = &vcpu->account;
	bool recorded = ds_tracing(vcpu) && !vcpu->branches_suspended &&
			ds_rules_of(vcpu)->filter(vcpu, branch);
	const struct told told = {vcpu->gpr[RSP],
				  (uint32_t)branch->from,
				  (uint32_t)branch->to,
				  (uint32_t)(uintptr_t)vcpu,
				  (uint16_t)kind,
				  (uint8_t)(branch->from_cpl | branch->to_cpl << 4),
				  recorded};

	if (recorded)
		account->unrecorded = 0;
	else if (kind && !(kind & (RETIRED_CALL | RETIRED_RETURN | RETIRED_FAR)))
		return;
	else if (++account->unrecorded >= UNRECORDED_MOST && !ds_tracing(vcpu))
		vcpu->observed &= ~(unsigned)OBSERVER_STACK;
	if (!recorded && kind & RETIRED_CALL && account->calls < ACCOUNT_CALLS)
		account->call[account->calls++] = told;
	else if (!recorded && kind & RETIRED_RETURN && account->calls &&
		 account->call[account->calls - 1].rsp + 8 == told.rsp)
		account->calls--;
	else
		put_account(account, &told);
}

/* That of the lowest bit of enum observer, of a set of units. */
static inline const struct unit *first_of(unsigned set)
{
	return units[(unsigned)__builtin_ctz(set)];
}

/* Apart, so that a guest of which every level is interpreted saves no register for it. */
static __attribute__((noinline)) unsigned levels_of_units(const struct vcpu *vcpu, unsigned left)
{
	unsigned levels = 0;

	for (; left; left &= left - 1)
		levels |= first_of(left)->levels(vcpu);
	return levels;
}

unsigned observed_levels(const struct vcpu *vcpu)
{
	unsigned observed = vcpu->observed & ~(unsigned)OBSERVER_LOCKSTEP;
	bool steps = vcpu->debugctl & DEBUGCTL_BTF;

	if (!observed && !steps)
		return 0;
	if (observed & ~(unsigned)OBSERVERS_OF_UNITS || steps || !vcpu->native_ring_0)
		return EVERY_LEVEL;
	return levels_of_units(vcpu, observed);
}

static inline bool recorded_quickly(struct vcpu *vcpu, uint64_t from, uint64_t to)
{
	return vcpu->observed == OBSERVER_DS && ds_branch_quickly(vcpu, from, to, vcpu->cpl);
}

void saw_branch(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
	if (from_cpl == to_cpl && recorded_quickly(vcpu, from, to))
		return;
	if (vcpu->observed & OBSERVER_LOCKSTEP)
		lockstep_saw(vcpu, SAW_BRANCH, to);
	if (vcpu->observed & OBSERVER_DS)
		ds_branch(vcpu, from, to, from_cpl, to_cpl);
}

static inline bool saw_jump_quickly(struct vcpu *vcpu, const struct insn *i, uint64_t to)
{
	if (recorded_quickly(vcpu, i->rip, to))
		return true;
	if (!vcpu->hot.follows)
		return false;
	if (i->kind & RETIRED_CONDITIONAL)
		return pt_bit_quickly(&vcpu->pt, true);
	return pt_jump_quickly(&vcpu->pt, i->kind, insn_next(i), to);
}

/* Apart from saw_jump(), which then saves no register. */
static HOT __attribute__((noinline)) void saw_indirect(struct vcpu *vcpu, const struct insn *i,
						       uint64_t to)
{
	if (vcpu->observed == OBSERVER_NONE ||
	    (vcpu->hot.follows && pt_indirect_quickly(&vcpu->pt, i->kind, insn_next(i), to)))
		go_on(vcpu, to, i->behind);
	else
		jump_slowly(vcpu, i, to);
}

/* Hot path, which each branch of a traced guest takes: no stack frame, no call. */
HOT void saw_jump(struct vcpu *vcpu, const struct insn *i, uint64_t to)
{
	if (saw_jump_quickly(vcpu, i, to))
		go_on(vcpu, to, i->behind);
	else
		saw_indirect(vcpu, i, to);
}

HOT void saw_not_taken(struct vcpu *vcpu, const struct insn *i)
{
	if (vcpu->hot.follows && pt_bit_quickly(&vcpu->pt, false))
		next(vcpu, i);
	else
		not_taken_slowly(vcpu, i);
}

bool follows_branches(struct vcpu *vcpu)
{
	return vcpu->observed == OBSERVER_FLOW && vcpu->cpl == 3 &&
	       first_of(OBSERVER_FLOW)->branches_alone(vcpu);
}

void saw_event(struct vcpu *vcpu, const struct branch *event)
{
	unsigned left;

	if (vcpu->observed & OBSERVER_LOCKSTEP)
		lockstep_saw(vcpu, SAW_EVENT, event->to);
	if (vcpu->observed & OBSERVER_STACK)
		tell_stack(vcpu, event, 0);
	for (left = (vcpu->observed | OBSERVERS_OF_EVERY_EVENT) & UNITS_OF_EVENTS; left;
	     left &= left - 1)
		first_of(left)->event(vcpu, event);
}

static inline void hand_to_units(struct vcpu *vcpu, const struct retired *retired)
{
	for (unsigned left = vcpu->observed & UNITS_OF_RETIRED; left; left &= left - 1)
		first_of(left)->retired(vcpu, retired);
}

void units_retired(struct vcpu *vcpu, const struct retired *retired)
{
	hand_to_units(vcpu, retired);
}

void saw_retired(struct vcpu *vcpu, const struct retired *retired)
{
	if (vcpu->observed == OBSERVER_FLOW) {
		first_of(OBSERVER_FLOW)->retired(vcpu, retired);
		return;
	}
	if (vcpu->observed & OBSERVER_LOCKSTEP)
		lockstep_saw(vcpu, SAW_RETIRED, 0);
	if (vcpu->observed & OBSERVER_STACK && retired->kind & RETIRED_TAKEN)
		tell_stack(vcpu,
			   &(struct branch){.from = retired->from,
					    .to = retired->to,
					    .from_cpl = retired->from_cpl,
					    .to_cpl = retired->to_cpl},
			   retired->kind);
	hand_to_units(vcpu, retired);
}

void saw_cr3(struct vcpu *vcpu)
{
	if (vcpu->observed & OBSERVER_LOCKSTEP)
		lockstep_saw(vcpu, SAW_CR3, vcpu->cr3);
	for (unsigned left = vcpu->observed & UNITS_OF_CR3; left; left &= left - 1)
		first_of(left)->cr3(vcpu);
}

void saw_mode(struct vcpu *vcpu, unsigned bits)
{
	if (vcpu->observed & OBSERVER_LOCKSTEP)
		lockstep_saw(vcpu, SAW_MODE, bits);
}

void saw_halt(struct vcpu *vcpu)
{
	if (vcpu->observed & OBSERVER_DS)
		ds_note(vcpu, DS_AT_HLT);
}

/* SMAP holds for programs alone. 17.4.9.2 leaves Accessed and Dirty to software. */
uint8_t *platform_ds_page(struct vcpu *vcpu, uint64_t linear)
{
	static const unsigned access[] = {
		[DS_DIRTY_SET] = ACCESS_WRITE | ACCESS_OVERRIDE,
		[DS_DIRTY_LEFT_CLEAR] = ACCESS_WRITE | ACCESS_OVERRIDE | ACCESS_UNMARKED,
		[DS_DIRTY_DROPS_RECORD] = ACCESS_WRITE | ACCESS_OVERRIDE | ACCESS_DIRTY,
	};
	uint64_t physical;
	uint32_t error;

	if (!guest_translate(vcpu, linear, access[ds_behaviour_of(vcpu)->dirty], &physical,
			     &error) ||
	    !platform_is_memory(physical))
		return NULL;
	return platform_guest_page(physical);
}

/* Physical addresses: no page table is asked. */
uint8_t *platform_unit_page(struct vcpu *vcpu, uint64_t physical)
{
	(void)vcpu;
	return platform_is_memory(physical) ? platform_guest_page(physical) : NULL;
}

bool platform_unit_is_apic(struct vcpu *vcpu, uint64_t physical)
{
	(void)vcpu;
	return platform_takes_writes(physical);
}

uint64_t platform_unit_tsc(struct vcpu *vcpu)
{
	(void)vcpu;
	return __builtin_ia32_rdtsc();
}

void platform_unit_interrupt(struct vcpu *vcpu)
{
	pmu_trace_interrupt(vcpu);
}

/* 36.3.1.2: the LBR array is reset then. */
void platform_unit_resumes(struct vcpu *vcpu)
{
	lbr_empty(vcpu);
}
