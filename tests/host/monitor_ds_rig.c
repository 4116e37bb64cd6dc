// SPDX-License-Identifier: MIT
#include "tests/host/monitor_ds_rig.h"

#include "lib/io.h"
#include "monitor/interp/interp.h"
#include "monitor/interp/lockstep.h"

struct ds_rig rig;

void jump_slowly(struct vcpu *vcpu, const struct insn *i, uint64_t rip)
{
	vcpu->rip = rip;
	saw_branch(vcpu, i->rip, rip, vcpu->cpl, vcpu->cpl);
}

void not_taken_slowly(struct vcpu *vcpu, const struct insn *i)
{
}

void go_on(struct vcpu *vcpu, uint64_t rip, uint64_t left)
{
	(void)vcpu, (void)rip, (void)left;
}

bool guest_translate(struct vcpu *vcpu, uint64_t linear, unsigned access, uint64_t *physical,
		     uint32_t *error)
{
	uint64_t page = (linear - RIG_LINEAR) / RIG_PAGE;

	if (access & ACCESS_WRITE)
		rig.access = access;
	else
		assert_true(access & ACCESS_EXECUTE);
	rig.translations++;
	*error = 0;
	if (linear < RIG_LINEAR || page >= RIG_PAGES || rig.absent[page])
		return false;
	*physical = (RIG_PAGES - 1 - page) * RIG_PAGE;
	return true;
}

uint8_t *platform_guest_page(uint64_t physical)
{
	return rig.memory[physical / RIG_PAGE];
}

bool platform_is_memory(uint64_t physical)
{
	return !rig.device[RIG_PAGES - 1 - physical / RIG_PAGE];
}

bool platform_takes_writes(uint64_t physical)
{
	return false;
}

void platform_performance_interrupt(struct vcpu *vcpu)
{
	rig.interrupts++;
}

void outb(uint16_t port, uint8_t value)
{
	assert_int_equal(port, 0x4e9);
	assert_true(rig.told_bytes < sizeof(rig.told));
	rig.told[rig.told_bytes++] = value;
}

/* No test of the rules compares with a processor. */
void lockstep_saw(struct vcpu *vcpu, enum sight sight, uint64_t value)
{
	fail();
}

uint8_t *rig_at(uint64_t linear)
{
	uint64_t offset = linear - RIG_LINEAR;

	return &rig.memory[RIG_PAGES - 1 - offset / RIG_PAGE][offset % RIG_PAGE];
}

uint64_t rig_get(uint64_t linear)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < 8; i++)
		value |= (uint64_t)*rig_at(linear + i) << 8 * i;
	return value;
}

void rig_put(uint64_t linear, uint64_t value)
{
	for (unsigned i = 0; i < 8; i++)
		*rig_at(linear + i) = (uint8_t)(value >> 8 * i);
}

uint64_t rig_field(unsigned n)
{
	return rig_get(rig.area + 8 * n);
}

void rig_set_index(uint64_t index)
{
	rig_put(rig.area + 8, index);
}

void rig_configure(uint64_t maximum, uint64_t threshold, uint64_t debugctl)
{
	rig_put(rig.area, rig.base);
	rig_put(rig.area + 8, rig.base);
	rig_put(rig.area + 16, rig.base + maximum);
	rig_put(rig.area + 24, rig.base + threshold);
	assert_true(trace_write_msr(&rig.vcpu, RIG_DS_AREA, rig.area));
	assert_true(trace_write_msr(&rig.vcpu, RIG_DEBUGCTL, debugctl));
}

void rig_branch(uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
	if (rig.vcpu.observed)
		saw_branch(&rig.vcpu, from, to, from_cpl, to_cpl);
}

void rig_branches(uint64_t first, unsigned count)
{
	for (uint64_t n = first; n < first + count; n++)
		rig_branch(n, n + 0x1000, 0, 0);
}

uint64_t rig_slot(unsigned n)
{
	return rig_get(rig.base + RIG_RECORD * n);
}

unsigned rig_index(void)
{
	return (unsigned)((rig_field(1) - rig.base) / RIG_RECORD);
}

void rig_make(const char *profile, const struct behaviour *behaviour,
	      void (*break_rules)(struct silicon *silicon))
{
	silicon_make(&rig.silicon, profile_find(profile), behaviour);
	if (break_rules)
		break_rules(&rig.silicon);
	trace_power_on(&rig.vcpu, &rig.silicon);
}

int rig_reset(void **state)
{
	memset(&rig, 0, sizeof(rig));
	rig.area = RIG_LINEAR;
	rig.base = RIG_LINEAR + RIG_PAGE;
	rig_make("nehalem", &(struct behaviour){0}, NULL);
	return 0;
}
