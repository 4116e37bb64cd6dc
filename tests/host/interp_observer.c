// SPDX-License-Identifier: MIT
#include "tests/host/interp_rig.h"

struct observations observer;

void observer_reset(void)
{
	memset(&observer, 0, sizeof(observer));
}

int observer_begin(void **state)
{
	rig_reset();
	observer_reset();
	return 0;
}

void check_branch(unsigned n, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
	assert_int_equal(observer.branch[n].from, from);
	assert_int_equal(observer.branch[n].to, to);
	assert_int_equal(observer.branch[n].from_cpl, from_cpl);
	assert_int_equal(observer.branch[n].to_cpl, to_cpl);
}

static void keep(enum sight_kind kind, uint64_t value)
{
	if (observer.sights < SIGHTS_KEPT)
		observer.sight[observer.sights++] = (struct sight){kind, value};
}

static void keep_branch(const struct vcpu *vcpu, const struct branch *branch)
{
	unsigned n = observer.branches++ % BRANCHES_KEPT;

	assert_int_equal(vcpu->rip, branch->to);
	assert_int_equal(vcpu->cpl, branch->to_cpl);
	observer.branch[n].from = branch->from;
	observer.branch[n].to = branch->to;
	observer.branch[n].from_cpl = branch->from_cpl;
	observer.branch[n].to_cpl = branch->to_cpl;
}

unsigned observed_levels(const struct vcpu *vcpu)
{
	return vcpu->observed & ~(unsigned)OBSERVER_LOCKSTEP || vcpu->debugctl & DEBUGCTL_BTF ? 0xf
											      : 0;
}

void saw_branch(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
	assert_true(vcpu->observed);
	keep(SIGHT_BRANCH, from);
	keep_branch(vcpu, &(struct branch){
				  .from = from, .to = to, .from_cpl = from_cpl, .to_cpl = to_cpl});
}

void saw_jump(struct vcpu *vcpu, const struct insn *i, uint64_t to)
{
	jump_slowly(vcpu, i, to);
}

bool follows_branches(struct vcpu *vcpu)
{
	return false;
}

void saw_event(struct vcpu *vcpu, const struct branch *event)
{
	keep(SIGHT_EVENT, event->from);
	keep_branch(vcpu, event);
}

void saw_not_taken(struct vcpu *vcpu, const struct insn *i)
{
	assert_true(vcpu->observed);
	keep(SIGHT_NOT_TAKEN, i->rip);
	not_taken_slowly(vcpu, i);
}

void saw_retired(struct vcpu *vcpu, const struct retired *retired)
{
	assert_true(vcpu->observed & OBSERVERS_OF_INSTRUCTIONS);
	assert_true(retired->kind & RETIRED);
	assert_int_equal(retired->to, vcpu->rip);
	observer.retired = *retired;
	keep(SIGHT_RETIRED, vcpu->rip);
}

void saw_cr3(struct vcpu *vcpu)
{
	assert_true(vcpu->observed);
	keep(SIGHT_CR3, vcpu->cr3);
}

void saw_mode(struct vcpu *vcpu, unsigned bits)
{
	assert_true(vcpu->observed);
	keep(SIGHT_MODE, bits);
}

void saw_halt(struct vcpu *vcpu)
{
	assert_true(vcpu->observed);
	keep(SIGHT_HALT, 0);
}
