/* SPDX-License-Identifier: MIT */
/*
 * Performance monitoring unit: the counters, their event selects and IA32_PERF_GLOBAL_* (SDM Vol 3,
 * 18.2, architectural performance monitoring, version 2 and later), and the entry of the local
 * vector table through which all trace units interrupt (SDM Vol 3, 10.5.1).
 *
 * Each counter has at most one owner. An owner that asks for a counter which another owner has is
 * refused, and pmu_owner() names the other. No other code writes these registers.
 *
 * A counter is named by its bit in IA32_PERF_GLOBAL_CTRL: general counters from 0, fixed ones from
 * PMU_FIXED. "This CPU" means that the caller cannot move to another CPU; a struct pmu_cpu belongs
 * to one CPU and is passed on that CPU only.
 */
#pragma once

#include "abi/errno.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	PMU_GENERAL_MOST = 32,
	PMU_FIXED = 32, /* bit of the first fixed counter */
	PMU_FIXED_MOST = 16,
	PMU_COUNTERS_MOST = PMU_FIXED + PMU_FIXED_MOST,
};

/* CPUID.0AH. All zero: no Intel processor, or no version 2. */
struct pmu_caps {
	unsigned version;
	unsigned general, general_width; /* counters; bits of each */
	unsigned fixed, fixed_width;
	uint32_t unavailable; /* architectural events, by EBX, and those that it has no bit of */
};

struct pmu_owner {
	const char *name;
	/*
	 * The counter reached zero. pmu_pmi() calls it on the counter's CPU, in the context of the
	 * interrupt, NMI included; the counter goes on from zero. It may call pmu_start() and
	 * pmu_stop(). NULL: the counter does not interrupt.
	 */
	void (*overflowed)(unsigned counter, void *argument);
	void *argument;
};

/* SDM Vol 3, 18.2.5: a write sets bits 31:0 of a general counter and extends bit 31. */
#define PMU_LARGEST_PERIOD 0x7fffffffull

/* This driver's record of a CPU. */
struct pmu_cpu {
	const struct pmu_owner *owner[PMU_COUNTERS_MOST];
	uint64_t interrupting; /* bits of the counters whose owner has a callback */
};

/* Detects the counters. Boot, once. */
void pmu_init(void);

/* Leaves those counters that this CPU, another one with counters as wide, has as well. Boot. */
void pmu_limit(void);

/* The counters that every CPU has. Any context. */
const struct pmu_caps *pmu_caps(void);

/* `event` has select and unit mask of an architectural event that some CPU lacks. Any context. */
bool pmu_lacks_event(uint32_t event);

/*
 * Prepares this CPU's record. A counter that firmware left running belongs to the owner "firmware"
 * and runs on; any other is disabled in IA32_PERF_GLOBAL_CTRL. Each CPU once, after pmu_init(),
 * before any interrupt of the PMU.
 */
void pmu_init_cpu(struct pmu_cpu *cpu);

/*
 * Makes `owner` the owner of `counter` on this CPU. The counter is stopped, and its bit in
 * IA32_PERF_GLOBAL_STATUS is clear: no overflow from before is the owner's. -ENODEV: there are no
 * counters; -EINVAL: not this one; -EBUSY: it has an owner. A refusal changes nothing.
 */
int pmu_request(struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner);

/* Stops the counter and gives it back. -EPERM: `owner` does not own it. This CPU. */
int pmu_release(struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner);

/* The name of the counter's owner on this CPU, or NULL. */
const char *pmu_owner(const struct pmu_cpu *cpu, unsigned counter);

/* Event select bits (SDM Vol 3, figure 18-6). The driver adds EN, and INT if the owner wants it. */
#define PMU_USR (1ull << 16)
#define PMU_OS	(1ull << 17)

/*
 * Starts the counter on this CPU: it overflows after `period` events. `event` is an event select
 * without EN and INT; a fixed counter has its event already and takes PMU_USR and PMU_OS alone.
 * -EPERM: `owner` does not own the counter; -EINVAL: a period of 0 or above
 * PMU_LARGEST_PERIOD, or other bits in `event`.
 */
int pmu_start(struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner, uint64_t event,
	      uint64_t period);

/*
 * For an owner that starts and stops several counters with one write each: loads a counter, which
 * is stopped, so that it overflows after `left` events; pmu_run() starts it.
 * `event` may have PERFEVTSEL_ADAPTIVE (registers.h). Errors as pmu_start().
 */
int pmu_load(struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner, uint64_t event,
	     uint64_t left);

/* Starts or stops the counters with these bits, all of them the caller's. Any context. */
void pmu_run(uint64_t counters, bool on);

/* Those of these counters that run. Any context. */
uint64_t pmu_running(uint64_t counters);

/*
 * Those of these stopped counters that reached zero; their bits in IA32_PERF_GLOBAL_STATUS are
 * cleared, and OvfBuf, the bit of the DS area's buffers. Any context.
 */
uint64_t pmu_take_overflows(uint64_t counters);

/* Stops the counter; its value stays. -EPERM: as above. */
int pmu_stop(struct pmu_cpu *cpu, unsigned counter, const struct pmu_owner *owner);

/* The counter's value; 0 where there is no such counter. This CPU. */
uint64_t pmu_read(unsigned counter);

/* The value of `counter` that is `left` events before its overflow; and the events it has left. */
uint64_t pmu_value(unsigned counter, uint64_t left);
uint64_t pmu_left(unsigned counter);

/*
 * This CPU's part of a performance-monitoring interrupt, NMI included: calls the owner of each
 * counter that overflowed, if it has a callback. True if it called one. Only the bits of such
 * counters are cleared in IA32_PERF_GLOBAL_STATUS, and it is read only while there are any.
 */
bool pmu_pmi(struct pmu_cpu *cpu);
