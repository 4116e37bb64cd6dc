/* SPDX-License-Identifier: MIT */
/*
 * The trace units of the virtual processor. Each is a row, in the variants.c of its folder, and
 * units.c is the table. A row says what the unit observes, its MSRs, its part of CPUID, its
 * component of XSAVES, what the manual leaves open about it. The code that runs a guest walks the
 * rows and names none. A unit's rules, behaviour and defects lie in its own folder; silicon.h and
 * vcpu.h have its rules and its state as members.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/vcpu.h"

struct behaviour;
struct profile;
struct silicon;

struct msr_range {
	uint32_t first, last;
};

/* What the manual leaves open: a member of the unit's struct of behaviour, an enumeration. */
enum { MOST_CHOICES = 4 };
struct point {
	const char *name; /* NULL ends a table */
	size_t offset;
	struct choice {
		const char *name, *meaning; /* half a sentence */
	} choices[MOST_CHOICES];	    /* in the order of the enumeration: the default first */
};

/* How the local APIC delivers a performance-monitoring interrupt: SDM Vol 3, 10.5.1. */
struct delivery {
	enum { DELIVER_NOTHING, DELIVER_FIXED, DELIVER_NMI, DELIVER_OTHER } kind;
	uint8_t vector;
	uint32_t entry; /* what the LVT performance counter entry holds then */
	bool status; /* IA32_PERF_GLOBAL_STATUS.OvfBuf is set, whatever becomes of the interrupt */
	bool waits;  /* until the entry is unmasked */
};

/* Bits of what a unit has to see of a guest that runs natively. */
enum { EXIT_AT_HLT = 1 << 0, EXIT_AT_DEBUG_EXCEPTION = 1 << 1 };

struct unit {
	const char *name; /* in vbts=inert=, and in NAME=on where the unit is added */

	/* The clean rules; those of one that holds its MSRs and does nothing: whatever test claims
	   that it records has to fail. */
	void (*make)(struct silicon *silicon);
	void (*stop)(struct silicon *silicon);

	/* Of a unit that the command line adds: its rules, and which processors can have it. */
	void (*add)(struct silicon *silicon);
	bool (*is_of)(const struct profile *profile);

	/* In struct vcpu: RESET and INIT clear it. 0 bytes: nothing is cleared. */
	struct {
		size_t offset, bytes;
	} state;

	/* Every access to these exits, whatever the profile; {0} ends them. False: #GP(0), nothing
	   changed. Of a unit without these two functions the MSRs are the first members of its
	   state, in this order. */
	const struct msr_range *msrs;
	bool (*read_msr)(struct vcpu *vcpu, uint32_t index, uint64_t *value);
	bool (*write_msr)(struct vcpu *vcpu, uint32_t index, uint64_t value);

	/* An MSR of any unit has been written. */
	void (*written)(struct vcpu *vcpu);

	/* Changes the answer of CPUID, which is that of the processor underneath as far as svm/
	   lets it through: EAX to EDX. Called for every leaf below 8000_0000H. */
	void (*cpuid)(const struct vcpu *vcpu, uint32_t leaf, uint32_t subleaf, uint32_t value[4]);

	/* Of the real processor, what firmware may have left set; `leaf_7`: the bit of CPUID.7:EBX
	   by which Intel's processors say that they have the MSR, 0: all that know it have. */
	struct {
		const char *name;
		uint32_t index, leaf_7;
	} control;

	/* RESET alone; then, as at INIT, the second one; INIT alone, after it. */
	void (*power_on)(struct vcpu *vcpu);
	void (*reset)(struct vcpu *vcpu);
	void (*init)(struct vcpu *vcpu);

	/* The CPLs that have to be interpreted for it: observed_levels(). */
	unsigned (*levels)(const struct vcpu *vcpu);

	/* The reports of observe.h, while the unit's bit of vcpu->observed is set (enum observer),
	   and events always where OBSERVERS_OF_EVERY_EVENT says so. A unit that sets its bit has
	   `levels`, and `event` and `retired` where no set of observe.h leaves it out. */
	void (*event)(struct vcpu *vcpu, const struct branch *event);
	void (*retired)(struct vcpu *vcpu, const struct retired *retired);
	void (*cr3)(struct vcpu *vcpu);
	/* The unit of OBSERVER_FLOW has it: whether in ring 3 it needs no report of an
	   instruction that is no branch. */
	bool (*branches_alone)(struct vcpu *vcpu);
	void (*exit)(struct vcpu *vcpu); /* whether its bit is set or not */

	/* RDPMC, by ECX; false: #GP(0). The first row that has it answers. */
	bool (*read_counter)(struct vcpu *vcpu, uint32_t selector, uint64_t *value);

	/* EXIT_AT_...: events at which a guest that runs natively has to exit. */
	unsigned (*exits)(const struct vcpu *vcpu);

	/* Between two instructions of the guest. HLT begins, ends. */
	void (*pass)(struct vcpu *vcpu);
	void (*wait)(struct vcpu *vcpu, bool waits);

	/* The TSC at which it has to act though the guest runs natively, 0: never; and its act. */
	uint64_t (*deadline)(const struct vcpu *vcpu);
	void (*tick)(struct vcpu *vcpu);

	/* How the local APIC delivers a unit's interrupt: by `entry`, that of the performance
	   counters in its local vector table. One row has it. */
	struct delivery (*deliver)(struct vcpu *vcpu, uint32_t entry);

	/* That entry has been written and is not masked; the local APIC is as after RESET. A unit
	   has asked for an interrupt by it: whether that waits since the entry is masked, and
	   whether IA32_PERF_GLOBAL_STATUS shows it. */
	void (*unmasked)(struct vcpu *vcpu);
	/* Whether the next unmasking matters; until then `unmasked` may be left out. */
	bool (*awaits_unmasking)(const struct vcpu *vcpu);
	void (*forget)(struct vcpu *vcpu);
	void (*interrupted)(struct vcpu *vcpu, bool waits, bool shown);

	/* The state component of XSAVES; 0: none. As platform_save_state() and
	   platform_load_state() of monitor/interp. */
	struct {
		unsigned number, bytes;
		bool (*is_in)(const struct silicon *silicon);
		bool (*save)(struct vcpu *vcpu, uint64_t rip, uint64_t *area);
		bool (*restore)(struct vcpu *vcpu, const uint64_t *area);
	} component;

	/* NULL: nothing is open. Where the unit's part of struct behaviour is. */
	const struct point *points;
	size_t behaviour;
};

/* In the order of EACH_UNIT. */
extern const struct unit *const units[UNITS];

/* unit.c. NULL: there is no such unit that can be inert; none answers for this MSR. */
const struct unit *unit_find(const char *name);
const struct unit *unit_of_msr(uint32_t index);

/* As a set of one: the unit of this name, which a processor of this profile can be given; or 0. */
unsigned unit_to_add(const char *name, const struct profile *profile);

struct variant {
	const char *point, *choice;
	const char *meaning;
	bool is_default;
};

/* Variant `n` of all units; false past the last one. The choices of a point follow each other. */
bool variant_get(unsigned n, struct variant *variant);

/* Applies "point=choice"; false where there is no such variant. */
bool variant_apply(struct behaviour *behaviour, const char *word);

/* What the manual says of this processor, and the default elsewhere. */
void behaviour_of_profile(struct behaviour *behaviour, const struct profile *profile);

/* Of all units together. */

/* Clean silicon, without what the command line adds. The rest of `silicon` stays as it is. */
void silicon_make(struct silicon *silicon, const struct profile *profile,
		  const struct behaviour *behaviour);

/* RESET of a processor: its counters too, which INIT leaves alone (SDM Vol 3, table 9-1). */
void trace_power_on(struct vcpu *vcpu, const struct silicon *silicon);

/* RESET and INIT of a processor of `silicon`: nothing is traced. Before anything of a unit. */
void trace_reset(struct vcpu *vcpu, const struct silicon *silicon);

/* INIT, after trace_reset(). */
void trace_init(struct vcpu *vcpu);

/* RDMSR and WRMSR of an MSR that a unit has. False: #GP(0). */
bool trace_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value);
bool trace_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value);

/* The rows' members of the same names, of each unit that has them. */
unsigned trace_exits(const struct vcpu *vcpu);
struct delivery trace_deliver(struct vcpu *vcpu, uint32_t entry);
void trace_forget(struct vcpu *vcpu);
bool trace_read_counter(struct vcpu *vcpu, uint32_t selector, uint64_t *value);
void trace_pass(struct vcpu *vcpu);
void trace_wait(struct vcpu *vcpu, bool waits);
uint64_t trace_deadline(const struct vcpu *vcpu); /* the earliest */
void trace_tick(struct vcpu *vcpu);
void trace_unmasked(struct vcpu *vcpu);
bool trace_awaits_unmasking(const struct vcpu *vcpu);
void trace_interrupted(struct vcpu *vcpu, bool waits, bool shown);

/* trace.c. An instruction is complete, for the units alone: of one that the processor executed. */
void units_retired(struct vcpu *vcpu, const struct retired *retired);

/*
 * What a unit finds outside itself: the guest's memory by physical addresses, NULL where there is
 * none; whether such a page is the local APIC's; the guest's TSC. A region of its output is full;
 * LBR and BTS are suspended no more.
 */
uint8_t *platform_unit_page(struct vcpu *vcpu, uint64_t physical);
bool platform_unit_is_apic(struct vcpu *vcpu, uint64_t physical);
uint64_t platform_unit_tsc(struct vcpu *vcpu);
void platform_unit_interrupt(struct vcpu *vcpu);
void platform_unit_resumes(struct vcpu *vcpu);
