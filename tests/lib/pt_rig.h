/* SPDX-License-Identifier: MIT */
/*
 * Intel PT that a test drives by hand, through drivers/pt, on chunks of 4 KiB. From pt_open() to
 * pt_close() interrupts are off, the test stays on its CPU, and nothing in between may end it but
 * REQUIRE() with TraceEn clear. Chunks hold a byte that begins no packet until they are written.
 *
 *	struct pt_rig rig;
 *	pt_open(&rig, 1, false);
 *	wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
 *	pt_stop(&rig.trace);
 *	pt_close(&rig);
 */
#ifndef SPOOR_TESTS_LIB_PT_RIG_H
#define SPOOR_TESTS_LIB_PT_RIG_H

#include "drivers/msr.h"
#include "drivers/pt/pt.h"
#include "drivers/pt/registers.h"
#include "tests/framework/test.h"

enum { PT_RIG_CHUNKS = 4, PT_RIG_BYTES = 4096, PT_RIG_POISON = 0x05 };

/* Branches at CPL 0. */
#define PT_PLAIN (RTIT_CTL_OS | RTIT_CTL_BRANCH_EN)

struct pt_rig {
	struct pt_trace trace;
	uint64_t *table;
	uint8_t *memory; /* of the chunks, and of a guard page after them */
	uint64_t chunks[PT_RIG_CHUNKS];
	uint64_t flags;
};

/* Fails the test where the driver refuses. Fewer chunks where the processor has one only. */
void pt_open(struct pt_rig *rig, size_t chunks, bool circular);

/* TraceEn off; the guard page is checked. */
void pt_close(struct pt_rig *rig);

/* Poisons the chunks, empties the buffer, loads it again with `control`. Ends the test if refused.
 */
void pt_again(struct pt_rig *rig, uint64_t control);

/* The physical address of a page of test_area(). */
uint64_t pt_physical(const void *page);

/* Value for IA32_RTIT_CTL that starts what is loaded. */
static inline uint64_t pt_on(uint64_t control)
{
	return control | RTIT_CTL_TOPA | RTIT_CTL_TRACE_EN;
}

#endif
