// SPDX-License-Identifier: MIT
/*
 * The only file that writes IA32_DS_AREA. TR is clear whenever it changes, and each value of
 * IA32_DEBUGCTL goes out in one write.
 */
#include "drivers/ds/private.h"
#include "drivers/ds/registers.h"
#include "drivers/processor.h"
#include "drivers/pt/registers.h"

/* `loaded` points to it while the MSRs are lent: never on the hardware, never overflowing. */
static struct ds_lease lent = {.overflow = DS_O_WRAP};

/* The same between ds_let_go() and ds_switch_in(). */
static struct ds_lease let_go = {.overflow = DS_O_WRAP};

bool ds_is_lent(const struct ds_cpu *cpu)
{
	return cpu->loaded == &lent;
}

void ds_load_area(struct ds_cpu *cpu, const void *area)
{
	if (cpu->area == (uintptr_t)area)
		return;
	ds_pebs_pause(cpu);
	ds_pebs_move(cpu, (uintptr_t)area);
	wrmsr(IA32_DS_AREA, (uintptr_t)area);
	cpu->area = (uintptr_t)area;
	ds_pebs_resume(cpu);
}

int ds_switch_out(struct ds_cpu *cpu)
{
	if (!cpu->loaded)
		return 0;
	if (ds_is_lent(cpu))
		return -EBUSY;
	debugctl_record(cpu->debugctl, 0);
	return 0;
}

void ds_let_go(struct ds_cpu *cpu)
{
	if (!cpu->loaded || ds_is_lent(cpu))
		return;
	cpu->loaded->cpu = NULL;
	cpu->loaded = &let_go;
}

/* Returns true once: it parks the threshold above the maximum. */
static bool mark_overflow(struct ds_lease *lease)
{
	if (lease->overflow != DS_O_SIGNAL ||
	    ds_get(lease->area, DS_BTS_INDEX) < ds_get(lease->area, DS_BTS_INTERRUPT_THRESHOLD))
		return false;
	lease->overflowed = true;
	ds_set_overflow(lease->area, DS_O_WRAP, 0);
	return true;
}

/*
 * The threshold is tested here, with TR clear, because an interrupt that is still on its way would
 * look at the next lease's area.
 */
int ds_switch_in(struct ds_cpu *cpu, struct ds_lease *next)
{
	struct ds_lease *prev = cpu->loaded;
	bool overflowed = false;

	if (ds_is_lent(cpu))
		return -EBUSY;
	if (next && !next->area)
		return -EINVAL;
	if (next && next->cpu && next != prev)
		return -EPERM;
	if (prev && prev != &let_go) {
		overflowed = mark_overflow(prev);
		prev->cpu = NULL;
	}
	cpu->loaded = next;
	ds_load_area(cpu, next ? next->area : cpu->idle->area);
	if (next) {
		next->cpu = cpu;
		debugctl_record(cpu->debugctl, next->debugctl);
	}
	return overflowed;
}

uint64_t ds_pause(void)
{
	return ds_has_bts() ? debugctl_pause(ds_configuration->tr) : 0;
}

static bool is_full(const struct ds_lease *lease)
{
	return lease && lease->overflow == DS_O_SIGNAL && ds_bts_full(lease->area);
}

void ds_resume(const struct ds_cpu *cpu, uint64_t saved)
{
	if (ds_has_bts() && (saved & ds_configuration->tr) && !is_full(cpu->loaded))
		debugctl_record(cpu->debugctl, saved);
}

/* SDM Vol 3, 17.4.9.5: TR is clear while the handler looks. */
bool ds_pmi(struct ds_cpu *cpu)
{
	uint64_t saved = ds_pause();
	bool reached;

	ds_pebs_interrupt(cpu);
	reached = cpu->loaded && (mark_overflow(cpu->loaded) || is_full(cpu->loaded));
	ds_resume(cpu, saved);
	return reached;
}

void ds_panic_stop(struct ds_cpu *cpu)
{
	if (!ds_caps()->area)
		return;
	if (ds_has_bts())
		debugctl_pause(ds_configuration->tr | ds_configuration->bts);
	ds_pebs_pause(cpu); /* it would store at 0 */
	wrmsr(IA32_DS_AREA, 0);
	cpu->area = 0;
}

int ds_checkout(struct ds_cpu *cpu)
{
	if (cpu->loaded || cpu->pebs || cpu->debugctl->others || cpu->debugctl->lbr_control)
		return -EBUSY;
	cpu->loaded = &lent;
	return 0;
}

int ds_checkin(struct ds_cpu *cpu)
{
	if (!ds_is_lent(cpu))
		return -EINVAL;
	if (ds_caps()->area) {
		debugctl_record(cpu->debugctl, 0);
		wrmsr(IA32_DS_AREA, (uintptr_t)cpu->idle->area);
		cpu->area = (uintptr_t)cpu->idle->area;
	} else {
		ds_quiesce();
	}
	cpu->loaded = NULL;
	return 0;
}

bool ds_msr_holds(uint32_t msr, uint64_t value, struct ds_caps *caps)
{
	caps->refused_msr = msr;
	caps->refused_value = value;
	caps->refused_with_gp = !wrmsr_safe(msr, value) || !rdmsr_safe(msr, &caps->read_back);
	return !caps->refused_with_gp && caps->read_back == value;
}

struct ds_found ds_quiesce(void)
{
	struct ds_found found = {0};
	uint64_t area = 0;

	if (!cpuid_is_intel())
		return found;
	if (ds_pt_is_active() && rdmsr_safe(IA32_RTIT_CTL, &found.rtit_ctl))
		wrmsr_safe(IA32_RTIT_CTL, found.rtit_ctl & ~RTIT_CTL_TRACE_EN);
	found.debugctl = debugctl_clear();
	if (!(cpuid(1, 0).edx & CPUID_1_EDX_DS))
		return found;
	ds_pebs_quiesce();
	if (rdmsr_safe(IA32_DS_AREA, &area) && area)
		wrmsr_safe(IA32_DS_AREA, 0);
	return found;
}
