/* SPDX-License-Identifier: MIT */
/*
 * The program of a row of rows.h: a loop, calls, returns, an indirect jump and call, the row's
 * event, Jcc taken and not, in code of the row's size at the row's ring. Four WRMSRs switch units
 * on just before it, four off just after it; no other branch is in between but IRETQ into the
 * program, INT n out of it, and the handler of its event, which knows no kernel.
 */
#pragma once

#include "tests/lib/pt_decode.h"
#include "tests/suite/pairs/rows.h"

#include <stdbool.h>
#include <stdint.h>

enum { PAIR_WRITES = 4 };

struct pair_write {
	uint32_t msr, low, high;
};

/* pairs_enter() counts on the places of the first fields. */
struct pair_program {
	struct pair_write on[PAIR_WRITES], off[PAIR_WRITES];
	uint64_t frame[5]; /* RIP, CS, RFLAGS, RSP, SS */
	uint32_t data, arm_nmi;
	uint64_t rsi, rdi;
	const struct pair_row *row;
	uint8_t *code, *data_page, *user_stack, *interrupt_stack; /* pages of test_area() */
};

/* Allocates and maps its pages. Task context; pair_close() before the test is over. */
void pair_open(struct pair_program *program);
void pair_close(struct pair_program *program);

/* False: this processor has no such event. */
bool pair_has_event(const struct pair_row *row);

/* Write `n` of `on` gives the MSR `value`, that of `off` gives it `after`; those of `off` in the
   opposite order. */
void pair_set_write(struct pair_program *program, unsigned n, uint32_t msr, uint64_t value,
		    uint64_t after);

/* Runs the program of `row` on this CPU, which preemption does not change. */
void pair_run(struct pair_program *program, const struct pair_row *row);

/* Where the row's program runs: its first byte, the one of its event, its end. */
struct pair_places {
	uint64_t start, event, end;
};
struct pair_places pair_places(const struct pair_row *row);

/* Whether it is in the row's program, or in the code that pair_run() has around it. */
bool pair_has(const struct pair_row *row, uint64_t address);

/* A flow_find of a struct pair_program. */
bool pair_find(const void *program, uint64_t ip, struct flow_block *block);
