/* SPDX-License-Identifier: MIT */
/* The rules of PEBS as a table of hooks, like monitor/ds/rules.h. */
#pragma once

#include "monitor/pebs/pebs.h"
#include "monitor/unit.h"

enum pebs_msr {
	MSR_PEBS_ENABLE = 0x3f1,
	MSR_PEBS_DATA_CFG = 0x3f2,
	MSR_PEBS_LD_LAT = 0x3f6,
	MSR_PEBS_FRONTEND = 0x3f7,
};
#define LD_LAT_MASK 0xffffull

/* Event, its length and its width; no event of these occurs here (18.13). */
#define FRONTEND_MASK 0x7fff17ull

/* NetBurst: replay metrics, tags, UOP_TAG, and one flag for each thread; 3F2H, MATRIX_VERT. */
#define NETBURST_ENABLE_MASK 0x07019fffull
#define NETBURST_MY_THREAD   (1ull << 25)
#define MATRIX_VERT_MASK     0x13ull

/* MSR_PEBS_DATA_CFG. */
enum { CFG_MEMINFO = 1, CFG_GPR = 2, CFG_XMM = 4, CFG_LBR = 8, CFG_LBR_SHIFT = 24 };
#define CFG_MASK	   0x1f00000full
#define CFG_ENTRIES	   0x1f000000ull
#define CFG_LBR_ENTRIES(c) (((c) >> CFG_LBR_SHIFT & 0x1f) + 1)

/* The PEBS half of the DS area: SDM Vol 3, figures 17-8 and 18-22. */
enum { PEBS_BASE, PEBS_INDEX, PEBS_MAXIMUM, PEBS_THRESHOLD, PEBS_FIELDS };
enum { PEBS_AREA = 0x20, PEBS_RESET = 0x40, PEBS_RESET_FIXED = 0x80 };

/* Basic, memory, registers, XMM, and 32 entries of the LBR stack. */
enum { PEBS_MOST_WORDS = 4 + 4 + 18 + 32 + 32 * 3 };

/* Every load of this silicon hits its first cache: SDM Vol 3, table 18-24, 1. */
enum { LOAD_LATENCY = 5, SOURCE_L1 = 1 };

/* What the manual leaves open. variants.c holds its names. */
struct pebs_behaviour {
	/* Whether it is there (IA32_MISC_ENABLE); what RIP a record shows, that after the
	   instruction or its own (IA32_PERF_CAPABILITIES.PEBS_TRAP); which record asks for the
	   interrupt; what a record that found no room does. */
	enum { PEBS_AVAILABLE, PEBS_ABSENT } available;
	enum { PEBS_IP_OF_NEXT, PEBS_IP_OF_INSTRUCTION } ip;
	enum { PEBS_REACHED, PEBS_CROSSED } trigger;
	enum { PEBS_FULL_IS_SILENT, PEBS_FULL_SAYS_SO, PEBS_FULL_INTERRUPTS } full;

	/* Events between the one that overflows a counter and the one that is sampled, but with
	   PDIR: "a finite delay", 18.9.4.4. */
	enum { PEBS_SKID_NONE, PEBS_SKID, PEBS_SKID_VARIES } skid;
};
extern const struct unit pebs_unit;

struct pebs_rules {
	bool (*read_msr)(const struct vcpu *vcpu, uint32_t index, uint64_t *value);
	bool (*write_msr)(struct vcpu *vcpu, uint32_t index, uint64_t value);
	/* An overflow arms the counter. */
	bool (*arms)(const struct vcpu *vcpu, unsigned n);
	/* The assist, with all that follows from it; false: it did nothing. */
	bool (*sample)(struct vcpu *vcpu, unsigned n, const struct retired *retired);
	/* The record; returns its words. */
	unsigned (*record)(struct vcpu *vcpu, unsigned n, const struct retired *retired,
			   uint64_t record[PEBS_MOST_WORDS]);
	/* Whether it fits at the index. */
	bool (*room)(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS], unsigned bytes);
	/* The index after it. */
	uint64_t (*advance)(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS],
			    unsigned bytes);
	/* The counter begins again. */
	void (*reload)(struct vcpu *vcpu, unsigned n);
	void (*clear_status)(struct vcpu *vcpu, unsigned n);
	/* Whether the index asks for the interrupt. */
	bool (*threshold)(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS]);
	void (*interrupt)(struct vcpu *vcpu);
};

extern const struct pebs_rules pebs_clean;

/* For the row: defects.c. */
void pebs_stop(struct silicon *silicon);

/* registers.c */
uint64_t pebs_enable_mask(const struct vcpu *vcpu);
bool pebs_enabled(const struct vcpu *vcpu, unsigned n);
bool pebs_rule_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool pebs_rule_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);

/* sample.c */
bool pebs_rule_arms(const struct vcpu *vcpu, unsigned n);
bool pebs_rule_sample(struct vcpu *vcpu, unsigned n, const struct retired *retired);
bool pebs_rule_room(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS], unsigned bytes);
uint64_t pebs_rule_advance(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS],
			   unsigned bytes);
void pebs_rule_reload(struct vcpu *vcpu, unsigned n);
void pebs_rule_clear_status(struct vcpu *vcpu, unsigned n);
bool pebs_rule_threshold(const struct vcpu *vcpu, const uint64_t field[PEBS_FIELDS]);
void pebs_rule_interrupt(struct vcpu *vcpu);
/* Where counter `n` has its reset value, from the start of the DS area. */
unsigned pebs_reset_offset(const struct vcpu *vcpu, unsigned n);

/* record.c */
unsigned pebs_rule_record(struct vcpu *vcpu, unsigned n, const struct retired *retired,
			  uint64_t record[PEBS_MOST_WORDS]);
