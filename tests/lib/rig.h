/* SPDX-License-Identifier: MIT */
/*
 * A DS area and a BTS buffer that a test drives by hand. From rig_open() to rig_close() the test
 * has the debug MSRs of this CPU, preemption is off, and the LVT entry of the performance counters
 * is masked: a test that wants the interrupt takes it (pmi.h). What lies around the buffer and the
 * DS area is a pattern; rig_close() checks it. At most one rig at a time.
 *
 *	RIG(rig, 16);
 *	TRACED(rig_all(), "jmp 1f\n1:\n");
 *	EXPECT_EQ(rig_count(&rig), 1);
 */
#pragma once

#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/processor.h"
#include "tests/framework/test.h"

#include <stdbool.h>
#include <stdint.h>

struct rig {
	uint8_t *area_page; /* the DS area is at its start */
	void *area;
	uint8_t *pages; /* the buffer's pages, pattern where no slot is */
	size_t page_count;
	uint64_t base; /* of slot 0 */
	size_t slots;
	size_t record; /* bytes of one */
};

/* Without a rig: the debug MSRs of this CPU are the test's, and preemption is off, in between. */
void msrs_borrow(void);
void msrs_give_back(void);

/* Slots with the index at the base, absolute maximum at the end, threshold above it (wrap). */
void rig_open(struct rig *rig, size_t slots);

/* The same, with slot 0 `offset` bytes (less than a page) past the start of a page. */
void rig_open_at(struct rig *rig, size_t slots, size_t offset);

/* TR off, the MSRs given back, the patterns checked (up to one record past the maximum if
   `overrun` is allowed, as some silicon does). */
void rig_close(struct rig *rig);
void rig_close_overrun(struct rig *rig, size_t overrun_records);

/* In a block: `name` is a rig that is open from here to the block's end, where it is closed. */
#define RIG(name, slots)                                                                           \
	struct rig name CLOSED_BY(rig_close);                                                      \
	rig_open(&(name), slots)

/* Empties the buffer: slots zero, index at the base. TR must be off. */
void rig_reset(struct rig *rig);

/* Threshold at slot `slot` (of record boundaries; slots means the end). */
void rig_set_threshold(struct rig *rig, size_t slot);

/* The index field, raw and in records from the base (rounded down). */
uint64_t rig_index(const struct rig *rig);
size_t rig_count(const struct rig *rig); /* an index that is anywhere counts as so many: */
enum { RIG_COUNT_MOST = 1 << 20 };

/* The record in `slot`. */
struct bts_struct rig_record(const struct rig *rig, size_t slot);

/* Fails the test unless slot `slot` holds from -> to. */
void rig_expect(const struct rig *rig, size_t slot, const void *from, const void *to);

/* Fails the test unless the records are these, from slot 0 on: {from, to}, constants. */
#define EXPECT_RECORDS(rig, ...)                                                                   \
	do {                                                                                       \
		static const void *const expected_ends[][2] = {__VA_ARGS__};                       \
		rig_expect_records(rig, expected_ends,                                             \
				   sizeof(expected_ends) / sizeof(expected_ends[0]));              \
	} while (0)
void rig_expect_records(const struct rig *rig, const void *const ends[][2], size_t count);

/* Values for IA32_DEBUGCTL: TR and BTS, without and with BTINT. */
uint64_t rig_all(void);
uint64_t rig_interrupt(void);

/* IA32_DEBUGCTL.LBR; 0 where the processor does not take it beside TR. */
uint64_t rig_lbr(void);

/*
 * Runs `body` (assembly text) with IA32_DEBUGCTL = `value`, which is below 2^32, and IF = 0: the
 * only branches between the two WRMSRs are its own. It may change RAX, RCX, RDX and the flags.
 * WRMSR serialises: the records are in memory after.
 *
 * Operands that it needs follow as outputs, inputs, clobbers; outputs and inputs each in
 * OPERANDS():
 *
 *	TRACED_WITH(rig_all(), "movq %[in], %[out]", OPERANDS([out] "=&r"(x)),
 *		    OPERANDS([in] "r"(y)), "rbx");
 */
#define TRACED(value, body) TRACED_WITH(value, body, , )
#define OPERANDS(...)	    , __VA_ARGS__
#define TRACED_WITH(value, body, outputs, inputs, ...)                                             \
	do {                                                                                       \
		uint32_t traced_low = (uint32_t)(value);                                           \
		uint32_t traced_high = 0, traced_msr = IA32_DEBUGCTL;                              \
		__asm__ volatile(                                                                  \
			"pushfq\n\tcli\n\twrmsr\n\t" body "\n\t"                                   \
			"movl $0x1d9, %%ecx\n\txorl %%eax, %%eax\n\txorl %%edx, %%edx\n\t"         \
			"wrmsr\n\tpopfq\n\t"                                                       \
			: "+&a"(traced_low), "+&d"(traced_high), "+&c"(traced_msr)outputs          \
			: "i"(0)inputs                                                             \
			: "memory", "cc", ##__VA_ARGS__);                                          \
	} while (0)

/*
 * What an exact count needs around a TRACED() bracket: a control run without any branch before it,
 * and another try from an empty buffer when a system management interrupt came in between. The
 * branches of its handler, or none at all from there on, may have been recorded.
 *
 *	EXACTLY(&rig)
 *		TRACED(rig_all(), "...");
 */
struct exact {
	struct rig *rig;
	uint64_t smi_count;
	unsigned tries;
};

#define EXACTLY(of_rig) for (struct exact exact = exact_begin(of_rig); exact_again(&exact);)

/* The control run: ends the test if a bracket without a branch leaves a record. */
struct exact exact_begin(struct rig *rig);

/* True if the bracket has to be run (again). */
bool exact_again(struct exact *exact);

/* For tests of the buffer's end: a rig whose buffer ends before its memory does. */

/*
 * Gives the buffer of `rig` its first `slots` slots only, with the maximum `extra` bytes above
 * their end and the threshold one record above it: what is written further on can be seen.
 * Empties the buffer.
 */
void rig_shorten(struct rig *rig, size_t slots, uint64_t extra);

/* Makes all slots readable again; the buffer keeps its content and index. TR must be clear. */
void rig_lengthen(struct rig *rig);

/* Slots from 0 on, up to the last one that is not all zero. Whatever the maximum. */
size_t rig_used(const struct rig *rig);

/* Two jumps whose records may fail to be stored: a page fault then ends the trace, not the test. */
extern const char two_jumps_from1[], two_jumps_to1[], two_jumps_from2[], two_jumps_to2[];

/* With IA32_DEBUGCTL = `debugctl`; true if there was a fault. Under a rig. */
bool two_jumps_fault(uint64_t debugctl);

struct msr_trial {
	bool refused;	    /* the write raised an exception: trap_caught() says which */
	uint64_t read_back; /* what the MSR held after the write; 0 if it cannot be read */
};

/*
 * Writes `value` to MSR `index`, reads it back, writes `restore`, with no branch between the first
 * write and its undoing, and IF = 0 meanwhile; no rig is needed. IA32_DEBUGCTL and IA32_DS_AREA:
 * only while they are lent (ds_checkout).
 */
struct msr_trial msr_try(uint32_t index, uint64_t value, uint64_t restore);

/* Whether RDMSR raises #GP, and WRMSR of 0. */
bool msr_is_refused(uint32_t index);

/* The outcome for `bits`: "gp", "ignored" or "kept" (any of them). */
const char *msr_trial_word(const struct msr_trial *trial, uint64_t bits);
