/* SPDX-License-Identifier: MIT */
/*
 * The performance counters of this CPU, driven by hand: from pmu_rig_open() to pmu_rig_close()
 * every counter that no other owner has is the test's, stopped, and the test stays on this CPU. A
 * counter is named as in drivers/pmu/pmu.h: by its bit in IA32_PERF_GLOBAL_CTRL.
 */
#pragma once

#include "drivers/lbr/registers.h"
#include "drivers/pmu/pmu.h"
#include "drivers/pmu/registers.h"

#include <stdbool.h>
#include <stdint.h>

/* IA32_PERFEVTSELx, beside drivers/pmu: SDM Vol 3, 18.2.1.1. */
#define PERFEVTSEL_EDGE	    (1ull << 18)
#define PERFEVTSEL_PC	    (1ull << 19)
#define PERFEVTSEL_ANY	    (1ull << 21)
#define PERFEVTSEL_INV	    (1ull << 23)
#define PERFEVTSEL_CMASK(n) ((uint64_t)(n) << 24)
#define FIXED_ANY	    4ull /* of IA32_FIXED_CTR_CTRL */
/* Architectural events: SDM Vol 3, table 18-1. */
#define EVENT_CYCLES	   0x3cull
#define EVENT_REFERENCE	   0x013cull
#define EVENT_INSTRUCTIONS 0xc0ull
#define EVENT_BRANCHES	   0xc4ull
#define EVENT_MISPREDICTED 0xc5ull
/* CPUID.0AH:EBX: the ones that a processor lacks. */
enum {
	NO_CYCLES = 1 << 0,
	NO_INSTRUCTIONS = 1 << 1,
	NO_REFERENCE = 1 << 2,
	NO_BRANCHES = 1 << 5,
	NO_MISPREDICTED = 1 << 6,
};
/* Version 4: SDM Vol 3, 18.2.4. */
#define IA32_PERF_GLOBAL_STATUS_SET 0x391u
#define IA32_PERF_GLOBAL_INUSE	    0x392u
#define STATUS_LBR_FRZ		    (1ull << 58)
#define STATUS_CTR_FRZ		    (1ull << 59)
#define INUSE_PMI		    (1ull << 63)
/* IA32_DEBUGCTL: SDM Vol 3, 17.4.7. */
#define FREEZE_LBRS    (1ull << 11)
#define FREEZE_PERFMON (1ull << 12)
/* IA32_PERF_CAPABILITIES: SDM Vol 3, 18.2.5. */
#define FULL_WIDTH_WRITES (1ull << 13)
#define PERF_METRICS	  (1ull << 15) /* later editions */

/* The counters of `set`, in order. */
#define EACH_COUNTER(n, set)                                                                       \
	for (unsigned n = 0; n < PMU_COUNTERS_MOST; n++)                                           \
		if ((set) >> n & 1)

/* Takes a counter of this CPU, and gives it back: 0, or the driver's error. One that a test kept,
   since it ended midway, is taken over: those after it are right all the same. */
int pmu_rig_request(unsigned n);
int pmu_rig_release(unsigned n);

/* The test stays on this CPU. It is skipped, and has no counter any more, where firmware left this
   one running, or any. */
void pmu_rig_need(unsigned n);
void pmu_rig_need_all(void);

/* Takes the counter too; the test ends where it is another's. */
void pmu_rig_take(unsigned n);

/* The bits of the counters. Skips the test without version 2, or where the events `unavailable`
   (CPUID.0AH:EBX) are not there. */
uint64_t pmu_rig_open(uint32_t unavailable);
void pmu_rig_close(uint64_t counters);

/* In a block: pmu_rig_open(), with the counters in `name`, and at the block's end pmu_rig_close().
 */
#define COUNTERS(name, unavailable)                                                                \
	uint64_t name CLOSED_BY(pmu_rig_closed) = pmu_rig_open(unavailable)
void pmu_rig_closed(const uint64_t *counters);

static inline bool pmu_rig_is_fixed(unsigned n)
{
	return n >= PMU_FIXED;
}

/* The counters of the set that can count cycles: the fixed ones of instructions and of the
 * reference clock cannot. */
static inline uint64_t pmu_rig_of_cycles(uint64_t counters)
{
	return counters & ~(5ull << PMU_FIXED);
}

/* The counters that CPUID.0AH of this CPU has, by bit: a CPU of a hybrid processor may have more
   than pmu_caps() says, and its registers have them all. The first that it has not, of each kind.
 */
uint64_t pmu_rig_here(void);

static inline unsigned pmu_rig_general_here(void)
{
	return (unsigned)__builtin_ctzll(~pmu_rig_here());
}

static inline unsigned pmu_rig_fixed_here(void)
{
	return (unsigned)__builtin_ctzll(~(pmu_rig_here() >> PMU_FIXED));
}

/* The MSR of a counter's value; what it can hold. */
uint32_t pmu_rig_msr(unsigned n);
uint64_t pmu_rig_mask(unsigned n);

/* The first returns what a counter has counted, the second the status bits. The last clears
   some of these. */
uint64_t pmu_rig_value(unsigned n);
uint64_t pmu_rig_status(void);
void pmu_rig_clear(uint64_t status);

/* IA32_PERFEVTSELx, or the counter's four bits of IA32_FIXED_CTR_CTRL; the others stay. */
void pmu_rig_control(unsigned n, uint64_t control);

/* The control that lets a counter count instructions (fixed ones: what they count) at the levels of
   PMU_OS and PMU_USR, with or without an interrupt at its overflow. */
uint64_t pmu_rig_counting(unsigned n, uint64_t levels, bool interrupt);

/* The same of cycles. */
uint64_t pmu_rig_counting_cycles(unsigned n, uint64_t levels, bool interrupt);

/* Makes the counter `left` events away from its overflow. */
void pmu_rig_load(unsigned n, uint64_t left);

/* ECX of RDPMC for a counter. */
static inline uint32_t pmu_rig_selector(unsigned n)
{
	return pmu_rig_is_fixed(n) ? 1u << 30 | (n - PMU_FIXED) : n;
}

/* RDPMC, by ECX: bit 63 of RCX is set. A value has bits too many where an upper half of RAX or RDX
   is not cleared. */
uint64_t pmu_rig_rdpmc(uint32_t selector);
bool pmu_rig_rdpmc_refused(uint32_t selector);

/* 200 NOPs, in a call. */
void pmu_rig_nops(void);

/* Writes IA32_PERF_GLOBAL_CTRL, executes 200 NOPs with IF = 0, clears it. */
void pmu_rig_run(uint64_t counters);

/* Whether counter `n` counts instructions; others count a clock. That may be slower than the NOPs:
   one of reference cycles moves when the bus clock does (table 18-8). */
static inline bool pmu_rig_is_exact(unsigned n)
{
	return n <= PMU_FIXED;
}

/* The same until counter `n` has moved, at the first run if it counts instructions. Returns how
   many runs that took; 0: it did not move. */
unsigned pmu_rig_run_until(unsigned n, uint64_t counters);
enum { PMU_RIG_RUNS = 1000 };

/* What counter `n` counts of 200 NOPs with this control and IA32_PERF_GLOBAL_CTRL; 0 is in both
   then. */
uint64_t pmu_rig_count(unsigned n, uint64_t control, uint64_t global);

/* The same until it has counted some; how many runs that took, 0: it counts nothing. All NOPs are
   in the first run of a counter of instructions. */
unsigned pmu_rig_counts(unsigned n, uint64_t control, uint64_t global);

/* True if it counts none in twice the runs in which it would have counted some. */
bool pmu_rig_rests(unsigned n, uint64_t control, uint64_t global, unsigned runs);

/* Whether counter `n` takes and holds these bits in its control. */
bool pmu_rig_takes(unsigned n, uint64_t control);

/* Counter `n` counts three branches under these conditions, with this IA32_PERF_GLOBAL_CTRL, and
   returns its value. Each is in a separate cycle: no cycle retires the 70 NOPs between two. */
uint64_t pmu_rig_branches(unsigned n, uint64_t conditions, uint64_t global);

/* Counter `n`, a general one, counts `event` from 0 on; it stops, and its value. */
void pmu_rig_begin(unsigned n, uint64_t event);
uint64_t pmu_rig_end(unsigned n);

/*
 * `run` records 64 branches whose directions are the bits that it is given; `marked` says how many
 * entries of the newer half are marked mispredicted. Of random directions some are, and in no case
 * more than the lowest of `counters`, a general one, counts.
 */
void pmu_rig_expect_mispredicted(uint64_t counters, void (*run)(uint64_t directions),
				 unsigned (*marked)(void));

/* Skips the test where the kernel drives no counters. */
void pmu_rig_need_version(void);

/* And where they are general counter 0 alone. */
void pmu_rig_need_two(void);

/* IA32_PERF_CAPABILITIES; 0 where there is none. */
uint64_t pmu_rig_capabilities(void);

/* Skips the test unless IA32_DEBUGCTL has its freeze bits: a hypervisor may refuse them. */
void pmu_rig_need_freeze(uint64_t bit);

/* What the handler of the newest interrupt read first; it stops nothing, clears the status bits of
   `counters` and unmasks the LVT entry. */
struct pmu_rig_interrupt {
	uint64_t control, status, debugctl;
	uint64_t value[PMU_COUNTERS_MOST]; /* of `counters` */
	uint32_t lvtpc;
	volatile unsigned count;
	void (*then)(void); /* unless NULL the handler calls it, last */
};
extern struct pmu_rig_interrupt pmu_rig_interrupt;

/* IA32_DEBUGCTL is the test's as well, and the interrupts of these counters arrive as NMIs. */
void pmu_rig_take_interrupts(uint64_t counters);
void pmu_rig_release_interrupts(void);

/* Returns once one has arrived: how late it is after its overflow the manual leaves open. None
   arrives after a few milliseconds. How many have. */
unsigned pmu_rig_await_interrupt(void);

/* Counter `n` overflows and interrupts in ring 3, with IA32_DEBUGCTL = `debugctl`, which is 0 then.
   Between user_visits_open() and user_visits_close(). */
void pmu_rig_overflow_in_user(unsigned n, uint64_t debugctl);

/* pmu_rig_run(), with that before the NOPs. */
void pmu_rig_run_interrupted(uint64_t counters);

/*
 * The stack of last branches of this CPU. Between lbr_open() and lbr_close() IA32_DEBUGCTL is the
 * test's, preemption is off, and nothing may end the test.
 */
#define LBR	       1ull /* of IA32_DEBUGCTL */
#define MSR_LBR_SELECT 0x1c8u

struct lbr_stack {
	uint8_t family, first, last; /* models */
	uint8_t depth;
	uint16_t from, to, top;
	bool select;
};

/* That of this processor, NULL if its family and model are not known here; the other skips then. */
const struct lbr_stack *lbr_known(void);
const struct lbr_stack *lbr_stack(void);

/* Architectural records, as a stack with `top` 0, NULL if leaf 1CH lacks a filter by level or by
   kind; else lbr_known(). */
const struct lbr_stack *lbr_either(void);

/* The same, and lends IA32_DEBUGCTL. Skips the test where a hypervisor shows no stack. The second
   takes architectural records, off and empty, as well. */
const struct lbr_stack *lbr_open(void);
const struct lbr_stack *lbr_open_either(void);
void lbr_close(void);

/* In a block: lbr_open(), with the stack in `name`, and at the block's end lbr_close(). */
#define LBR_STACK(name) const struct lbr_stack *name CLOSED_BY(lbr_closed) = lbr_open()
void lbr_closed(const struct lbr_stack *const *stack);

/* FROM or TO of the entry that is `back` before the newest. */
uint64_t lbr_newest(const struct lbr_stack *stack, unsigned back, bool to);

/* A check that FROM or TO of that entry is this address, flags and what extends the sign aside. */
#define EXPECT_FROM(stack, back, address)                                                          \
	lbr_expect(stack, back, false, (uint64_t)(address), CHECK_PLACE("FROM"), __BASE_FILE__)
#define EXPECT_TO(stack, back, address)                                                            \
	lbr_expect(stack, back, true, (uint64_t)(address), CHECK_PLACE("TO"), __BASE_FILE__)
void lbr_expect(const struct lbr_stack *stack, unsigned back, bool to, uint64_t address,
		uint32_t place, const char *path);

/*
 * Bits of FROM that may be flags, by LBR_FMT of IA32_PERF_CAPABILITIES (SDM Vol 3, 17.4.8.1). A
 * hypervisor that hides that register, as Xen does without vpmu, shows the host's entries all the
 * same: all three bits are, then.
 */
uint64_t lbr_from_flags(const struct lbr_stack *stack);

/* TOS; and the branches recorded since it was `before`, if they are fewer than the entries. */
uint32_t lbr_top(const struct lbr_stack *stack);
unsigned lbr_since(const struct lbr_stack *stack, uint32_t before);

/* The last event's branch: SDM Vol 3 of 2022, 18.1. */
#define IA32_LER_FROM_IP 0x1ddu
#define IA32_LER_TO_IP	 0x1deu
#define IA32_LER_INFO	 0x1e0u

/*
 * The registers of architectural last branch records. From arch_lbr_borrow() to
 * arch_lbr_give_back() those of this CPU are the test's, and preemption is off.
 */

/* Off, empty, and of the deepest depth, which it returns. Skips the test where there are none. */
unsigned arch_lbr_borrow(void);

/* Off, empty and deepest again. */
void arch_lbr_give_back(void);

/*
 * Runs `body` (assembly text) with IA32_LBR_CTL = `control` and IF = 0; IA32_LBR_CTL is 0 after.
 * The body may change RAX, RCX, RDX, RBX, R8 and the flags.
 */
#define ARCH_LBR_RECORDED(control, body)                                                           \
	do {                                                                                       \
		uint32_t low_ = (uint32_t)(control), high_ = 0, msr_ = IA32_LBR_CTL;               \
		__asm__ volatile("pushfq\n\tcli\n\twrmsr\n\t" body                                 \
				 "\n\tmovl $0x14ce, %%ecx\n\txorl %%eax, %%eax\n\t"                \
				 "xorl %%edx, %%edx\n\twrmsr\n\tpopfq"                             \
				 : "+a"(low_), "+d"(high_), "+c"(msr_)                             \
				 :                                                                 \
				 : "rbx", "r8", "memory", "cc");                                   \
	} while (0)
