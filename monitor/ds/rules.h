/* SPDX-License-Identifier: MIT */
/*
 * The rules of the Debug Store as a table of hooks. `ds_clean` is what the SDM says; silicon that
 * is wrong on purpose has one of them replaced (monitor/defect.h).
 */
#pragma once

#include "monitor/ds/behaviour.h"
#include "monitor/ds/ds.h"
#include "monitor/unit.h"

/* DS buffer management area, 64-bit format: SDM Vol 3, 17.4.9.2. */
enum { BTS_BASE, BTS_INDEX, BTS_MAXIMUM, BTS_THRESHOLD, BTS_FIELDS };
enum { FIELD_BYTES = 8, RECORD_BYTES = 24, RECORD_WORDS = RECORD_BYTES / FIELD_BYTES };

/* IA32_MISC_ENABLE: SDM Vol 3, table 35-2. */
#define MISC_ENABLE_PERF_AVAILABLE   (1ull << 7)
#define MISC_ENABLE_BTS_UNAVAILABLE  (1ull << 11)
#define MISC_ENABLE_PEBS_UNAVAILABLE (1ull << 12)

/* LVT performance counter entry: SDM Vol 3, 10.5.1. */
enum {
	LVT_VECTOR = 0xff,
	LVT_DELIVERY = 7 << 8,
	LVT_FIXED = 0 << 8,
	LVT_NMI = 4 << 8,
	LVT_MASKED = 1 << 16,
};

struct ds_rules {
	struct ds_enumeration (*enumerate)(const struct vcpu *vcpu);
	/* What INIT makes of the state. */
	void (*init)(struct vcpu *vcpu);
	bool (*read_msr)(const struct vcpu *vcpu, uint32_t index, uint64_t *value);
	bool (*write_msr)(struct vcpu *vcpu, uint32_t index, uint64_t value);
	/* What TR and BTS in IA32_DEBUGCTL mean: branches are stored. */
	bool (*enabled)(const struct vcpu *vcpu);
	/* State that changes at an event, before it is recorded; and at what a program does. */
	void (*event)(struct vcpu *vcpu, const struct branch *event);
	void (*note)(struct vcpu *vcpu, enum ds_occasion occasion);
	/* Whether this branch is recorded at all. */
	bool (*filter)(const struct vcpu *vcpu, const struct branch *branch);
	/* The record of a branch, stored and counted, with all that follows from it. */
	void (*store)(struct vcpu *vcpu, const struct branch *branch);
	/* Its content. */
	void (*record)(struct vcpu *vcpu, const struct branch *branch,
		       uint64_t record[RECORD_WORDS]);
	/* Makes the index that of the slot where it goes; false: it is lost. */
	bool (*overflow)(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS]);
	/* The index after it. */
	uint64_t (*advance)(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS]);
	/* Whether a record stored at the index asks for the interrupt. */
	bool (*threshold)(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS]);
	/* The interrupt was asked for; what the local APIC makes of it. */
	void (*interrupt)(struct vcpu *vcpu);
	struct delivery (*deliver)(struct vcpu *vcpu, uint32_t entry);
};

extern const struct ds_rules ds_clean;

extern const struct unit ds_unit;

/* The Debug Store of a struct silicon. */
struct ds_silicon {
	struct ds_rules rules;
	bool clean; /* no rule is replaced */
};

/* For the row: silicon.c. */
void ds_make(struct silicon *silicon);
void ds_stop(struct silicon *silicon);
void ds_cpuid(const struct vcpu *vcpu, uint32_t leaf, uint32_t subleaf, uint32_t value[4]);
void ds_cr3(struct vcpu *vcpu);
void ds_exit(struct vcpu *vcpu);

/* Its rules, of which the caller is to replace some: branches take the long way from now on. */
struct ds_rules *ds_break(struct ds_silicon *ds);

/* Whether the rules say of a branch within a privilege level only that it is recorded, and as what.
 */
bool ds_is_plain(const struct silicon *silicon);
/* Whether a level that it does not record is left alone: no rule looks at branches of it. */
bool ds_has_levels(const struct silicon *silicon);

/* The clean rules, in the files that hold them. */

/* store.c */
void ds_rule_store(struct vcpu *vcpu, const struct branch *branch);

/* msr.c */
struct ds_enumeration ds_rule_enumerate(const struct vcpu *vcpu);
void ds_rule_init(struct vcpu *vcpu);
bool ds_rule_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool ds_rule_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);
bool ds_rule_enabled(const struct vcpu *vcpu);
void ds_rule_event(struct vcpu *vcpu, const struct branch *event);
void ds_rule_note(struct vcpu *vcpu, enum ds_occasion occasion);
/* Branches are recorded from now on, or no longer. */
void ds_set_tracing(struct vcpu *vcpu, bool on);
/* IA32_DEBUGCTL gets `value`, with what depends on it. */
void ds_set_debugctl(struct vcpu *vcpu, uint64_t value);

/* store.c */
bool ds_rule_filter(const struct vcpu *vcpu, const struct branch *branch);
void ds_rule_record(struct vcpu *vcpu, const struct branch *branch, uint64_t record[RECORD_WORDS]);
bool ds_rule_overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS]);
uint64_t ds_rule_advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS]);
bool ds_rule_threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS]);

/* interrupt.c */
void ds_rule_interrupt(struct vcpu *vcpu);
struct delivery ds_rule_deliver(struct vcpu *vcpu, uint32_t entry);
/* A branch was taken while an interrupt may be waiting; and it waits no longer. */
void ds_skid(struct vcpu *vcpu);
void ds_end_skid(struct vcpu *vcpu);
