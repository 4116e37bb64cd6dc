/* SPDX-License-Identifier: MIT */
/* The rules of the counters as a table of hooks, like monitor/ds/rules.h; and the registers that
   they are about. */
#pragma once

#include "monitor/pmu/pmu.h"
#include "monitor/unit.h"

/* SDM Vol 3, tables 35-2 and following. */
enum pmu_msr {
	MSR_PMC0 = 0xc1,
	MSR_PERFEVTSEL0 = 0x186,
	MSR_FIXED_CTR0 = 0x309,
	MSR_PERF_CAPABILITIES = 0x345,
	MSR_FIXED_CTR_CTRL = 0x38d,
	MSR_PERF_GLOBAL_STATUS = 0x38e,
	MSR_PERF_GLOBAL_CTRL = 0x38f,
	MSR_PERF_GLOBAL_OVF_CTRL = 0x390, /* version 4: IA32_PERF_GLOBAL_STATUS_RESET */
	MSR_PERF_GLOBAL_STATUS_SET = 0x391,
	MSR_PERF_GLOBAL_INUSE = 0x392,
	MSR_A_PMC0 = 0x4c1,
};

/* IA32_PERFEVTSELx: figure 18-6. */
#define SELECT_EVENT	0xffffull /* event select and unit mask */
#define SELECT_USR	(1ull << 16)
#define SELECT_OS	(1ull << 17)
#define SELECT_EDGE	(1ull << 18)
#define SELECT_INT	(1ull << 20)
#define SELECT_ANY	(1ull << 21)
#define SELECT_EN	(1ull << 22)
#define SELECT_INV	(1ull << 23)
#define SELECT_CMASK(s) ((unsigned)((s) >> 24 & 0xff))
#define SELECT_ADAPTIVE (1ull << 34)
/* IA32_FIXED_CTR_CTRL, of each counter: figure 18-2. */
#define FIXED_OS       1ull
#define FIXED_USR      2ull
#define FIXED_ANY      4ull
#define FIXED_PMI      8ull
#define FIXED_ADAPTIVE (1ull << 32)
#define FIXED_SHIFT(n) (((n)-PMU_GENERAL) * 4)
/* IA32_PERF_GLOBAL_STATUS: 18.2.2, 18.2.4. */
#define STATUS_TOPA	(1ull << 55) /* Trace_ToPA_PMI: 36.2.6.2 */
#define STATUS_LBR_FRZ	(1ull << 58)
#define STATUS_CTR_FRZ	(1ull << 59)
#define STATUS_ASCI	(1ull << 60)
#define STATUS_UNCORE	(1ull << 61)
#define STATUS_OVFBUF	(1ull << 62)
#define STATUS_CONDCHGD (1ull << 63)
#define INUSE_PMI	(1ull << 63)

/* An event that can be counted: the instruction has all of `has` and nothing of `without` among the
   bits of enum retired_kind. */
struct pmu_event {
	uint16_t code; /* unit mask << 8 | event select */
	uint16_t has, without;
	uint16_t precise; /* the general counters that take PEBS samples of it */
	enum { EVENT_OF_INSTRUCTION, EVENT_CYCLES, EVENT_LATENCY } kind;
};

/* What the manual leaves open. variants.c holds its names. */
struct pmu_behaviour {
	/* Whose CPL a counter judges an instruction by that changes it, such as SYSCALL. */
	enum { PMU_COUNTED_BY_SOURCE, PMU_COUNTED_BY_TARGET } counted;
	/* Whether an interrupt or exception is an instruction and a branch of the level that it
	   ends: on Core to Sandy Bridge one that interrupts ring 3 was measured to be. */
	enum { PMU_EVENTS_UNCOUNTED, PMU_EVENTS_COUNTED } events;
	/* Core cycles by those of the TSC: chapter 18, "the frequency may change". How the fixed
	   counter of reference cycles moves: table 18-8. */
	enum { PMU_CORE_AS_TSC, PMU_CORE_FASTER, PMU_CORE_SLOWER } core;
	enum { PMU_REFERENCE_EACH, PMU_REFERENCE_COARSE } reference;
	/* Instructions between an overflow in ring 0, or in any, and its interrupt. */
	enum { PMU_LATE_NONE, PMU_LATE, PMU_LATE_ANYWHERE } late;
	/* Whether E detects edges where CMASK is 0, or each event counts: 18.2.1.1. */
	enum { PMU_EDGE_DETECTED, PMU_EDGE_IGNORED } edge;
};
extern const struct unit pmu_unit;

struct pmu_rules {
	bool (*read_msr)(struct vcpu *vcpu, uint32_t index, uint64_t *value);
	bool (*write_msr)(struct vcpu *vcpu, uint32_t index, uint64_t value);
	bool (*read_counter)(struct vcpu *vcpu, uint32_t selector, uint64_t *value);
	/* Whether counter `n` may count at this privilege level. */
	bool (*privilege)(const struct vcpu *vcpu, unsigned n, unsigned cpl);
	/* What this instruction is to counter `n`'s event: 0 or 1. */
	unsigned (*occurs)(const struct vcpu *vcpu, unsigned n, const struct retired *retired);
	/* Adds to a counter; true if it overflowed. */
	bool (*add)(struct vcpu *vcpu, unsigned n, uint64_t count);
	/* A counter overflowed. */
	void (*overflow)(struct vcpu *vcpu, unsigned n);
	void (*freeze)(struct vcpu *vcpu);
	/* Whether the predictor knew where the branch would lead; it learns. */
	bool (*predict)(struct vcpu *vcpu, const struct retired *retired);
};

extern const struct pmu_rules pmu_clean;

/* For the row: defects.c. */
void pmu_stop(struct silicon *silicon);

/* registers.c */
uint64_t pmu_bit(unsigned n); /* of counter `n` in IA32_PERF_GLOBAL_* */
uint64_t pmu_counter_mask(const struct vcpu *vcpu);
bool pmu_rule_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool pmu_rule_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);
bool pmu_rule_read_counter(struct vcpu *vcpu, uint32_t selector, uint64_t *value);

/* events.c */
bool is_netburst(const struct vcpu *vcpu);
/* The event of counter `n`; NULL: none that happens here. */
const struct pmu_event *pmu_event_of(const struct vcpu *vcpu, unsigned n);
/* The events of each family beside the architectural ones; code 0 ends a list. */
extern const struct pmu_event pmu_events_core[], pmu_events_nehalem[], pmu_events_skylake[],
	pmu_events_icelake[];
#define pmu_events_haswell (&pmu_events_skylake[2]) /* the first two are skylake's alone */

/* count.c */
bool pmu_rule_privilege(const struct vcpu *vcpu, unsigned n, unsigned cpl);
unsigned pmu_rule_occurs(const struct vcpu *vcpu, unsigned n, const struct retired *retired);
bool pmu_rule_add(struct vcpu *vcpu, unsigned n, uint64_t count);
void pmu_rule_overflow(struct vcpu *vcpu, unsigned n);
void pmu_rule_freeze(struct vcpu *vcpu);
bool pmu_rule_predict(struct vcpu *vcpu, const struct retired *retired);

/* netburst.c: its counter is the one at place 0 */
uint64_t *netburst_register(struct vcpu *vcpu, uint32_t index, uint64_t *mask);
bool netburst_runs(const struct vcpu *vcpu);
bool netburst_counts(const struct vcpu *vcpu, unsigned cpl);
bool netburst_interrupts(const struct vcpu *vcpu);
void netburst_overflow(struct vcpu *vcpu);

/* events.c: those of each family beside the architectural ones; code 0 ends a list. */
extern const struct pmu_event pmu_events_core[], pmu_events_nehalem[], pmu_events_skylake[],
	pmu_events_icelake[];
#define pmu_events_haswell (&pmu_events_skylake[2]) /* the first two are skylake's alone */
