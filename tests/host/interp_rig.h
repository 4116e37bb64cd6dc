/* SPDX-License-Identifier: MIT */
/*
 * A virtual processor with memory and page tables for the tests of the monitor's interpreter. The
 * memory lies at RIG_BASE in the test as well as in the guest, so that the same code can run in
 * both.
 */
#pragma once

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "monitor/interp/context.h"
#include "monitor/interp/control.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/registers.h"
#include "monitor/interp/segment.h"
#include "tests/host/host.h"

#define RIG_BASE 0x10000000ull

/* Pages of the guest's memory, by offset from RIG_BASE; physical addresses are these offsets. */
enum {
	RIG_PML4 = 0x1000,
	RIG_PDPT = 0x2000,
	RIG_PD = 0x3000,
	RIG_PT = 0x4000, /* the first 2 MiB, page by page */
	RIG_GDT = 0x5000,
	RIG_IDT = 0x6000,
	RIG_TSS = 0x7000,
	RIG_STATE = 0x8000,
	RIG_CODE = 0x10000,
	RIG_HANDLERS = 0x20000, /* 16 bytes for each vector */
	RIG_STACK = 0x40000,	/* tops */
	RIG_STACK0 = 0x42000,
	RIG_IST1 = 0x44000,
	RIG_DATA = 0x50000,
	RIG_DEVICE = 0x70000,  /* platform_guest_page() answers NULL */
	RIG_WATCHED = 0x71000, /* platform_takes_writes() answers true */
	RIG_MEMORY = 0x400000,
};

/* Their linear addresses. */
#define CODE		(RIG_BASE + RIG_CODE)
#define DATA		(RIG_BASE + RIG_DATA)
#define STACK		(RIG_BASE + RIG_STACK)
#define STACK0		(RIG_BASE + RIG_STACK0)
#define IST1		(RIG_BASE + RIG_IST1)
#define HANDLER(vector) (RIG_BASE + RIG_HANDLERS + (vector)*16)

enum {
	RIG_KERNEL_CS = 0x08,
	RIG_KERNEL_SS = 0x10,
	RIG_USER_SS = 0x1b,
	RIG_USER_CS = 0x23,
	RIG_TR = 0x28
};
enum {
	RIG_P = 1,
	RIG_W = 2,
	RIG_U = 4,
	RIG_A = 0x20,
	RIG_D = 0x40,
	RIG_ALL = RIG_P | RIG_W | RIG_U
};
#define RIG_NX (1ull << 63)

extern struct interp_rig {
	struct vcpu vcpu;
	uint8_t *memory;
	void *caches, *thunks;
	uint64_t cr8, msr[4];
	enum native_outcome (*native)(struct vcpu *vcpu, struct fault *fault); /* platform_step() */
	bool (*save_state)(struct vcpu *vcpu, uint64_t rip, uint64_t *area);
	bool (*load_state)(struct vcpu *vcpu, const uint64_t *area);
	char stopped[512]; /* platform_stop(), which goes on at `stop` */
	jmp_buf stop;
	unsigned outs, ins;
	uint32_t out[64];
	unsigned writes; /* by platform_write(): the last one */
	uint64_t written_at, written;
} rig;

/* The page-table entry of a page of the first 2 MiB; a gate of the IDT, whose handler is returned.
 */
uint64_t *rig_pte(uint64_t offset);
uint64_t rig_gate(unsigned vector, unsigned type, unsigned ist);

/* 64-bit code at CPL 0, everything mapped for everybody, traced. */
void rig_reset(void);
void rig_to_user(void);
void rig_code(uint64_t offset, const void *code, size_t bytes);

/* Places the bytes at RIG_CODE. */
#define RIG_PROGRAM(...)                                                                           \
	rig_code(RIG_CODE, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* Executes `n` instructions, whatever stops it on the way; the last reason. */
enum interp_stop rig_step(unsigned n);

uint64_t rig_word(uint64_t linear);

/* interp_observer.c replaces monitor/trace.c in tests of the interpreter: it keeps what is
 * reported. */

enum sight_kind {
	SIGHT_BRANCH,
	SIGHT_EVENT,
	SIGHT_NOT_TAKEN,
	SIGHT_RETIRED,
	SIGHT_CR3,
	SIGHT_MODE,
	SIGHT_HALT,
};

enum { SIGHTS_KEPT = 64, BRANCHES_KEPT = 4096 };

/* Taken branches and events alone, and the first observations of every kind. Zeroed by
   observer_reset(). */
extern struct observations {
	unsigned branches;
	struct {
		uint64_t from, to;
		unsigned from_cpl, to_cpl;
	} branch[BRANCHES_KEPT];
	unsigned sights;
	struct retired retired; /* the last one */
	struct sight {
		enum sight_kind kind;
		uint64_t value; /* `from`; a mode's bits; CR3 */
	} sight[SIGHTS_KEPT];
} observer;

void observer_reset(void);

/* Before a test: that and rig_reset(). */
int observer_begin(void **state);

/* Of the branch or event `n`. */
void check_branch(unsigned n, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl);
