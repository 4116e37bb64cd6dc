// SPDX-License-Identifier: MIT
#include "drivers/pmu/pmu.h"

#include "drivers/pmu/registers.h"
#include "drivers/processor.h"

#include <stddef.h>

#define CPUID_ARCHITECTURAL_PERFMON 0xau

static const struct pmu_owner firmware = {.name = "firmware"};
static struct pmu_caps caps;

static uint64_t bit(unsigned counter)
{
	return 1ull << counter;
}

static bool is_fixed(unsigned counter)
{
	return counter >= PMU_FIXED;
}

static bool exists(unsigned counter)
{
	return is_fixed(counter) ? counter - PMU_FIXED < caps.fixed : counter < caps.general;
}

/* EBX has no bit of an event that EAX[31:24] leaves out. */
static uint32_t unavailable_events(struct cpuid_result leaf)
{
	unsigned events = leaf.eax >> 24;

	return leaf.ebx | (events < 32 ? UINT32_MAX << events : 0);
}

/* SDM Vol 2, CPUID, leaf 0AH. Where its MSRs are refused there are no counters. */
void pmu_init(void)
{
	struct cpuid_result first = cpuid(0, 0), leaf;

	caps = (struct pmu_caps){0};
	if (!cpuid_is_intel() || first.eax < CPUID_ARCHITECTURAL_PERFMON)
		return;
	leaf = cpuid(CPUID_ARCHITECTURAL_PERFMON, 0);
	if ((leaf.eax & 0xff) < 2 || !rdmsr_safe(IA32_PERF_GLOBAL_CTRL, &(uint64_t){0}))
		return;
	caps.version = leaf.eax & 0xff;
	caps.general = leaf.eax >> 8 & 0xff;
	caps.general_width = leaf.eax >> 16 & 0xff;
	caps.fixed = leaf.edx & 0x1f;
	caps.fixed_width = leaf.edx >> 5 & 0xff;
	caps.unavailable = unavailable_events(leaf);
	if (caps.general > PMU_GENERAL_MOST)
		caps.general = PMU_GENERAL_MOST;
	if (caps.fixed > PMU_FIXED_MOST)
		caps.fixed = PMU_FIXED_MOST;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

void pmu_limit(void)
{
	struct cpuid_result leaf =
		caps.version ? cpuid(CPUID_ARCHITECTURAL_PERFMON, 0) : (struct cpuid_result){0};

	caps.version = least(caps.version, leaf.eax & 0xff);
	caps.general = least(caps.general, leaf.eax >> 8 & 0xff);
	caps.fixed = least(caps.fixed, leaf.edx & 0x1f);
	caps.unavailable |= unavailable_events(leaf);
}

const struct pmu_caps *pmu_caps(void)
{
	return &caps;
}

/* SDM Vol 3, table 18-1: event select and unit mask, in the order of the bits of EBX. */
bool pmu_lacks_event(uint32_t event)
{
	static const uint16_t architectural[] = {0x003c, 0x00c0, 0x013c, 0x4f2e,
						 0x412e, 0x00c4, 0x00c5};

	for (unsigned i = 0; i < sizeof(architectural) / sizeof(architectural[0]); i++)
		if (architectural[i] == (event & 0xffff))
			return caps.unavailable >> i & 1;
	return false;
}

/* Where a fixed counter has its four bits in IA32_FIXED_CTR_CTRL. */
static unsigned fixed_shift(unsigned counter)
{
	return (counter - PMU_FIXED) * FIXED_BITS;
}

/* Replaces the counter's event select, or its bits in the control register of fixed counters, of
   which one is at 32 and up: Linux 6.1, perf_event.h. */
static void select_event(unsigned counter, uint64_t value)
{
	uint64_t control;

	if (!is_fixed(counter)) {
		wrmsr(IA32_PERFEVTSEL0 + counter, value);
		return;
	}
	control = rdmsr(IA32_FIXED_CTR_CTRL) & ~((0xfull | FIXED_ADAPTIVE) << fixed_shift(counter));
	wrmsr(IA32_FIXED_CTR_CTRL, control | value << fixed_shift(counter));
}

void pmu_run(uint64_t counters, bool on)
{
	uint64_t now = rdmsr(IA32_PERF_GLOBAL_CTRL);
	uint64_t next = on ? now | counters : now & ~counters;

	if (next != now)
		wrmsr(IA32_PERF_GLOBAL_CTRL, next);
}

uint64_t pmu_running(uint64_t counters)
{
	return rdmsr(IA32_PERF_GLOBAL_CTRL) & counters;
}

static void stop(unsigned counter)
{
	pmu_run(bit(counter), false);
	select_event(counter, 0);
}

static uint32_t value_msr(unsigned counter)
{
	return is_fixed(counter) ? IA32_FIXED_CTR0 + counter - PMU_FIXED : IA32_PMC0 + counter;
}

/* Enabled in its own control register and in IA32_PERF_GLOBAL_CTRL. */
static bool is_running(unsigned counter)
{
	uint64_t control;

	if (!(rdmsr(IA32_PERF_GLOBAL_CTRL) & bit(counter)))
		return false;
	if (!is_fixed(counter))
		return rdmsr(IA32_PERFEVTSEL0 + counter) & PERFEVTSEL_EN;
	control = rdmsr(IA32_FIXED_CTR_CTRL) >> fixed_shift(counter);
	return control & (FIXED_OS | FIXED_USR);
}

static void give(struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner)
{
	cpu->owner[counter] = owner;
	cpu->interrupting &= ~bit(counter);
	if (owner && owner->overflowed)
		cpu->interrupting |= bit(counter);
}

void pmu_init_cpu(struct pmu_cpu *cpu)
{
	uint64_t free = 0;

	*cpu = (struct pmu_cpu){0};
	for (unsigned counter = 0; counter < PMU_COUNTERS_MOST; counter++)
		if (exists(counter) && is_running(counter))
			give(cpu, counter, &firmware);
		else if (exists(counter))
			free |= bit(counter);
	if (free)
		pmu_run(free, false); /* RESET enables general ones */
}

static bool is_owner(const struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner)
{
	return counter < PMU_COUNTERS_MOST && owner && cpu->owner[counter] == owner;
}

/* Where the counter's last owner, firmware or a debugger left its bit. */
static void clear_overflow(unsigned counter)
{
	if (rdmsr(IA32_PERF_GLOBAL_STATUS) & bit(counter))
		wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, bit(counter));
}

int pmu_request(struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner)
{
	if (!caps.version)
		return -ENODEV;
	if (counter >= PMU_COUNTERS_MOST || !exists(counter))
		return -EINVAL;
	if (cpu->owner[counter])
		return -EBUSY;
	clear_overflow(counter);
	give(cpu, counter, owner);
	return 0;
}

int pmu_release(struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner)
{
	int error = pmu_stop(cpu, counter, owner);

	if (!error)
		give(cpu, counter, NULL);
	return error;
}

const char *pmu_owner(const struct pmu_cpu *cpu, unsigned counter)
{
	return counter < PMU_COUNTERS_MOST && cpu->owner[counter] ? cpu->owner[counter]->name
								  : NULL;
}

static uint64_t general_control(uint64_t event, bool interrupts)
{
	return event | PERFEVTSEL_EN | (interrupts ? PERFEVTSEL_INT : 0);
}

static uint64_t fixed_control(uint64_t event, bool interrupts)
{
	return (event & PMU_OS ? FIXED_OS : 0) | (event & PMU_USR ? FIXED_USR : 0) |
	       (interrupts ? FIXED_PMI : 0) | (event & PERFEVTSEL_ADAPTIVE ? FIXED_ADAPTIVE : 0);
}

static uint64_t counter_mask(unsigned counter)
{
	unsigned width = is_fixed(counter) ? caps.fixed_width : caps.general_width;

	return width < 64 ? (1ull << width) - 1 : UINT64_MAX;
}

uint64_t pmu_value(unsigned counter, uint64_t left)
{
	return -left & counter_mask(counter);
}

uint64_t pmu_left(unsigned counter)
{
	return pmu_value(counter, pmu_read(counter));
}

static bool is_loadable(unsigned counter, uint64_t event, uint64_t period)
{
	bool others = is_fixed(counter) ? event & ~(PMU_USR | PMU_OS)
					: event & (PERFEVTSEL_EN | PERFEVTSEL_INT) || event >> 32;

	return period && period <= PMU_LARGEST_PERIOD && !others;
}

static uint64_t control_of(unsigned counter, uint64_t event, bool interrupts)
{
	return is_fixed(counter) ? fixed_control(event, interrupts)
				 : general_control(event, interrupts);
}

/* Stopped while it changes, so that no event counts from the old value by the new select. */
int pmu_start(struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner, uint64_t event,
	      uint64_t period)
{
	if (!is_owner(cpu, counter, owner))
		return -EPERM;
	if (!is_loadable(counter, event, period))
		return -EINVAL;
	stop(counter);
	wrmsr(value_msr(counter), pmu_value(counter, period));
	select_event(counter, control_of(counter, event, owner->overflowed));
	pmu_run(bit(counter), true);
	return 0;
}

int pmu_load(struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner, uint64_t event,
	     uint64_t left)
{
	if (!is_owner(cpu, counter, owner))
		return -EPERM;
	if (!is_loadable(counter, event & ~PERFEVTSEL_ADAPTIVE, left))
		return -EINVAL;
	wrmsr(value_msr(counter), pmu_value(counter, left));
	select_event(counter, control_of(counter, event, owner->overflowed));
	return 0;
}

uint64_t pmu_take_overflows(uint64_t counters)
{
	uint64_t found = caps.version ? rdmsr(IA32_PERF_GLOBAL_STATUS) : 0;

	found &= counters | GLOBAL_STATUS_OVF_BUF;
	if (found)
		wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, found);
	return found & counters;
}

int pmu_stop(struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner)
{
	if (!is_owner(cpu, counter, owner))
		return -EPERM;
	stop(counter);
	return 0;
}

uint64_t pmu_read(unsigned counter)
{
	return counter < PMU_COUNTERS_MOST && exists(counter) ? rdmsr(value_msr(counter)) : 0;
}

/*
 * The status is cleared before the callbacks run: an overflow during a callback then raises another
 * interrupt.
 */
bool pmu_pmi(struct pmu_cpu *cpu)
{
	uint64_t overflowed;

	if (!cpu->interrupting)
		return false;
	overflowed = rdmsr(IA32_PERF_GLOBAL_STATUS) & cpu->interrupting;
	if (!overflowed)
		return false;
	wrmsr(IA32_PERF_GLOBAL_OVF_CTRL, overflowed);
	for (unsigned counter = 0; counter < PMU_COUNTERS_MOST; counter++) {
		const struct pmu_owner *owner = cpu->owner[counter];

		if (overflowed & cpu->interrupting & bit(counter))
			owner->overflowed(counter, owner->argument);
	}
	return true;
}
