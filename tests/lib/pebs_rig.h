/* SPDX-License-Identifier: MIT */
/*
 * A PEBS buffer that a test drives by hand, in the DS area of a rig: counter 0, IA32_PEBS_ENABLE
 * and what belongs to it are the test's from pebs_open() to pebs_close(), preemption is off. What
 * lies around the buffer is a pattern, and so is each slot until a record is there.
 *
 *	PEBS(pebs, 8);
 *	pebs_arm(&pebs, 0, 100);
 *	pebs_run_jumps(1, 150);
 *	EXPECT_EQ(pebs_count(&pebs), 1);
 */
#pragma once

#include "drivers/pmu/registers.h"
#include "kernel/cpu.h"
#include "kernel/trace/context.h"
#include "lib/string.h"
#include "tests/lib/rig.h"

/* Of IA32_PERF_CAPABILITIES. */
#define BASELINE (1ull << 14)

/* From Skylake on: SDM Vol 3, 18.13. */
#define MSR_PEBS_FRONTEND 0x3f7u

/* MSR_PEBS_DATA_CFG: groups of an adaptive record. */
#define CFG_MEMINFO    1ull
#define CFG_GPR	       2ull
#define CFG_XMM	       4ull
#define CFG_LBR	       8ull
#define CFG_ENTRIES(n) (((n)-1ull) << 24)

struct pebs {
	struct rig rig;
	unsigned format;
	bool adaptive;	/* IA32_PERF_CAPABILITIES.PEBS_BASELINE; else format 4 has the basic group
			   alone */
	uint64_t event; /* event select and unit mask of the portable event, with USR and OS */
	bool branches;	/* it is branches retired, not instructions */
	size_t slots, record;
	uint8_t *pages;
	size_t page_count;
	uint64_t base;
};

/* More than 4 KiB of format 0 hang Core 2. Ends the test as SKIP where the format is unknown, or
 * there are no counters of version 2. */
void pebs_open(struct pebs *pebs, size_t slots);

/* Everything off and given back; the patterns checked. */
void pebs_close(struct pebs *pebs);

/* As RIG(): open from here to the end of the block. */
#define PEBS(name, slots)                                                                          \
	struct pebs name CLOSED_BY(pebs_close);                                                    \
	pebs_open(&(name), slots)

/* Poisons the slots; index at the base, threshold above the end; status clear. */
void pebs_reset(struct pebs *pebs);

/* Counter `n` counts `event` from -period on, its reset value is -period, it takes samples. It runs
   once IA32_PERF_GLOBAL_CTRL says so. A fixed counter has its own event, at the levels of `event`.
 */
void pebs_arm_event(struct pebs *pebs, unsigned n, uint64_t event, uint64_t period);
void pebs_arm(struct pebs *pebs, unsigned n, uint64_t period);

/* The counters that take samples, by bit as in drivers/pmu/pmu.h: of the fixed ones, which do with
   PEBS_BASELINE, that of instructions alone. */
uint64_t pebs_counters(const struct pebs *pebs);

/* The reset value of counter `n`. */
void pebs_set_reset(struct pebs *pebs, unsigned n, uint64_t value);

/* More of them than any processor lets pass there is not. */
enum { PEBS_SKID_MOST = 64 };

/* Events between the one after an overflow of counter 0 and the one that is sampled: "a finite
   delay", SDM Vol 3, 18.9.4.4, which need not be the same at the next overflow. Fails the test
   where there is no sample. The counter is free after. */
uint64_t pebs_skid(struct pebs *pebs);

/* The most of eight overflows. */
uint64_t pebs_longest_skid(struct pebs *pebs);

/* Fields of the PEBS half of the DS area. */
void pebs_set(struct pebs *pebs, enum ds_field field, uint64_t value);
uint64_t pebs_get(const struct pebs *pebs, enum ds_field field);
void pebs_set_threshold(struct pebs *pebs, size_t slot);
size_t pebs_count(const struct pebs *pebs); /* by the index */

/* Whether the slot is as pebs_reset() left it. */
bool pebs_is_poison(const struct pebs *pebs, size_t slot);

/* A record whatever its format. What a format does not have is 0. */
struct pebs_sample {
	uint64_t ip;	   /* where the program goes on */
	uint64_t event_ip; /* of the instruction that was sampled; formats 2 and later */
	uint64_t flags, registers[16]; /* RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15 */
	uint64_t status;	       /* the counters, formats 1 and later */
	uint64_t address, source, latency;
	uint64_t tsc; /* formats 3 and later */
};
struct pebs_sample pebs_sample(const struct pebs *pebs, size_t slot);

/* Whether its records have the registers, and where the program goes on. */
static inline bool pebs_has_state(const struct pebs *pebs)
{
	return pebs->format < 4 || pebs->adaptive;
}

/* Unless it has: closes, and ends the test as SKIP that says what it lacks. */
void pebs_need(struct pebs *pebs, bool has, const char *lacks);
void pebs_need_state(struct pebs *pebs);

/* An address of a record that has any. */
static inline uint64_t pebs_place(const struct pebs_sample *sample)
{
	return sample->ip ? sample->ip : sample->event_ip;
}

/* Where the records of a body of distinct instructions are to be: see SAMPLED(). */
static inline uint64_t pebs_quadword(const struct pebs *pebs, size_t slot, size_t n)
{
	uint64_t value;

	memcpy(&value, (const void *)(pebs->base + slot * pebs->record + 8 * n), sizeof(value));
	return value;
}

/* Runs `body` with IA32_PERF_GLOBAL_CTRL = `counters` and IF = 0. It may change all general
   registers but RSP and RBP. */
#define SAMPLED(counters, body)                                                                    \
	do {                                                                                       \
		uint32_t sampled_low = (uint32_t)(counters), sampled_msr = IA32_PERF_GLOBAL_CTRL;  \
		uint32_t sampled_high = (uint32_t)((uint64_t)(counters) >> 32);                    \
                                                                                                   \
		__asm__ volatile(                                                                  \
			"pushfq\n\tcli\n\twrmsr\n\t" body "\n\t"                                   \
			"movl $0x38f, %%ecx\n\txorl %%eax, %%eax\n\txorl %%edx, %%edx\n\t"         \
			"wrmsr\n\tpopfq"                                                           \
			: "+&a"(sampled_low), "+&d"(sampled_high), "+&c"(sampled_msr)              \
			:                                                                          \
			: "rbx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",      \
			  "r15", "memory", "cc");                                                  \
	} while (0)

/* CALL, `n` jumps to the next instruction (4000 at most), RET: each one instruction and one branch.
 */
#define JUMPS(n) "call pebs_jumps+2*(4000-" #n ")\n\t"

/* Runs JUMPS(jumps), as SAMPLED() does. */
void pebs_run_jumps(uint64_t counters, uint64_t jumps);

/* Where there is Intel PT, sets TraceEn of a trace that Stopped keeps from any output, or clears
   both. */
void pebs_trace_stopped(bool on);

/* Counter 0 takes samples: for a test in which nothing is to be sampled otherwise. */
void pebs_expect_samples(struct pebs *pebs);

/* Counter 0, or in ring 2 the fixed one of pebs_counters(), takes samples of `levels` while ring 1
   or 2 runs, where there are more events than any delay before a sample has. The caller has no own
   GDT loaded. */
void pebs_run_ring(struct pebs *pebs, unsigned ring, uint64_t levels);

/* How many of the portable event `statement`, by counter 0, makes: counted, not sampled. */
#define EVENTS_OF(pebs, statement)                                                                 \
	({                                                                                         \
		pebs_count_plainly(pebs);                                                          \
		statement;                                                                         \
		rdmsr(IA32_PMC0);                                                                  \
	})
void pebs_count_plainly(struct pebs *pebs);
