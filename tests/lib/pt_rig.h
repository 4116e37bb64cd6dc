/* SPDX-License-Identifier: MIT */
/*
 * Intel PT that a test drives by hand, through drivers/pt, on chunks of 4 KiB. From pt_open() to
 * pt_close() interrupts are off, and nothing in between may end the test but REQUIRE() with TraceEn
 * clear. It is on the CPU to which it was moved before, or the last one, and stays there. Chunks
 *hold a byte that begins no packet until they are written.
 *
 *	PT_RIG(rig, 1, false);
 *	wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
 *	pt_stop(&rig.trace);
 */
#pragma once

#include "drivers/processor.h"
#include "drivers/pt/pt.h"
#include "drivers/pt/registers.h"
#include "tests/framework/test.h"
#include "tests/lib/pt_decode.h"

enum { PT_RIG_CHUNKS = 4, PT_RIG_BYTES = 4096, PT_RIG_POISON = 0x05 };

/* Branches at CPL 0. */
#define PT_PLAIN (RTIT_CTL_OS | RTIT_CTL_BRANCH_EN)

enum { PT_RIG_BLOCKS = 13 };

struct pt_rig {
	struct pt_trace trace;
	uint64_t *table;
	uint8_t *memory; /* of the chunks, and of a guard page after them */
	uint64_t chunks[PT_RIG_CHUNKS];
	uint64_t first, last; /* of PT_TRACED() */
	uint64_t flags;
	struct flow_block blocks[PT_RIG_BLOCKS]; /* of code that notes no branches */
	unsigned block_count;
};

/* Fails the test where the driver refuses. Fewer chunks where the processor has one only. */
void pt_open(struct pt_rig *rig, size_t chunks, bool circular);

/* TraceEn off; the guard page is checked. */
void pt_close(struct pt_rig *rig);

/* Skip the test where the processor has no CYC packets, PSBFreq and PacketByteCnt; no CR3 filter;
   not so many address ranges; one region of output alone. */
void pt_need_cycles(void);
void pt_need_cr3_filter(void);
void pt_need_ranges(unsigned count);
void pt_need_tables(void);

/* In a block: `name` is open from here to the block's end, where it is closed. */
#define PT_RIG(name, chunks, circular)                                                             \
	struct pt_rig name CLOSED_BY(pt_close);                                                    \
	pt_open(&(name), chunks, circular)

/* Poisons the chunks, empties the buffer, loads it again with `control`. Ends the test if refused.
 */
void pt_again(struct pt_rig *rig, uint64_t control);

/* The physical address of a page of test_area(). */
uint64_t pt_physical(const void *page);

static inline uint64_t pt_own_cr3(void)
{
	uint64_t cr3;

	__asm__ volatile("movq %%cr3, %0" : "=r"(cr3));
	return cr3;
}

/* Another CR3 of this address space: its PML4 table is a copy. Skips the test where the processor
   has no CR3 filter. */
uint64_t pt_other_cr3(void);

/* Value for IA32_RTIT_CTL that starts what is loaded. */
static inline uint64_t pt_on(uint64_t control)
{
	return control | RTIT_CTL_TOPA | RTIT_CTL_TRACE_EN;
}

/* Of PT_TRACED(): TraceEn is clear; stops, and notes where the code was. */
void pt_traced(struct pt_rig *rig, uint64_t first, uint64_t last);

/*
 * Runs `body` (assembly text) with IA32_RTIT_CTL = `control`, ToPA and TraceEn, then stops. It may
 * change all general registers but RSP and RBP. `first` is then the address of its first
 * instruction, `last` that of the WRMSR that clears TraceEn, which is PT_TRACED_TAIL bytes after
 * the end of the body.
 */
#define PT_TRACED(rig, control, body) PT_TRACED_AS(rig, pt_on(control), body)

/* The same with `value` in IA32_RTIT_CTL. */
#define PT_TRACED_AS(rig, value, body)                                                             \
	do {                                                                                       \
		uint64_t traced_value = (value), traced_first, traced_last = traced_value >> 32;   \
		uint32_t traced_low = (uint32_t)traced_value, traced_msr = IA32_RTIT_CTL;          \
		uint32_t traced_off = traced_low & ~(uint32_t)RTIT_CTL_TRACE_EN;                   \
                                                                                                   \
		__asm__ volatile(                                                                  \
			"wrmsr\n881:\n\t" body "\n\t"                                              \
			"movl $0x570, %%ecx\n\tmovl %[off], %%eax\n\t"                             \
			"movl %[high], %%edx\n882:\twrmsr\n\t"                                     \
			"leaq 881b(%%rip), %%rsi\n\tleaq 882b(%%rip), %%rdx"                       \
			: "+&a"(traced_low), "+&d"(traced_last), "+&c"(traced_msr),                \
			  "=&S"(traced_first)                                                      \
			: [off] "r"(traced_off), [high] "r"((uint32_t)(traced_value >> 32))        \
			: "rbx", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");                 \
		pt_traced(rig, traced_first, traced_last);                                         \
	} while (0)
enum { PT_TRACED_TAIL = 11 };

/* PT_TRACED() of NOP. */
void pt_trace_nop(struct pt_rig *rig, uint64_t control);

static inline uint64_t pt_body_end(const struct pt_rig *rig)
{
	return rig->last - PT_TRACED_TAIL;
}

/*
 * Another processor, where there is one, that traces in turns, with interrupts off. Opened before
 * pt_open() and closed after pt_close(). Started between the two: returns after two turns.
 */
struct task;
struct pt_beside {
	struct pt_rig rig;
	void (*turn)(struct pt_rig *rig);
	struct task *task;
};
void pt_beside_open(struct pt_beside *beside, void (*turn)(struct pt_rig *rig));
void pt_beside_start(const struct pt_beside *beside);
void pt_beside_close(const struct pt_beside *beside);

/* Joins and frees it: an idle processor does not, which asks all to forget its stack. One that
   waits with interrupts off for a task of that processor would never answer. */
void pt_join(struct task *task);

/* A turn: begins and ends a trace of kernel code and ring 3. */
void pt_switch_beside(struct pt_rig *rig);

/* Begins and ends a trace; IA32_RTIT_CTL has to be what was written. */
void pt_switch(uint64_t on, uint64_t off);

/* --- By meaning ------------------------------------------------------------------------------ */

/*
 * Branches of code that a decoder has to know, as assembly text; PT_NOTE() notes where one is in a
 * table of all tests. A label is a number with f or b; the text must not use 991 and 992.
 */
#define PT_NOTE(kind, label, text)                                                                 \
	"991:\t" text "\n992:\t.pushsection .pt_program, \"a\"\n\t"                                \
	".long 991b + 0x80000000, " label " + 0x80000000\n\t.byte 992b - 991b, " kind              \
	", 0, 0\n\t.popsection\n\t"
#define PT_JCC(jcc, label)  PT_NOTE("1", label, jcc " " label)
#define PT_JMP(label)	    PT_NOTE("2", label, "jmp " label)
#define PT_CALL(label)	    PT_NOTE("3", label, "call " label)
#define PT_JMP_TO(operand)  PT_NOTE("4", "0", "jmp *" operand)
#define PT_CALL_TO(operand) PT_NOTE("5", "0", "call *" operand)
#define PT_RET		    PT_NOTE("6", "0", "ret")
#define PT_FAR(text)	    PT_NOTE("7", "0", text)
#define PT_CR3(text)	    PT_NOTE("8", "0", text)

/* One more branch of the rig's program, which has no direct target. */
void pt_add_branch(struct pt_rig *rig, enum flow_kind kind, const void *at, unsigned bytes);

/* A flow_find of a struct pt_rig: up to the next branch that is noted, or the WRMSR at `last`. */
bool pt_find_noted(const void *program, uint64_t ip, struct flow_block *block);

/* What packets say of a program; direct JMP and CALL are found on the way. */
enum pt_seen {
	SEEN_BEGIN,	/* packets begin at `to` */
	SEEN_TAKEN,	/* Jcc */
	SEEN_NOT_TAKEN, /* Jcc */
	SEEN_TARGET,	/* `to` of an indirect branch, far one or RET */
	SEEN_RETURN,	/* the same of a RET, with its target or compressed */
	SEEN_EVENT,	/* from `from` to `to`; a second FUP, if there is one, is `bytes` after */
	SEEN_MODE,	/* MODE.Exec of bits `to` */
	SEEN_CR3,	/* PIP of `to` */
	SEEN_LEAVE,	/* a branch to `to` ends the packets */
	SEEN_END,	/* an event from `from` does */
	SEEN_STOP,	/* TraceStop */
};
struct pt_expected {
	enum pt_seen seen;
	unsigned bytes;
	uint64_t to, from;
};

/* The capture's packets are legal and say this, and no more. MODE.Exec and PIP while packets are
   off and within PSB+ are not among it. */
void pt_expect_flow(const struct pt_rig *rig, const struct pt_expected *expected, size_t count);

/* The same between the packets of enabling and those of disabling of PT_TRACED(). */
void pt_expect_body(const struct pt_rig *rig, const struct pt_expected *expected, size_t count);

#define PT_EXPECT_FLOW(rig, ...)                                                                   \
	pt_expect_flow(rig, (const struct pt_expected[]){__VA_ARGS__},                             \
		       sizeof((const struct pt_expected[]){__VA_ARGS__}) /                         \
			       sizeof(struct pt_expected))
#define PT_EXPECT_BODY(rig, ...)                                                                   \
	pt_expect_body(rig, (const struct pt_expected[]){__VA_ARGS__},                             \
		       sizeof((const struct pt_expected[]){__VA_ARGS__}) /                         \
			       sizeof(struct pt_expected))

/* Returns of the capture without a target in their packets. */
unsigned pt_compressed(const struct pt_rig *rig);

/* The time that a TSC packet has now; 0 under a foreign hypervisor, whose guest may read another
   TSC than its packets have (SDM Vol 3, 36.5.2.5). */
uint64_t pt_time_now(void);

/* The capture's packets, one by one, with their grammar: packet_next(). */
void pt_reader(const struct pt_rig *rig, struct packet_reader *reader);

/* In a block: each of them in `packet`; `reader` is there to the block's end, once. */
#define EACH_PACKET(rig, reader, packet)                                                           \
	struct packet_reader reader;                                                               \
	pt_reader(rig, &(reader));                                                                 \
	for (struct packet packet; packet_next(&(reader), &(packet));)

/* The capture with its program: flow_next(). At the end the check that it is one. */
void pt_flow(const struct pt_rig *rig, struct flow *flow);
void pt_expect_end(const struct flow *flow);

/* In a block: each item of it in `item`; `flow` is there to the block's end, once. */
#define EACH_FLOW(rig, flow, item)                                                                 \
	struct flow flow;                                                                          \
	pt_flow(rig, &(flow));                                                                     \
	for (struct flow_item item; flow_next(&(flow), &(item));)
